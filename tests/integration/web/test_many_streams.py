"""A thousand streams of events at once, revoked tokens, and a Redis that goes away."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import redis

from tests.integration.web.ground import Web
from tests.integration.web.raw import connected, head
from zsched import AsyncClient, Client
from zsched.aio.link import AsyncLink
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.web.events import Events

STREAMS = 1000
WAITING = 1600  # more than a stream sends in one piece
FEW = 256  # descriptors


@pytest.fixture
def few_descriptors() -> Iterator[Callable[[], None]]:
    """Give the next process few descriptors, which it may raise; then this process gets many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * STREAMS + FEW:
        pytest.skip(f"this process may open only {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, hard))
    yield lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_streams_get_each_event_and_delay_no_put(
    few_descriptors: Callable[[], None], start_web: Callable[..., Web], redis_url: str, redis_client: redis.Redis
) -> None:
    web = start_web()
    few_descriptors()
    secret = web.token("eve", "viewer")
    with ExitStack() as open, web.client() as other:
        streams = [open.enter_context(connected(web)) for _ in range(STREAMS)]
        for one in streams:
            one.sendall(head("GET", "/events", secret))
        for one in streams:
            read_until(one, b": events")
        put = other.put("/schedules/a", json={"func": "app.x", "after": 60})
        for one in streams:
            read_until(one, b'"id": "a"')

        assert 201 == put.status_code
        assert len(redis_client.client_list()) < 40
        web.zsched.json("tokens", "revoke", "eve")
        for one in streams:
            read_until(one, b"0\r\n\r\n")  # the end of its chunks
    assert "Traceback" not in web.log.read_text()


def read_until(one: socket.socket, text: bytes) -> None:
    found = b""
    while text not in found:
        part = one.recv(65_536)
        assert part, found
        found += part


def test_events_that_wait_are_not_sent_to_a_token_that_was_revoked(redis_url: str) -> None:
    writer = Client.from_url(redis_url)

    async def read() -> int:
        link, keys = AsyncLink.from_url(redis_url, 5), Keys("default")
        events, admitted, seen = Events(AsyncClient(link), Log(link, keys), "", look_s=0), True, 0

        async def is_admitted() -> bool:
            return admitted

        stream = events.stream(None, is_admitted)
        await anext(stream)
        for number in range(WAITING):
            writer.schedule("app.x", id=f"s{number}", after=60)
        async for _ in stream:
            seen, admitted = seen + 1, False
        await events.close()
        link.pool.disconnect()
        return seen

    assert 1 == asyncio.run(read())


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_stream_waits_while_its_token_cannot_be_looked_up(redis_url: str, is_kept: bool) -> None:
    writer = Client.from_url(redis_url)

    async def read() -> list[bytes]:
        link, keys = AsyncLink.from_url(redis_url, 5), Keys("default")
        events, found, unknown = Events(AsyncClient(link), Log(link, keys), "", look_s=0), list[bytes](), [None]

        async def is_admitted() -> bool | None:
            return unknown.pop() if found and unknown else len(found) <= is_kept

        stream = events.stream(None, is_admitted)
        await anext(stream)
        writer.schedule("app.x", id="a", after=60)
        async for text in stream:
            found.append(text)
            writer.schedule("app.x", id="b", after=60 + len(found))
        await events.close()
        link.pool.disconnect()
        return found

    assert 1 + is_kept == len(asyncio.run(read()))
