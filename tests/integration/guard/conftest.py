"""A forge on the emptied server."""

from pathlib import Path

import pytest
import redis

from tests.builders.leaders import know
from tests.integration.guard.forging import Forge


@pytest.fixture
def forge(redis_url: str, redis_client: redis.Redis, tmp_path: Path) -> Forge:
    know(redis_client)
    return Forge.of(redis_url, tmp_path, redis_client)


@pytest.fixture(params=["zsched.rq.Worker", "zsched.rq.SimpleWorker"])
def kind(request: pytest.FixtureRequest) -> str:
    """A class of workers."""
    return str(request.param)
