"""A namespace with a leader by hand, an archive that follows, and ``zsched archive recover`` with that archive."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.builders.scenes import Scene
from tests.integration.cli_recover.losses import Recover


@pytest.fixture
def scene(redis_client: redis.Redis, redis_url: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(redis_client, redis_url, tmp_path)
    yield scene
    scene.close()


@pytest.fixture
def zsched(redis_url: str, scene: Scene) -> Recover:
    return Recover(redis_url, scene.archive.path)
