"""A running ``zsched web`` for the tests of a file, on an empty Redis for each; a client with an operator's token."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.builders.web import Web
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

_NETWORKS = count(1)


@pytest.fixture
def http(web: Web) -> Iterator[httpx.Client]:
    with web.client() as client:
        yield client


@pytest.fixture
def browser(web: Web) -> Iterator[httpx.Client]:
    """A browser of Ann, an operator, who has logged in."""
    with web.browser() as client:
        yield client


@pytest.fixture
def stranger(web: Web) -> Iterator[httpx.Client]:
    """A browser without a login."""
    with web.stranger() as client:
        yield client


@pytest.fixture(scope="module")
def server_of_a_proxy(redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Guard() as guard:
        folder = tmp_path_factory.mktemp("proxy")
        yield Web(guard, redis_server.url, folder, ZSCHED_WEB_PROXY_ADDRESSES="127.0.0.1")


@pytest.fixture
def web_of_a_proxy(server_of_a_proxy: Web, redis_client: redis.Redis) -> Web:
    """A server that trusts this machine: X-Forwarded-For names a browser's address."""
    server_of_a_proxy.accounts.path.unlink(missing_ok=True)
    return server_of_a_proxy


@pytest.fixture
def newcomer(web_of_a_proxy: Web) -> Iterator[httpx.Client]:
    """A browser without a login, at an address from which nobody came yet."""
    with web_of_a_proxy.stranger() as client:
        client.headers["X-Forwarded-For"] = f"2001:db8:0:{next(_NETWORKS):x}::1"
        yield client


@pytest.fixture
def start_web(guard: Guard, redis_url: str, tmp_path: Path) -> Any:
    """Start another server, with settings of its own."""
    return lambda **settings: Web(guard, redis_url, tmp_path, **settings)
