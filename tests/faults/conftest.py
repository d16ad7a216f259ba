from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.faults.processes import DaemonProcess
from zsched.embedded.guard import Guard

DaemonStarter = Callable[..., DaemonProcess]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/faults" in item.path.as_posix():
            item.add_marker("redis")


@pytest.fixture
def guard() -> Iterator[Guard]:
    """Holds every process of the test."""
    with Guard() as guard:
        yield guard


@pytest.fixture
def start_daemon(guard: Guard) -> DaemonStarter:
    """Starts a daemon process: ``start_daemon(url, DAEMON_LEASE_MS="500")``; it ends with the test."""

    def start(url: str, **settings: str) -> DaemonProcess:
        return DaemonProcess(guard, url, **settings)

    return start
