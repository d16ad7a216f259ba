"""Calls with lost replies: they are sent again, and nothing happens twice."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
import redis

from tests.integration.client.ground import KEYS, pass_time, queued
from zsched import Client, RedisUnavailable
from zsched.embedded import EmbeddedRedis


class _Cutter:
    """A proxy to a port that keeps the bytes of every third reply and cuts the connection."""

    def __init__(self, port: int) -> None:
        self._port, self._replies, self.cuts = port, 0, 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            self._open += (near, far)
            threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_reply: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if is_reply and self._is_cut(data):
                    break
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _is_cut(self, data: bytes) -> bool:
        if not data.startswith(b"*"):  # of the connection's set-up and of SCRIPT LOAD; a script answers a list
            return False
        with self._lock:
            self._replies += 1
            self.cuts += self._replies % 3 == 0
            return self._replies % 3 == 0


@pytest.fixture
def cutter(redis_server: EmbeddedRedis) -> Iterator[_Cutter]:
    cutter = _Cutter(int(redis_server.tcp_url.rsplit(":", 1)[1].split("/")[0]))
    yield cutter
    cutter.close()


def test_lost_replies_cause_no_duplicate(cutter: _Cutter, redis_client: redis.Redis, soon: datetime) -> None:
    client = Client.from_url(f"redis://127.0.0.1:{cutter.port}/0", timeout_s=5)
    for n in range(20):
        client.schedule("app.task", id=f"own-{n}", at=soon)
        client.schedule("app.task", after=3600)
        client.schedule("app.task", id=f"rule-{n}", every=60, if_exists="error")
        client.enqueue("app.task", args=(n,))
    many = client.schedule_many({"func": "app.task", "after": 3600, "queue": f"q{n % 3}"} for n in range(900))
    rules = client.schedule_many(
        {"func": "app.task", "id": f"many-{n}", "every": 60, "if_exists": "error"} for n in range(900)
    )
    run = client.run_now("rule-1")

    assert cutter.cuts >= 20
    assert (900, [], 900, []) == (many.done, many.errors, rules.created, rules.errors)
    assert 20 * 3 + 900 + 900 == redis_client.zcard(KEYS.due_normal())
    queue = queued(redis_client)
    assert (21, 21, 1) == (len(queue), len(set(queue)), queue.count(run))


def test_lost_replies_do_not_change_the_answer(cutter: _Cutter, redis_client: redis.Redis, soon: datetime) -> None:
    client = Client.from_url(f"redis://127.0.0.1:{cutter.port}/0", timeout_s=5)
    names = [f"i-{n}" for n in range(8)]
    client.schedule_many({"func": "app.task", "id": name, "at": soon} for name in names)
    for name in names[:4]:
        client.pause(name)
    pass_time(redis_client, timedelta(days=2))

    assert [None] * 4 == [client.resume(name, "skip") for name in names[:4]]
    assert ["cancelled"] * 4 == [client.cancel(name) for name in names[4:]]
    assert cutter.cuts >= 4


def test_an_abandoned_call_reports_its_id_and_may_have_been_applied(
    cutter: _Cutter, redis_client: redis.Redis, soon: datetime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = Client.from_url(f"redis://127.0.0.1:{cutter.port}/0", timeout_s=5)
    client.schedule("app.task", id="first", at=soon)
    cutter._is_cut = lambda data: True  # type: ignore[method-assign]

    with pytest.raises(RedisUnavailable, match="id 'a': it may have been applied") as caught:
        client.schedule("app.task", id="a", at=soon)

    assert caught.value.may_have_been_applied
    assert 2 == redis_client.zcard(KEYS.due_normal())
