"""The port of ``[metrics] listen`` under slow and many clients: real sockets, and an idle daemon."""

import os
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from socketserver import TCPServer
from wsgiref.simple_server import WSGIServer

import pytest
from structlog.testing import capture_logs

from tests.integration.asking import ANYWHERE, ask, pages
from tests.waiting import WITHIN_S, eventually
from zsched.config.settings import MetricsSettings
from zsched.core.clock import ManualClock
from zsched.metrics.pages import HANDLERS, REQUEST_MS, served

pytestmark = pytest.mark.once
NOBODY = "unix:///nowhere"
CROWD = 200
STANDARD_STREAMS = 3  # the files that are always open; a poll may have as many


class Crowd:
    """Connections that each begin a request and continue with a byte at a time."""

    def __init__(self, where: str, number: int, begin: bytes = b"GET /metrics HTTP/1.1\r\nHost: ") -> None:
        host, _, port = where.rpartition(":")
        self.open = [socket.create_connection((host, int(port)), WITHIN_S) for _ in range(number)]
        for each in self.open:
            each.setblocking(False)
            with suppress(OSError):
                each.send(begin)

    def drip(self) -> int:
        """
        Send a byte on each connection, wait a moment, and forget connections that the server closed. Return the number
        of open ones.
        """
        for each in self.open:
            with suppress(OSError):
                each.send(b"x")
        readable, _, _ = select.select(self.open, (), (), 0.05) if self.open else ((), (), ())
        for each in readable:
            if is_closed(each):
                self.open.remove(each)
                each.close()
        return len(self.open)

    def close(self) -> None:
        for each in self.open:
            each.close()


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(65536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@contextmanager
def crowd(where: str, number: int, **options: bytes) -> Iterator[Crowd]:
    gathered = Crowd(where, number, **options)
    try:
        yield gathered
    finally:
        gathered.close()


def handlers() -> int:
    """Return the number of threads that are busy with a request to the pages, not to a server of an earlier test."""
    targets = [getattr(thread, "_target", None) for thread in threading.enumerate()]
    return sum(isinstance(getattr(target, "__self__", None), WSGIServer) for target in targets)


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_slow_connections_get_few_threads_and_a_deadline() -> None:
    clock = ManualClock()
    with pages(NOBODY, clock=clock) as where:
        ask(where, "/metrics")
        eventually(lambda: handlers() == 0)
        before = files()
        with crowd(where, CROWD) as slow:
            eventually(lambda: slow.drip() == HANDLERS)
            eventually(lambda: handlers() == HANDLERS)  # each that gave its place up ends a moment after

            clock.advance(int(REQUEST_MS) - 1)
            assert HANDLERS == slow.drip()

            clock.advance(1)
            eventually(lambda: slow.drip() == 0)

        eventually(lambda: handlers() == 0)  # each ends a moment after its client sees that it does
        assert 200 == ask(where, "/metrics").status
        eventually(lambda: handlers() == 0 and files() <= before)


def test_a_client_that_does_not_read_its_reply_has_the_same_deadline() -> None:
    clock, larger_than_buffers = ManualClock(), b"x" * 30_000_000
    with capture_logs() as events, served(MetricsSettings(ANYWHERE), lambda: larger_than_buffers, {}, clock):
        where = str(events[0]["listen"])
        with crowd(where, HANDLERS, begin=b"GET /metrics HTTP/1.0\r\n\r\n"):
            eventually(lambda: handlers() == HANDLERS)

            clock.advance(int(REQUEST_MS))

            eventually(lambda: handlers() == 0)


@pytest.mark.parametrize("path", ["/healthz", "/metrics"])
def test_a_page_is_answered_in_the_place_of_the_oldest_while_slow_connections_hold_all(path: str) -> None:
    with pages(NOBODY) as where, crowd(where, HANDLERS) as slow:
        eventually(lambda: handlers() == HANDLERS)

        assert 200 == ask(where, path).status

        assert slow.drip() == HANDLERS - 1


def test_threads_are_few_while_requests_that_gave_their_place_up_do_not_end() -> None:
    gate, begun, request = threading.Event(), list[None](), b"GET /metrics HTTP/1.0\r\n\r\n"

    def page() -> bytes:
        begun.append(None)
        gate.wait(WITHIN_S)
        return b""

    with capture_logs() as events, served(MetricsSettings(ANYWHERE), page, {}, ManualClock()), ExitStack() as crowds:
        where = str(events[0]["listen"])
        for number in (1, 2):
            crowds.enter_context(crowd(where, HANDLERS, begin=request))
            eventually(lambda number=number: len(begun) == number * HANDLERS)  # type: ignore[misc]
        more = crowds.enter_context(crowd(where, CROWD, begin=request))

        eventually(lambda: more.drip() == 0)
        assert handlers() == 2 * HANDLERS

        gate.set()
        eventually(lambda: handlers() == 0)


def test_a_server_without_free_file_descriptors_waits_and_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    accept, tried_s = TCPServer.get_request, list[float]()
    monkeypatch.setattr(TCPServer, "get_request", lambda server: tried_s.append(time.monotonic()) or accept(server))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pages(NOBODY) as where, socket.socket() as client:
        ask(where, "/healthz")
        client.settimeout(WITHIN_S)
        host, _, port = where.rpartition(":")
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (STANDARD_STREAMS, hard))  # none is free, whoever closes one
            client.connect((host, int(port)))
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            tried_s.clear()
            eventually(lambda: len(tried_s) >= 3)
            pauses_s = [after - before for before, after in pairwise(tried_s)]
            assert not select.select([client], (), (), 0)[0]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        assert min(pauses_s) > 0.4  # however slow the machine is
        assert client.recv(100).startswith(b"HTTP/1.0 200")


def test_a_crowded_port_closes_with_its_daemon() -> None:
    with pages(NOBODY) as where, crowd(where, CROWD):
        eventually(lambda: handlers() == HANDLERS)

    with pytest.raises(OSError, match="refused"):
        ask(where, "/healthz")
