"""A running ``zsched web`` for the tests of a file, and a browser at its ``/rq`` that has logged in."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import redis

from tests.integration.web.ground import Web
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard


@pytest.fixture(scope="module")
def web(redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Guard() as guard:
        yield Web(guard, redis_server.url, tmp_path_factory.mktemp("web"))


@pytest.fixture
def browser(web: Web, redis_client: redis.Redis) -> Iterator[httpx.Client]:
    with web.browser(sees_arguments=True, at="/rq") as client:
        yield client
