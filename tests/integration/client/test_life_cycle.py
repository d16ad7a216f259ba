"""client.cancel, pause, resume and get; calls whose replies are lost."""

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis

from tests.clocks import freeze, pass_time
from tests.integration.client.calls import KEYS, SOON
from tests.ledger import queued
from tests.waiting import WITHIN_S
from zsched import Client, InvalidSchedule, RedisUnavailable, ScheduleNotFound
from zsched.core.clock import from_ms, to_ms
from zsched.core.occurrences.policy import passed_in
from zsched.core.options.choices import Missed, ScheduleState
from zsched.embedded import EmbeddedRedis


def test_cancel_returns_the_outcome(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="a", at=SOON)
    client.schedule("app.task", id="now", at=SOON)
    client.run_now("now")

    assert ["cancelled", "not_found", "already_fired", "not_found"] == [
        client.cancel("a"), client.cancel("a"), client.cancel("now"), client.cancel("no"),
    ]  # fmt: skip
    assert 1 == len(queued(redis_client))


def test_a_paused_one_shot_resumes_at_its_time_without_the_note(client: Client, redis_client: redis.Redis) -> None:
    client.schedule("app.task", id="a", at=SOON)
    made = client.get("a")
    pass_time(redis_client, timedelta(minutes=1))

    paused, resumed = client.pause("a", note="until the sale is over"), client.resume("a")

    assert resumed is not None
    assert (ScheduleState.PAUSED, "until the sale is over", SOON) == (paused.state, paused.note, paused.next_at)
    assert (ScheduleState.ACTIVE, SOON, None) == (resumed.state, resumed.next_at, resumed.note)
    assert made.created_ms == paused.created_ms == resumed.created_ms
    assert 3 == len({made.version, paused.version, resumed.version})
    assert "unchanged" == client.schedule("app.task", id="a", at=SOON).outcome


def test_cancelling_an_id_that_was_cancelled_after_a_run_returns_not_found(client: Client) -> None:
    client.schedule("app.task", id="rule", every=3600)
    client.run_now("rule")
    client.schedule("app.task", id="again", at=SOON)
    client.run_now("again")
    client.schedule("app.task", id="again", at=SOON + timedelta(hours=1))

    first, second = ([client.cancel(id) for id in ("rule", "again")] for _ in range(2))

    assert (["cancelled"] * 2, ["not_found"] * 2) == (first, second)


def test_cancelling_a_one_shot_tells_skipped_from_retried_ones(client: Client, redis_client: redis.Redis) -> None:
    for id in ("skipped", "retried"):
        client.schedule("app.task", id=id, at=SOON)
    run_id = client.run_now("retried")
    client.cancel_run(run_id)
    client.retry(run_id)
    client.pause("skipped")
    pass_time(redis_client, timedelta(days=2))
    client.resume("skipped", "skip")

    assert ["not_found", "already_fired"] == [client.cancel(id) for id in ("skipped", "retried")]


@pytest.mark.parametrize("missed", ["fire", Missed.FIRE, "skip"])
def test_an_overdue_one_shot_fires_or_is_removed(client: Client, redis_client: redis.Redis, missed: Any) -> None:
    client.schedule("app.task", id="a", at=SOON)
    client.pause("a")
    pass_time(redis_client, timedelta(days=2))

    resumed = client.resume("a", missed)

    expected = None if missed == "skip" else (ScheduleState.ACTIVE, SOON)
    assert expected == (resumed and (resumed.state, resumed.next_at))
    assert (["a"] if expected else []) == [schedule.id for schedule in client.list()]


@pytest.mark.parametrize("rule", [{"every": 60}, {"cron": "*/5 * * * *"}, {"rrule": "FREQ=DAILY;BYHOUR=0,6,12,18"}])
def test_resume_with_skip_tells_what_it_drops(client: Client, redis_client: redis.Redis, rule: dict[str, Any]) -> None:
    now = from_ms(freeze(redis_client)) + timedelta(days=3)
    client.schedule("app.task", id="r", **rule)
    first_ms = client.get("r").next_ms
    client.pause("r")
    pass_time(redis_client, timedelta(days=3))

    resumed = client.resume("r", "skip")

    assert resumed is not None
    assert ScheduleState.ACTIVE is resumed.state
    assert [resumed.next_at] == list(client.preview("r", n=1, start=now))
    [(_, entry)] = redis_client.xrevrange(KEYS.log(), count=1)
    [passed] = passed_in(entry[b"r"].split(b" ")[-1].decode())
    assert ("paused", first_ms, True) == (passed.why, passed.first_ms, passed.number > 10)


def test_life_cycle_calls_with_unknown_ids_or_bad_options_are_refused(client: Client) -> None:
    for call in (client.get, client.pause, client.resume, client.run_now, client.update, client.preview):
        with pytest.raises(ScheduleNotFound, match="'nothing' in namespace 'default'"):
            call("nothing")
        with pytest.raises(InvalidSchedule, match=r"^id="):
            call("a.b")
    with pytest.raises(InvalidSchedule, match=r"^id="):
        client.cancel("a b")

    with pytest.raises(InvalidSchedule, match=r"^note="):
        client.pause("a", "two\nlines")
    with pytest.raises(InvalidSchedule, match=r"^missed="):
        client.resume("a", "all")


def test_pause_and_resume_refuse_broken_and_ended(client: Client, redis_client: redis.Redis) -> None:
    redis_client.hset(KEYS.quarantine(), "q", f"normal {to_ms(SOON)} 1 its hash is gone")
    client.schedule("app.task", id="e", every=60)
    redis_client.zrem(KEYS.due_normal(), "e")

    for id, problem in (("q", "quarantined"), ("e", "ended")):
        for call in (client.pause, client.resume):
            with pytest.raises(InvalidSchedule, match=problem):
                call(id)
    assert ("its hash is gone", ScheduleState.ENDED) == (client.get("q").note, client.get("e").state)
    assert ["cancelled", "cancelled"] == [client.cancel("q"), client.cancel("e")]


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


def test_lost_replies_cause_no_duplicate(cutter: _Cutter, redis_client: redis.Redis) -> None:
    client = Client.from_url(f"redis://127.0.0.1:{cutter.port}/0", timeout_s=WITHIN_S)
    for n in range(20):
        client.schedule("app.task", id=f"own-{n}", at=SOON)
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


def test_lost_replies_do_not_change_the_answer(cutter: _Cutter, redis_client: redis.Redis) -> None:
    client = Client.from_url(f"redis://127.0.0.1:{cutter.port}/0", timeout_s=WITHIN_S)
    names = [f"i-{n}" for n in range(8)]
    client.schedule_many({"func": "app.task", "id": name, "at": SOON} for name in names)
    for name in names[:4]:
        client.pause(name)
    pass_time(redis_client, timedelta(days=2))

    assert [None] * 4 == [client.resume(name, "skip") for name in names[:4]]
    assert ["cancelled"] * 4 == [client.cancel(name) for name in names[4:]]
    assert cutter.cuts >= 4


def test_an_abandoned_call_reports_its_id_and_may_have_been_applied(
    cutter: _Cutter, redis_client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = Client.from_url(f"redis://127.0.0.1:{cutter.port}/0", timeout_s=WITHIN_S)
    client.schedule("app.task", id="first", at=SOON)
    cutter._is_cut = lambda data: True  # type: ignore[method-assign]

    with pytest.raises(RedisUnavailable, match="id 'a': it may have been applied") as caught:
        client.schedule("app.task", id="a", at=SOON)

    assert caught.value.may_have_been_applied
    assert 2 == redis_client.zcard(KEYS.due_normal())
