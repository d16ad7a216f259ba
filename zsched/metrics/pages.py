"""
The HTTP server of ``[metrics] listen``: /metrics and pages of one line, from threads beside the daemon's.

Not guaranteed: that strangers are kept out. There is neither password nor TLS: listen on loopback, or on an address
that only Prometheus reaches.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

import structlog

from zsched.config import MetricsSettings
from zsched.errors import ZschedError

log = structlog.get_logger(__name__)

_LINE: Final = "text/plain; charset=utf-8"
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"  # of Prometheus
_REQUEST_S: Final = 10.0  # for a client to say what it wants, and to take the answer

Page = Callable[[], tuple[bool, str]]  # whether all is well, and a line that says so


@contextmanager
def served(settings: MetricsSettings, metrics: Callable[[], bytes], pages: Mapping[str, Page]) -> Iterator[None]:
    """
    Serve inside the block *metrics*, as Prometheus' text format has them, and *pages* by path.

    Raises:
        ZschedError: nothing can listen there now.
    """
    server = _listen(settings, _Application(metrics, pages))
    thread = threading.Thread(target=server.serve_forever, name="zsched-metrics", daemon=True)
    thread.start()
    log.info("metrics_served", listen=server.where)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class _Application:
    """All of it for WSGI."""

    def __init__(self, metrics: Callable[[], bytes], pages: Mapping[str, Page]) -> None:
        self._metrics, self._pages = metrics, pages

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        status, kind, body = self._answer(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        start_response(status, [("Content-Type", kind), ("Cache-Control", "no-store")])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, method: str, path: str) -> tuple[str, str, bytes]:
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", _LINE, b"only GET and HEAD\n"
        if path == "/metrics":
            return "200 OK", _METRICS, self._metrics()
        if path not in self._pages:
            return "404 Not Found", _LINE, f"there are /metrics, {', '.join(self._pages)}\n".encode()
        is_well, line = self._pages[path]()
        status = "200 OK" if is_well else "503 Service Unavailable"
        return status, _LINE, f"{line}\n".encode(errors="backslashreplace")


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each request. ``where``: host and port that it listens on."""

    daemon_threads = True  # a slow client keeps no daemon from ending

    def __init__(self, family: socket.AddressFamily, host: str, port: int) -> None:
        self.address_family = family
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """As HTTPServer does, but for asking DNS for our own name, which can take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    @property
    def where(self) -> str:
        host = f"[{self.server_name}]" if ":" in self.server_name else self.server_name
        return f"{host}:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's trouble; what is ours, the handler's own ``wsgi.errors`` has."""
        log.debug("metrics_request_failed", client=str(client_address), exc_info=True)


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_S

    def log_message(self, format: str, *args: Any) -> None:
        """Not a line for each scrape."""


def _listen(settings: MetricsSettings, application: _Application) -> _Server:
    host, port = settings.address
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        server = _Server(family, host, port)
    except OSError as error:
        remedy = "give an address of this machine and a port that nothing else uses, or take the setting away"
        raise ZschedError(f"[metrics] listen={settings.listen!r}: {error.strerror or error}; {remedy}") from error
    server.set_app(application)
    return server
