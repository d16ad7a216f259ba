"""A server for one test, and daemons as processes; tests of this folder run with each Redis unless marked once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.builders.daemons import DaemonProcess, Start
from tests.builders.leaders import know
from tests.builders.proxies import Proxy
from tests.builders.redises import connect, own_server
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/faults" in item.path.as_posix() and not item.get_closest_marker("once"):
            item.add_marker("redis")


@pytest.fixture
def server() -> Iterator[EmbeddedRedis]:
    """A server for one test, on a unix socket and a loopback port, without a hold: ``know``."""
    with own_server(tcp=True) as server:
        yield server


@pytest.fixture
def watch(server: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A client of that server, with which the test looks at the data."""
    with connect(server.url) as client:
        yield client


@pytest.fixture
def path(redis_client: redis.Redis, tmp_path: Path) -> Path:
    """The path of an archive; the emptied server of the session has no hold."""
    know(redis_client)
    return tmp_path / "archive.db"


@pytest.fixture
def proxy(server: EmbeddedRedis) -> Iterator[Proxy]:
    """A proxy to that server, which can break, delay or change the traffic."""
    assert server.port is not None
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def start_daemon(guard: Guard) -> Start:
    """A function that starts a daemon process: ``start_daemon(url, DAEMON_IDLE_MS="500")``; it ends with the test."""

    def start(url: str, **settings: str) -> DaemonProcess:
        return DaemonProcess(guard, url, **settings)

    return start
