"""
Each test of this folder runs with ``Client`` and with ``AsyncClient``, under the same name; a client, and a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import zsched
from tests.integration.client.in_a_loop import ClientsInALoop, LoopThread
from zsched.core.clock import from_ms, to_ms


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(autouse=True, params=["Client", "AsyncClient"])
def clients(request: pytest.FixtureRequest, loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The class that the test's module has under the name ``Client``."""
    if request.param == "Client":
        yield zsched.Client
        return
    clients = ClientsInALoop(loop_thread)
    monkeypatch.setattr(request.module, "Client", clients, raising=False)
    yield clients
    clients.close()


@pytest.fixture
def client(clients: Any, redis_url: str) -> Any:
    return clients.from_url(redis_url)


@pytest.fixture
def soon() -> datetime:
    """The time of tomorrow, in whole milliseconds."""
    return from_ms(to_ms(datetime.now(UTC))) + timedelta(days=1)
