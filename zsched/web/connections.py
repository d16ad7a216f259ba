"""
Connections of the server, and what each may cost.

uvicorn limits neither the time nor the size of a header, neither the requests that are sent without waiting for replies
nor the time for which a client reads nothing. ``BoundedConnection`` does.
"""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_CONNECTIONS: Final = 2000
_OTHER_DESCRIPTORS: Final = 200  # of this process: connections to Redis, files, the listening socket
_HEADER_BYTES: Final = 16_384
_HEADERS: Final = 200
_AHEAD: Final = 10  # requests of a connection that wait for the replies before theirs
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedConnection(HttpToolsProtocol):
    """
    A connection of uvicorn's that ends if a header does not come within ``timeout_s`` after the connection or the last
    answer, or is too large; if the client reads nothing for that long; and if too many requests wait for their turn.
    So the rest of a body that was refused must also come within that time.
    """

    timeout_s = 30.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._header: asyncio.TimerHandle | None = None  # runs until the next header is complete
        self._reader: asyncio.TimerHandle | None = None  # runs while the client reads too slowly
        self._loose = 0  # bytes since the last complete header or part of a body
        self._has_begun = self._is_lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own type
        super().connection_made(transport)
        self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._stop(self._header)
        self._stop(self._reader)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._loose += len(data)
        super().data_received(data)
        if self._loose > _HEADER_BYTES and not self.transport.is_closing():
            if not self._has_begun:
                self.transport.write(_TOO_LARGE)
            self._end()

    def on_header(self, name: bytes, value: bytes) -> None:  # of a trailer, too
        if len(self.headers) >= _HEADERS:
            raise RuntimeError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _AHEAD:
            raise RuntimeError("too many requests at once")  # uvicorn answers 400, and closes the connection
        self._loose, self._has_begun = 0, True
        self._stop(self._header)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._loose = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and not self._is_lost:
            self._await_header()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop(self._reader)

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()

    def _await_header(self) -> None:
        self._header = self.loop.call_later(self.timeout_s, self._end)

    def _end(self) -> None:
        """Close the connection, also if the client reads nothing of what was sent before."""
        self.transport.close()
        self._stop(self._reader)
        self._reader = self.loop.call_later(self.timeout_s, self.transport.abort)

    def _await_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._reader = self.loop.call_later(self.timeout_s, self._on_slow_reader, left)

    def _on_slow_reader(self, left: int) -> None:
        if self.transport.get_write_buffer_size() >= left:
            self.transport.abort()
        else:
            self._await_reader()


def connection_class(timeout_s: float) -> type[BoundedConnection]:
    """Return the class of connections with this limit of time."""

    class Connection(BoundedConnection):
        pass

    Connection.timeout_s = timeout_s
    return Connection


def most_connections() -> int:
    """Return how many connections may be open: with fewer descriptors than they need, fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS + _OTHER_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _CONNECTIONS
    more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):  # a sandbox may forbid it
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        soft = more
    return max(soft - _OTHER_DESCRIPTORS, 1)
