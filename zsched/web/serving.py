"""The server: where it may listen, what it reports to the service manager, and how it ends."""

from __future__ import annotations

import gc
import ipaddress
import socket
from typing import Any, Final

import uvicorn

from zsched.config.settings import Settings
from zsched.config.urls import host_port
from zsched.daemon.supervisor import Supervisor
from zsched.errors import ConfigError, ZschedError
from zsched.web.connections import connection_class, most_connections

_ENDS_WITHIN_S: Final = 5
_WAITING: Final = 1024  # connections that wait to be accepted


def bound(settings: Settings) -> socket.socket:
    """
    Return a socket that listens at [web] listen.

    Raises:
        ZschedError: this machine has no such address now, or another process has it.
        ConfigError: the address is not of loopback, and nothing encrypts what comes there.
    """
    listen = settings.web.listen
    host, _, port = listen.rpartition(":")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ZschedError(f"[web] listen={listen!r}: {error.strerror}; give an address of this machine") from error
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
    each tick of the event loop, so that a stuck loop is found. *timeout_s* as in ``connections``.
    """
    config = uvicorn.Config(
        app,
        http=connection_class(timeout_s),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the address of a request is the connection's: web.proxy decides what a header says
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
