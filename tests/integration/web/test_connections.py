"""The connections of a small server: what is dropped and what is answered when it has as many as it may have."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.waiting import WITHIN_S
from zsched.web.serving import connection_class

MOST = 5
pytestmark = pytest.mark.anyio


async def app(_: Any, receive: Any, send: Any) -> None:
    """Answer when the whole body has come."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class Client:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def status(self) -> int:
        """Return the status of the next answer; 0: the connection has ended."""
        async with asyncio.timeout(WITHIN_S):
            try:
                line = await self._reader.readline()
                while line and await self._reader.readline() not in (b"\r\n", b""):
                    pass
            except ConnectionError:
                return 0
        return int(line.split()[1]) if line else 0


class Server:
    """A server of at most MOST connections."""

    def __init__(self) -> None:
        protocol: Any = connection_class(30)
        self._config = uvicorn.Config(app, http=protocol, ws="none", log_config=None, limit_concurrency=MOST)
        self._config.load()
        self._state, self._protocol, self._clients = ServerState(), protocol, list[Client]()

    async def listen(self) -> None:
        def made() -> asyncio.Protocol:
            protocol: asyncio.Protocol = self._protocol(self._config, self._state, {})
            return protocol

        self._server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def connected(self, sent: bytes = b"") -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        client.writer.write(sent)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            client.writer.transport.abort()
        self._server.close()
        await asyncio.gather(*(each.writer.wait_closed() for each in self._clients), return_exceptions=True)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    await server.listen()
    yield server
    await server.close()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


@pytest.mark.parametrize("begun", [0, 20])
async def test_a_new_connection_takes_the_place_of_the_connection_that_waits_longest_for_a_header(
    server: Server, begun: int
) -> None:
    used = await server.connected(get("/"))
    assert 200 == await used.status()
    waiting = [await server.connected(get("/")[:begun]) for _ in range(MOST * 4)]

    assert 200 == await (await server.connected(get("/"))).status()

    assert [0, 0] == [await each.status() for each in (used, waiting[0])]
    waiting[-1].writer.write(get("/")[begun:])
    assert 200 == await waiting[-1].status()


async def test_probes_are_answered_while_all_connections_are_busy(server: Server) -> None:
    body = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
    busy = [await server.connected(body) for _ in range(MOST)]
    assert [100] * (MOST - 1) == [await each.status() for each in busy[:-1]]

    found = [await (await server.connected(get(path))).status() for path in ("/healthz", "/", "/readyz", "/healthz")]

    assert [200, 503, 200, 200] == found
    for each in busy[:-1]:
        each.writer.write(b"x")
    assert [200] * (MOST - 1) == [await each.status() for each in busy[:-1]]
