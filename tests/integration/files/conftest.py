"""A client of each serializer that files are applied with."""

import pytest
import redis

from tests.integration.files.applying import JobsFile
from zsched.client import Client


@pytest.fixture(params=["pickle", "json"])
def jobs(request: pytest.FixtureRequest, redis_client: redis.Redis) -> JobsFile:
    return JobsFile(Client(redis_client, serializer=request.param))
