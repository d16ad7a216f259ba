"""
The HTTP server of ``[metrics] listen``: /metrics and pages of one line, from threads beside the daemon's.

Clients cannot exhaust the daemon's threads and files. At most ``HANDLERS`` requests are served at once; a further one
takes the place of the oldest. So a probe is answered while slow clients keep all places: its request comes at once, and
takes a millisecond. A request has ``REQUEST_MS`` from its connection to the last byte of its answer, however slowly it
comes.

This is the standard library's server. prometheus_client uses the same one without a bound or a deadline. waitress
bounds threads and connections, but closes only idle ones: a client that sends a byte now and then keeps its connection.

Not guaranteed: access control. There is neither password nor TLS: listen on loopback, or on an address that only
Prometheus reaches. A client that reaches the port can block others, with many connections a second. On loopback a
request must name this machine: a web page in a local browser cannot read it under a host name of its own (DNS
rebinding).
"""

import errno
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

import structlog

from zsched.config.parsing import listen_parts
from zsched.config.settings import MetricsSettings
from zsched.config.urls import host_port
from zsched.core.clock import Clock
from zsched.daemon.loop import Failures, Loop
from zsched.errors import ZschedError

log = structlog.get_logger(__name__)

_LINE: Final = "text/plain; charset=utf-8"
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"  # of Prometheus
HANDLERS: Final = 8  # requests at once: Prometheus, two probes, and people
REQUEST_MS: Final = 10_000.0  # for a whole request; Prometheus waits no longer by default
_BACKLOG: Final = 64  # connections that Linux holds until they are accepted
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_WAIT_S: Final = 0.5  # for a connection, between checks for expired requests and for the end of the server
_END_S: Final = 2.0  # for the server's thread to end
_PAUSE_S: Final = 0.5  # before the next accept without free files: the waiting connection would wake the server at once

HealthPage = Callable[[], tuple[bool, str]]  # True if all is well, and the line of the page


@contextmanager
def served(
    settings: MetricsSettings,
    metrics: Callable[[], bytes],
    pages: Mapping[str, HealthPage],
    clock: Clock,
    failures: Failures | None = None,
) -> Iterator[None]:
    """
    Serve *metrics*, in Prometheus' text format, and *pages* by path, inside the block. *failures* records errors that
    keep the server's thread from accepting.

    Raises:
        ZschedError: the server cannot listen at this address now.
    """
    try:
        server = _Server(listen_parts(settings.listen or ""), clock, metrics, pages)
    except OSError as error:
        remedy = "give an address of this machine and a port that nothing else uses, or remove the setting"
        raise ZschedError(f"[metrics] listen={settings.listen!r}: {error.strerror or error}; {remedy}") from error
    loop = Loop("metrics", server.serve_once, failures, clock=clock)
    loop.start()
    log.info("metrics_served", listen=server.where)
    try:
        yield
    finally:
        loop.stop()
        loop.join(_END_S)
        server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    """
    A thread for each request, of a bounded number. ``where``: host and port that it listens on. Its WSGI application
    answers with *metrics* and *pages*.
    """

    daemon_threads = True  # a slow client does not delay the daemon's end
    request_queue_size = _BACKLOG

    def __init__(
        self, address: tuple[str, int], clock: Clock, metrics: Callable[[], bytes], pages: Mapping[str, HealthPage]
    ) -> None:
        self.address_family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        self._host, self._clock, self._metrics, self._pages = address[0], clock, metrics, pages
        self._lock, self._deadlines = threading.Lock(), dict[socket.socket, float]()
        super().__init__(address, _Handler)
        self.timeout = _WAIT_S
        self.set_app(self._respond)

    def server_bind(self) -> None:
        """Bind as HTTPServer does, without asking DNS for our own name, which can take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    @property
    def where(self) -> str:
        return host_port(self.server_name, self.server_port)

    def serve_once(self) -> None:
        """Accept a connection if one comes within ``_WAIT_S``, and close expired requests."""
        self.handle_request()
        self.service_actions()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Without a free file, wait before the error: the next try would fail at once."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                threading.Event().wait(_PAUSE_S)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Accept a request, in the place of the oldest if none is free. It is closed if too many threads still end."""
        with self._lock:
            if len(self._deadlines) >= 2 * HANDLERS:
                return False
            if len(served := [each for each, deadline_ms in self._deadlines.items() if deadline_ms]) >= HANDLERS:
                self._deadlines[served[0]] = 0.0  # service_actions, which follows, closes it
            self._deadlines[request] = self._clock.monotonic_ms() + REQUEST_MS
            return True

    def service_actions(self) -> None:
        """Close expired requests, so that their handlers end."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:  # no request is closed meanwhile: its file number could be reused
            for request, deadline_ms in self._deadlines.items():
                if now_ms >= deadline_ms:
                    with suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a request, and give its handler to the next."""
        with self._lock:
            self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected; the handler's ``wsgi.errors`` has errors of our own."""
        log.debug("metrics_request_failed", client=str(client_address), exc_info=True)

    # -- the application ----------------------------------------------------------------------------

    def _respond(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if self._is_for_us(environ.get("HTTP_HOST")):
            status, kind, body = self._answer(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        else:
            status, kind, body = "421 Misdirected Request", _LINE, b"ask for localhost or an address\n"
        start_response(status, [("Content-Type", kind), ("Cache-Control", "no-store")])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _is_for_us(self, named: str | None) -> bool:
        """
        Return True if the Host header is an address, a name of ours or missing, or if others than this machine may ask;
        a browser sends its page's name.
        """
        if named is None or not ipaddress.ip_address(self.server_name.partition("%")[0]).is_loopback:
            return True
        with suppress(ValueError):
            host = urlsplit(f"//{named}").hostname or ""
            ours = "localhost", self._host.lower().rstrip(".")
            return host.rstrip(".") in ours or bool(ipaddress.ip_address(host))
        return False

    def _answer(self, method: str, path: str) -> tuple[str, str, bytes]:
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", _LINE, b"only GET and HEAD\n"
        if path == "/metrics":
            return "200 OK", METRICS_TYPE, self._metrics()
        if path not in self._pages:
            return "404 Not Found", _LINE, f"there are /metrics, {', '.join(self._pages)}\n".encode()
        is_well, line = self._pages[path]()
        status = "200 OK" if is_well else "503 Service Unavailable"
        return status, _LINE, f"{line}\n".encode(errors="backslashreplace")


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a line for each scrape would be too much."""
