"""A TCP proxy between zsched and Redis that imitates faults of networks."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable
from types import TracebackType

from tests.waiting import WITHIN_S

_CHUNK = 262_144


class Proxy:
    """
    Forwards to a port of 127.0.0.1 from ``port``. Its faults can be set at any time:

    ``cut_replies``: the chance that a reply is thrown away, after the server executed the request, and the connection
    closed. ``cut_requests``: the same with a request, which the server never sees. ``delay_s``: how long each reply is
    kept. ``garbage``: bytes that are forwarded instead of each reply. ``half_open``: nothing is forwarded and nothing
    closed, as when a firewall forgot the connection. ``keeps``: a predicate of requests that stay on their way until
    ``mend``, and then arrive although their sender is gone; ``kept`` counts them. A *seed* makes the chances repeatable
    per connection.
    """

    def __init__(self, target_port: int, seed: int = 1) -> None:
        self.cut_replies = self.cut_requests = 0.0
        self.delay_s = 0.0
        self.garbage = b""
        self.half_open = False
        self.keeps: Callable[[bytes], bool] | None = None
        self.cuts = self.kept = 0
        self._target = ("127.0.0.1", target_port)
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._closing, self._mended = threading.Event(), threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    @property
    def url(self) -> str:
        """The URL of the proxy for redis-py's from_url; database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    def move_to(self, target_port: int) -> None:
        """Lead to another server from now on; connected clients must connect again."""
        self._target = ("127.0.0.1", target_port)
        self.cut_all()

    def mend(self) -> None:
        """End all faults; half-open connections are closed."""
        self.cut_replies = self.cut_requests = self.delay_s = 0.0
        self.garbage = b""
        with self._mended:
            self.keeps, self.kept = None, 0
            self._mended.notify_all()
        if self.half_open:
            self.half_open = False
            self.cut_all()

    def cut_all(self) -> None:
        """Close every open connection."""
        with self._lock:
            for each in self._sockets:
                _shut(each)

    def close(self) -> None:
        """Close all; every thread has ended when this returns."""
        self._closing.set()
        self.mend()
        _shut(self._listener)
        self.cut_all()
        for thread in self._threads:
            thread.join(WITHIN_S)
        self._listener.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, timeout=WITHIN_S)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {client, server}
            self._start(self._serve, client, server)

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        """Forward replies in this thread and requests in another; both end when either socket does."""
        requests = threading.Thread(target=self._forward, args=(client, server, False), daemon=True)
        requests.start()
        self._forward(server, client, True)
        requests.join()
        with self._lock:
            self._sockets -= {client, server}
        client.close()
        server.close()

    def _forward(self, source: socket.socket, target: socket.socket, are_replies: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                if self.half_open:
                    continue
                if not are_replies and self.keeps is not None and self.keeps(data):
                    self.kept += 1
                    with self._mended:
                        self._mended.wait_for(lambda: self.keeps is None)
                if are_replies and self.delay_s:
                    self._closing.wait(self.delay_s)
                if self._is_cut(self.cut_replies if are_replies else self.cut_requests):
                    break
                target.sendall((are_replies and self.garbage) or data)
        _shut(source)
        _shut(target)

    def _is_cut(self, chance: float) -> bool:
        with self._lock:
            is_cut = chance > 0 and self._random.random() < chance
            self.cuts += is_cut
        return is_cut


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
