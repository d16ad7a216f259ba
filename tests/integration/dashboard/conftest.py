"""A browser at ``/rq`` of a running ``zsched web`` that has logged in, and a Redis with runs of every kind."""

from collections.abc import Iterator

import httpx
import pytest
import redis

from tests.builders.web import Web
from tests.integration.dashboard.runs import fill


@pytest.fixture
def browser(web: Web) -> Iterator[httpx.Client]:
    with web.browser(sees_arguments=True, at="/rq") as client:
        yield client


@pytest.fixture
def filled(redis_client: redis.Redis, request: pytest.FixtureRequest) -> redis.Redis:
    """A client of a Redis with runs of every kind, by the serializer that the test's parameter names, or by pickle."""
    fill(redis_client, getattr(request, "param", "pickle"))
    return redis_client
