"""
``[metrics] listen``: three pages over HTTP, from threads beside the daemon's.

- ``/metrics`` is for Prometheus. It is a page also while Redis is away.
- ``/healthz`` says whether the daemon lives: 200 as long as its main loop ends its passes, led or not, with Redis or
  without, since to restart it would help nobody then; 503 when the loop is stuck.
- ``/readyz`` says whether it is of use: 200 when it sees Redis, and as ``leader`` or ``standby``; else 503, and why.

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
from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app

from zsched.config import Settings
from zsched.core.clock import Clock
from zsched.errors import ConfigError
from zsched.metrics.collector import DaemonCollector
from zsched.metrics.labels import Names
from zsched.metrics.lookout import LONGEST_S, Lookout
from zsched.metrics.meter import DaemonMeter
from zsched.metrics.tally import LogTally
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.reader import Reader
from zsched.storage.rqjob import Encoder

log = structlog.get_logger(__name__)

_REQUEST_S: Final = 10.0  # for a client to say what it wants, and to take the answer
_STUCK_MS: Final = 30_000.0  # without a pass, beside what the settings let one take
_TIMEOUTS: Final = 5  # of Redis, in one pass (daemon.supervisor)

Page = Callable[[], tuple[bool, str]]  # whether all is well, and a line that says so


@contextmanager
def serving(
    settings: Settings, clock: Clock, last_pass_ms: Callable[[], float], build: Mapping[str, str | None]
) -> Iterator[DaemonMeter]:
    """
    Serve inside the block what the meter that it gives is told. *last_pass_ms*: when the daemon's main loop ended a
    pass, by the monotonic clock; *build*: versions.

    Raises:
        ConfigError: nothing can listen there.
    """
    redis, keys, queues = settings.redis, Keys(settings.namespace), Names()
    meter = DaemonMeter(LogTally(keys.run_suffix, queues))
    link = Link.from_url(redis.url, min(redis.timeout_s, LONGEST_S), redis.read_password())
    lookout = Lookout(link, Reader(link, keys, Encoder(settings.rq.serializer)), clock)
    registry = CollectorRegistry()
    registry.register(DaemonCollector(meter, lookout, queues, build))
    ProcessCollector(registry=registry)  # seconds of processor, memory, open files

    def alive() -> tuple[bool, str]:
        silent_ms = clock.monotonic_ms() - last_pass_ms()
        return silent_ms <= _patience_ms(settings), f"the main loop ended a pass {silent_ms / 1000:.1f} s ago"

    def ready() -> tuple[bool, str]:
        sight = lookout.look()
        return sight.overview is not None, sight.trouble or ("leader" if meter.leads else "standby")

    metrics = make_wsgi_app(registry, disable_compression=True)  # which would take longer than all else
    server = _listen(settings, Pages(metrics, {"/healthz": alive, "/readyz": ready}))
    thread = threading.Thread(target=server.serve_forever, name="zsched-metrics", daemon=True)
    thread.start()
    log.info("metrics_served", listen=server.where)
    try:
        yield meter
    finally:
        server.shutdown()
        server.server_close()
        link.pool.disconnect()


def _patience_ms(settings: Settings) -> float:
    """The longest that a pass may take whose daemon is well: its longest sleep, and a Redis that hangs."""
    daemon = settings.daemon
    return _STUCK_MS + daemon.idle_ms + daemon.lease_ms + _TIMEOUTS * settings.redis.timeout_s * 1000


class Pages:
    """The pages, as a WSGI application."""

    def __init__(self, metrics: Callable[..., Any], pages: Mapping[str, Page]) -> None:
        self._metrics, self._pages = metrics, pages

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            answered: Iterable[bytes] = self._metrics(environ, start_response)
            return answered
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _answer(start_response, "405 Method Not Allowed", "only GET and HEAD")
        if path not in self._pages:
            return _answer(start_response, "404 Not Found", f"there are /metrics, {', '.join(self._pages)}")
        is_well, line = self._pages[path]()
        told = _answer(start_response, "200 OK" if is_well else "503 Service Unavailable", line)
        return told if environ["REQUEST_METHOD"] == "GET" else []


def _answer(start_response: StartResponse, status: str, line: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
    return [f"{line}\n".encode(errors="backslashreplace")]


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


def _listen(settings: Settings, pages: Pages) -> _Server:
    listen = settings.metrics.listen
    host, port = settings.metrics.address
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        server = _Server(family, host, port)
    except OSError as error:
        remedy = "give an address of this machine and a port that nothing else uses, or take the setting away"
        raise ConfigError(f"[metrics] listen={listen!r}: {error.strerror or error}; {remedy}") from error
    server.set_app(pages)
    return server
