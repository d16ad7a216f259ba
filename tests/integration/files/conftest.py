"""A client of each serializer that files are applied with."""

from __future__ import annotations

import pytest
import redis

from tests.integration.files.ground import Ground
from zsched.client import Client


@pytest.fixture(params=["pickle", "json"])
def ground(request: pytest.FixtureRequest, redis_client: redis.Redis) -> Ground:
    return Ground(Client(redis_client, serializer=request.param))
