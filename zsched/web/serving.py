"""
The server: where it may listen, what each connection may cost, what it reports to the service manager, and how it ends.

uvicorn limits neither the time nor the size of a header, neither the requests that are sent without waiting for replies
nor the time for which a client reads nothing. ``BoundedConnection`` does.

With as many connections as the server may have, a new one takes the place of the one that has waited longest for a
header. Further requests are answered 503, except for the probes: so no client keeps them from their answer.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import resource
import socket
from contextlib import suppress
from typing import Any, ClassVar, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from zsched.config.parsing import listen_parts
from zsched.config.settings import Settings
from zsched.config.urls import host_port
from zsched.daemon.supervisor import Supervisor
from zsched.errors import ConfigError, ZschedError

_ENDS_WITHIN_S: Final = 5
_WAITING: Final = 1024  # connections that wait to be accepted
_CONNECTIONS: Final = 2000
_OTHER_DESCRIPTORS: Final = 200  # of this process: connections to Redis, files, the listening socket
_HEADER_BYTES: Final = 16_384
_HEADERS: Final = 200
_AHEAD: Final = 10  # requests of a connection that wait for the replies before theirs
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def bound(settings: Settings) -> socket.socket:
    """
    Return a socket that listens at [web] listen.

    Raises:
        ZschedError: this machine has no such address now, or another process has it.
        ConfigError: the address is not of loopback, and nothing encrypts what comes there.
    """
    listen = settings.web.listen
    try:
        found = socket.getaddrinfo(*listen_parts(listen), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ZschedError(f"[web] listen={listen!r}: {error.strerror}; give an address of this machine") from error
    family, kind, protocol, _, address = found[0]
    if not ipaddress.ip_address(address[0]).is_loopback and not settings.web.allow_plain:
        problem = "tokens would go over the network unencrypted"
        remedy = "listen on 127.0.0.1 behind a proxy with TLS; or, in a container, set [web] allow_plain = true"
        raise ConfigError(f"[web] listen={listen!r}: {problem}; {remedy}")
    made = socket.socket(family, kind, protocol)  # with it, asyncio sends small parts of an answer at once
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(_WAITING)
    except OSError as error:
        made.close()
        raise ZschedError(f"[web] listen={listen!r}: {error.strerror}; give another port or address") from error
    return made


def url_of(bound_to: socket.socket) -> str:
    """Return the URL for a client on this machine."""
    host, port = bound_to.getsockname()[:2]
    return f"http://{host_port(host, port)}"


def serve(app: Any, bound_to: socket.socket, supervisor: Supervisor, timeout_s: float) -> None:
    """
    Answer until SIGTERM or Ctrl-C; then finish requests in progress, within five seconds. *supervisor* gets a beat for
    each tick of the event loop, so that a stuck loop is found. *timeout_s* as in ``BoundedConnection``.
    """
    config = uvicorn.Config(
        app,
        http=connection_class(timeout_s),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the address of a request is the connection's: web.access decides what a header says
        limit_concurrency=most_connections(),
        timeout_graceful_shutdown=_ENDS_WITHIN_S,
        lifespan="on",
    )
    gc.collect()
    gc.freeze()  # what is here by now stays: the collector need not look at it again and again
    _WebServer(config, supervisor).run(sockets=[bound_to])


class _WebServer(uvicorn.Server):
    """A server that reports to the service manager."""

    def __init__(self, config: uvicorn.Config, supervisor: Supervisor) -> None:
        super().__init__(config)
        self._supervisor = supervisor

    async def on_tick(self, counter: int) -> bool:
        """Report that the event loop runs; the first time, that requests are answered."""
        self._supervisor.ready()
        self._supervisor.beat()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Report the end, and finish requests in progress."""
        self._supervisor.stopping()
        await super().shutdown(sockets)


# -- connections ------------------------------------------------------------------------------------


class BoundedConnection(HttpToolsProtocol):
    """
    A connection of uvicorn's that ends if a header does not come within ``timeout_s`` after the connection or the last
    answer, or is too large; if the client reads nothing for that long; and if too many requests wait for their turn.
    So the rest of a body that was refused must also come within that time.
    """

    timeout_s = 30.0
    idle: ClassVar[dict[BoundedConnection, None]]  # of this server, that wait for a header: the longest first

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._header: asyncio.TimerHandle | None = None  # runs until the next header is complete
        self._reader: asyncio.TimerHandle | None = None  # runs while the client reads too slowly
        self._loose = 0  # bytes since the last complete header or part of a body
        self._is_lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own type
        super().connection_made(transport)
        most = self.config.limit_concurrency
        if self.idle and most is not None and len(self.connections) >= most:
            oldest = next(iter(self.idle))
            oldest._stop_waiting()
            oldest.transport.abort()
        self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._stop_waiting()
        self._stop(self._reader)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._loose += len(data)
        super().data_received(data)
        if self._loose > _HEADER_BYTES and not self.transport.is_closing():
            self._refuse_header()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():  # else it was answered by 431
            super().send_400_response(msg)

    def on_header(self, name: bytes, value: bytes) -> None:  # of a trailer, too
        if len(self.headers) >= _HEADERS:
            raise RuntimeError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > _HEADER_BYTES:
            self._refuse_header()
            raise RuntimeError("a header is too large")
        if len(self.pipeline) >= _AHEAD:
            raise RuntimeError("too many requests at once")  # uvicorn answers 400, and closes the connection
        if self.parser.get_http_version() == "1.1" and sum(name == b"host" for name, _ in self.headers) != 1:
            raise RuntimeError("a request of HTTP/1.1 has one Host")  # RFC 9112, section 3.2
        self._loose = 0
        self._stop_waiting()
        self.limit_concurrency = None if self.url in (b"/healthz", b"/readyz") else self.config.limit_concurrency
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
        self.idle[self] = None
        self._header = self.loop.call_later(self.timeout_s, self._end)

    def _stop_waiting(self) -> None:
        self.idle.pop(self, None)
        self._stop(self._header)

    def _refuse_header(self) -> None:
        """End the connection; before it, answer 431 if the header is the next to be answered."""
        if self.cycle is None or (self.cycle.response_complete and not self.cycle.more_body):
            self.transport.write(_TOO_LARGE)
        self._end()

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
    return type("Connection", (BoundedConnection,), {"timeout_s": timeout_s, "idle": {}})


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
