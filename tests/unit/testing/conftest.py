"""The Redis of these tests' schedulers, and the calls of ``tasks``, which each test begins empty."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.testing import tasks
from tests.unit.testing.tasks import NINE
from zsched.testing import ManualScheduler


@pytest.fixture(autouse=True)
def _calls() -> None:
    tasks.CALLS.clear()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.redis)])
def ground(request: pytest.FixtureRequest) -> Any:
    """The Redis for a scheduler."""
    return None if request.param == "fake" else request.getfixturevalue("redis_client")


@pytest.fixture
def scheduler(ground: Any) -> Iterator[ManualScheduler]:
    with ManualScheduler(ground, start=NINE) as scheduler:
        yield scheduler
