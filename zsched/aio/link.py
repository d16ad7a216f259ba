"""
A link of redis-py's connections that wait in the event loop.

A connection is made by a blocking one, in a thread: look-up of names, TLS, password, and the questions to Sentinels or a
Cluster's nodes. Then its socket is taken over. So whatever redis-py or ``storage.found`` does for a new connection also
holds here. All sends and receives after that happen in the event loop.

A call that is cancelled closes its connection (``Wire``), so no later call reads its reply (CVE-2023-28858).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final, TypeVar

from redis.connection import ConnectionPool

from zsched.aio.adopted import blocking
from zsched.aio.bridge import wait, yield_turn
from zsched.core.clock import Clock
from zsched.storage.connection import Link

T = TypeVar("T")
_WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class AsyncLink(Link):
    """A link for functions that ``bridge.run`` calls. Not thread-safe; for one event loop at a time."""

    def __init__(self, pool: ConnectionPool, where: str, timeout_s: float, clock: Clock | None = None) -> None:
        super().__init__(pool, where, timeout_s, clock)
        pool.connection_class = _awaited(pool.connection_class)

    @classmethod
    def adopt(cls, client: Any) -> Link:
        """Return a link with the settings of *client*, a ``redis.asyncio.Redis`` or a ``redis.Redis``."""
        return super().adopt(blocking(client))

    def pause(self, seconds: float) -> None:
        """Wait; other tasks run."""
        wait(asyncio.sleep(seconds))

    def compute(self, function: Callable[..., T], *arguments: Any) -> T:
        """Calculate in a thread; other tasks run."""
        return wait(_in_thread(function, *arguments))


async def _in_thread(function: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, partial(function, *arguments))


@cache
def _awaited(blocking_class: type[Any]) -> type[Any]:
    """Return the class of connections like *blocking_class* that wait in the event loop."""

    class Awaited(blocking_class):  # type: ignore[misc]  # any class of redis-py's
        _sock: Any

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._options = options

        def connect(self) -> None:
            if self._sock:
                return
            other = wait(_in_thread(_connected, blocking_class, self._options))
            if hasattr(other, "port"):  # a Sentinel or a node named them
                self.host, self.port = other.host, other.port
            self._sock, other._sock = AsyncSocket(other._sock), None
            self._parser.on_connect(self)

    return Awaited


def _connected(blocking_class: type[Any], options: dict[str, Any]) -> Any:
    """Return a new connection. If nobody waits for it any more, it is closed with its last reference (redis-py)."""
    connection = blocking_class(**options)
    connection.connect()
    return connection


class AsyncSocket:
    """What redis-py uses of a socket. It has the timeout of *connected*, the socket that it takes over."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket, self._timeout_s = connected, connected.gettimeout()
        self._waiter: asyncio.Future[None] | None = None
        connected.setblocking(False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def settimeout(self, seconds: float | None) -> None:
        """Set the timeout of later calls; 0: they do not wait."""
        self._timeout_s = seconds

    def sendall(self, data: bytes) -> None:
        """Send *data*. Raises TimeoutError, OSError."""
        yield_turn()
        rest = memoryview(data)
        while rest:
            rest = rest[self._do(self._socket.send, rest) :]

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Receive at most *size* bytes. Raises TimeoutError, OSError."""
        return self._do(self._socket.recv, size, flags) if flags else self._do(self._socket.recv, size)

    def recv_into(self, buffer: bytearray) -> int:
        """Receive into *buffer*. Raises TimeoutError, OSError."""
        return self._do(self._socket.recv_into, buffer)

    def close(self) -> None:
        """Close it. A call that waits for it fails."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionResetError("the connection was closed"))
            self._forget(self._waiter.get_loop())
        self._socket.close()

    def _do(self, step: Callable[..., T], *arguments: Any) -> T:
        while True:
            try:
                return step(*arguments)
            except _WOULD_BLOCK as error:
                if self._timeout_s == 0:
                    raise
                is_write = isinstance(error, ssl.SSLWantWriteError) or step == self._socket.send
                wait(self._ready(is_write and not isinstance(error, ssl.SSLWantReadError)))

    async def _ready(self, is_write: bool) -> None:
        """Wait until it can be written to, or read from. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        (loop.add_writer if is_write else loop.add_reader)(self._socket.fileno(), _wake, waiter)
        timeout = None if self._timeout_s is None else loop.call_later(self._timeout_s, _expire, waiter)
        try:
            await waiter
        finally:
            if timeout is not None:
                timeout.cancel()
            self._forget(loop)

    def _forget(self, loop: asyncio.AbstractEventLoop) -> None:
        if (descriptor := self._socket.fileno()) >= 0:
            loop.remove_reader(descriptor)
            loop.remove_writer(descriptor)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError("timed out"))
