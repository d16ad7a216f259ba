"""Whole daemons with ``[queues.<name>] max_per_second``: how fast a limited queue is served, and what others notice."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from tests.faults.ledger import doubles, entries, fired, queued
from tests.faults.processes import DaemonProcess, eventually
from tests.faults.threads import know
from zsched import Client
from zsched.core.clock import from_ms
from zsched.core.model import Priority
from zsched.embedded.guard import Guard
from zsched.storage.reader import Overview

pytestmark = pytest.mark.redis
FUNC = "app.tasks.run"
LEASE = {"DAEMON_LEASE_MS": "400", "DAEMON_RENEW_MS": "100"}


@pytest.fixture
def client(redis_url: str, redis_client: redis.Redis) -> Client:
    know(redis_client)
    return Client.from_url(redis_url)


@pytest.fixture
def guard() -> Iterator[Guard]:
    with Guard() as guard:
        yield guard


class Configured:
    """Daemons by a configuration file."""

    def __init__(self, guard: Guard, url: str, folder: Path) -> None:
        self._guard, self._url, self._file = guard, url, folder / "zsched.toml"

    def start(self, **per_second: float) -> DaemonProcess:
        """A daemon with these limits, when it runs."""
        tables = (f"[queues.{queue}]\nmax_per_second = {rate}\n" for queue, rate in per_second.items())
        self._file.write_text("".join(tables))
        daemon = DaemonProcess(self._guard, self._url, CONFIG=str(self._file), **LEASE)
        daemon.wait_for("daemon_started")
        return daemon

    def stop(self, daemon: DaemonProcess) -> None:
        """Stop it in order."""
        daemon.send(signal.SIGTERM)
        assert 0 == daemon.wait()


@pytest.fixture
def daemons(guard: Guard, redis_url: str, tmp_path: Path) -> Configured:
    return Configured(guard, redis_url, tmp_path)


def now_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def schedule(client: Client, prefix: str, queue: str, count: int, due_ms: int, **options: object) -> None:
    rows = (
        {"func": FUNC, "id": f"{prefix}{n:04}", "at": from_ms(due_ms), "queue": queue, "allow_past": True, **options}
        for n in range(count)
    )
    assert count == client.schedule_many(rows).created


def pushes_ms(client: redis.Redis, prefix: str) -> list[float]:
    """When the log says that runs of schedules with that *prefix* were pushed."""
    return [t / 1000 for run, t in fired(client) if run.startswith(prefix)]


def most_in_a_second(times: list[float]) -> int:
    return max(sum(at <= other < at + 1000 for other in times) for at in times)


def test_a_limited_queue_is_served_at_its_rate_and_nobody_else_waits(
    client: Client, redis_client: redis.Redis, daemons: Configured
) -> None:
    daemon = daemons.start(email=100)
    daemon.wait_for("term_began")
    due_ms = now_ms(redis_client) + 1500
    schedule(client, "limited", "email", 2000, due_ms)
    schedule(client, "other", "default", 2000, due_ms)
    schedule(client, "urgent", "default", 1, due_ms + 2000, priority="high")

    eventually(lambda: redis_client.llen("rq:queue:default") == 2001)
    eventually(lambda: redis_client.llen("rq:queue:email") >= 400)
    daemons.stop(daemon)

    others, limited = pushes_ms(redis_client, "other"), pushes_ms(redis_client, "limited")
    [urgent] = pushes_ms(redis_client, "urgent")
    assert min(others + limited) >= due_ms
    assert max(others) - due_ms < 500  # some 40 ms; a busy machine is slower
    assert urgent - (due_ms + 2000) < 250
    assert 5 <= most_in_a_second(limited) <= 104
    assert 0.9 * 100 <= (len(limited) - 5) / ((limited[-1] - limited[0]) / 1000) <= 101
    assert [f"limited{n:04}-{due_ms}" for n in range(len(limited))] == queued(redis_client, "email")


def test_the_daemon_sleeps_between_two_runs_of_a_limited_queue(
    client: Client, redis_client: redis.Redis, daemons: Configured
) -> None:
    daemon = daemons.start(email=5)
    daemon.wait_for("term_began")
    schedule(client, "s", "email", 100, now_ms(redis_client))
    eventually(lambda: redis_client.llen("rq:queue:email") >= 1)
    redis_client.config_resetstat()

    eventually(lambda: redis_client.llen("rq:queue:email") >= 11)
    calls = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    daemons.stop(daemon)

    steps = [after - before for before, after in pairwise(pushes_ms(redis_client, "s"))]
    assert min(steps) >= 199  # times of the log are in µs, those of limits in whole ms
    assert calls < 150  # a hundred looks at most for ten runs in two seconds, renewals, native's, and what others ask


def test_recurring_schedules_of_a_limited_queue_take_their_turns(
    client: Client, redis_client: redis.Redis, daemons: Configured
) -> None:
    start_ms = (now_ms(redis_client) // 1000 + 3) * 1000
    rows = [
        {"func": FUNC, "id": f"r{n}", "every": 3600, "starts": from_ms(start_ms), "queue": "email"} for n in range(10)
    ]
    assert 10 == client.schedule_many(rows).created
    daemon = daemons.start(email=10)

    eventually(lambda: redis_client.llen("rq:queue:email") == 10)
    daemons.stop(daemon)

    moves = [line.split() for one in entries(redis_client, "advance") for line in one.fields["moves"].splitlines()]
    times = [one.t / 1000 for one in entries(redis_client, "advance")]
    assert {(f"r{n}", "fired", str(start_ms)) for n in range(10)} == {tuple(move[:3]) for move in moves}
    assert min(after - before for before, after in pairwise(times)) >= 95
    assert all(client.get(f"r{n}").next_ms == start_ms + 3_600_000 for n in range(10))


def test_a_take_over_keeps_to_the_limit_and_pushes_nothing_twice(
    client: Client, redis_client: redis.Redis, daemons: Configured
) -> None:
    first, _second = daemons.start(email=50), daemons.start(email=50)
    eventually(lambda: first.of("term_began") or _second.of("term_began"))
    leader = first if first.of("term_began") else _second
    schedule(client, "s", "email", 150, now_ms(redis_client))
    eventually(lambda: redis_client.llen("rq:queue:email") >= 30)

    leader.send(signal.SIGKILL)
    eventually(lambda: redis_client.llen("rq:queue:email") == 150)

    runs = queued(redis_client, "email")
    assert [] == doubles(runs)
    assert sorted(runs) == runs
    assert most_in_a_second(pushes_ms(redis_client, "s")) <= 52
    assert 2 <= len(Counter(one.fields["daemon"] for one in entries(redis_client, "term")))


def test_a_limit_is_changed_and_taken_away_by_a_restart(
    client: Client, redis_client: redis.Redis, daemons: Configured
) -> None:
    schedule(client, "s", "email", 2000, now_ms(redis_client))
    slow = daemons.start(email=1)
    eventually(lambda: redis_client.llen("rq:queue:email") >= 1)
    daemons.stop(slow)

    begin = redis_client.llen("rq:queue:email")
    faster = daemons.start(email=200)
    eventually(lambda: redis_client.llen("rq:queue:email") >= begin + 100)
    daemons.stop(faster)

    assert redis_client.llen("rq:queue:email") < 2000
    unlimited = daemons.start()
    eventually(lambda: redis_client.llen("rq:queue:email") == 2000)
    eventually(lambda: not redis_client.exists("zsched:{default}:limits"))
    daemons.stop(unlimited)

    runs = queued(redis_client, "email")
    assert sorted(set(runs)) == runs
    assert redis_client.hget("zsched:{default}:meta", "aside") is None


def test_what_is_held_back_is_told_listed_and_no_trouble(
    client: Client, redis_client: redis.Redis, redis_url: str, daemons: Configured
) -> None:
    due_ms = now_ms(redis_client) - 3_600_000
    schedule(client, "s", "email", 50, due_ms)
    schedule(client, "h", "email", 3, due_ms + 1, priority="high")
    daemon = daemons.start(email=0.1)
    eventually(lambda: redis_client.llen("rq:queue:email") == 1)
    eventually(lambda: client.overview().held_back)

    overview: Overview = client.overview()
    listed = [schedule.id for schedule in client.list()]

    assert [("email", 0.1, 52)] == [(one.queue, one.per_second, one.waiting) for one in overview.held_back]
    assert {Priority.HIGH: 2, Priority.NORMAL: 50, Priority.LOW: 0} == overview.waiting
    assert {0} == set(overview.overdue.values())
    assert overview.oldest_due_ms is None
    assert [*(f"s{n:04}" for n in range(50)), "h0001", "h0002"] == listed
    daemons.stop(daemon)
