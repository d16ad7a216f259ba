"""Leaders with a tracker and with lost runs, called step by step."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.builders.leaders import know
from tests.integration.ends.tracking import Losing, Tracking
from zsched.daemon import tracker


@pytest.fixture
def tracking(
    redis_client: redis.Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Tracking]:
    know(redis_client)
    monkeypatch.setattr(tracker, "_ROUND_EVERY_MS", 0.0)
    with closing(Tracking(redis_client, redis_url, tmp_path / "archive.db")) as tracking:
        tracking.follow()
        yield tracking


@pytest.fixture
def losing(
    redis_client: redis.Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Losing]:
    """A leader that counts a run as lost at once."""
    know(redis_client)
    monkeypatch.setattr(tracker, "_ROUND_EVERY_MS", 0.0)
    with closing(Losing(redis_client, redis_url, tmp_path / "archive.db", (0, 0))) as losing:
        losing.follow()
        yield losing


@pytest.fixture
def no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the search through the state."""
    monkeypatch.setattr(tracker, "_LOOKED_AT", 0)
    monkeypatch.setattr(tracker, "_LOOKED_AT_FIRST", 0)
