"""
RQ's own delayed jobs when the leader dies, and thousands of them at once: each queued once, and in time.

The lateness is printed (``-rA``); ``ZSCHED_TEST_LONG=1`` compares it with limits, for an otherwise idle machine.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime, timedelta

import redis
from rq import Queue

from tests.faults.ledger import doubles, queued
from tests.faults.processes import SHORT, Start, eventually
from tests.prefix import RQ
from zsched.core.clock import from_ms
from zsched.embedded import EmbeddedRedis

IS_LONG = os.environ.get("ZSCHED_TEST_LONG") == "1"
OVER_A_SECOND = {"DAEMON_LEASE_MS": "1500", "DAEMON_RENEW_MS": "300"}  # so that some are due while nobody leads
AT_ONCE = 5_000
OVERDUE = 20_000


def delay(client: redis.Redis, due: datetime, number: int, name: str = "job") -> set[str]:
    """Put jobs due at *due* like RQ, except that its registry is written in the same transaction; return their ids."""
    queue, ids = Queue("default", connection=client), [f"{name}-{n}" for n in range(number)]
    for start in range(0, number, 500):
        with client.pipeline() as pipeline:
            for id in ids[start : start + 500]:
                queue.enqueue_at(due, "app.task", job_id=id, pipeline=pipeline)
            pipeline.execute()
    return set(ids)


def tell(measured: str) -> None:
    """Print a measurement for readers of the output."""
    sys.stdout.write(f"\n{measured}\n")


def now(client: redis.Redis) -> datetime:
    return from_ms(int(client.time()[0]) * 1000)


def lateness_ms(client: redis.Redis, due: datetime, ids: set[str]) -> list[float]:
    """Return the lateness of each job by its ``enqueued_at``, in order."""
    with client.pipeline() as pipeline:
        for id in ids:
            pipeline.hget(f"{RQ}:job:{id}", "enqueued_at")
        return sorted((datetime.fromisoformat(at.decode()) - due).total_seconds() * 1000 for at in pipeline.execute())


def test_rqs_delayed_jobs_are_queued_after_kill_9_of_the_leader(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    leader = start_daemon(server.url, **OVER_A_SECOND)
    leader.wait_for("hold_ended")
    begin = now(watch) + timedelta(seconds=2)
    due = {f"j{n}-{m}": begin + timedelta(seconds=n) for n in range(8) for m in range(5)}
    queue = Queue("default", connection=watch)
    for id, at in due.items():
        queue.enqueue_at(at, "app.task", job_id=id)
    standby = start_daemon(server.url, **OVER_A_SECOND)
    standby.wait_for("daemon_started")
    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= 10)

    leader.send(signal.SIGKILL)

    standby.wait_for("term_began")
    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= len(due), within_s=30)
    runs = queued(watch)
    assert [] == doubles(runs)
    assert set(due) == set(runs)
    late_ms = [late for id, at in due.items() for late in lateness_ms(watch, at, {id})]
    assert 0 <= min(late_ms)
    assert max(late_ms) <= 3_500 or not IS_LONG  # a second of RQ, the lease, a second between two looks
    tell(f"latest of {len(due)} RQ jobs around a kill -9: {max(late_ms):.0f} ms")
    assert 1 == len(standby.of("term_began"))


def test_thousands_of_delayed_jobs_due_in_one_second_are_queued_once_each(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    daemon = start_daemon(server.url, **SHORT)
    daemon.wait_for("hold_ended")
    expected = delay(watch, now(watch) + timedelta(hours=1), AT_ONCE)
    due = now(watch) + timedelta(seconds=3)

    watch.zadd(f"{RQ}:scheduled:default", dict.fromkeys(expected, due.timestamp()))
    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= AT_ONCE, within_s=60)

    runs = queued(watch)
    assert [] == doubles(runs)
    assert expected == set(runs)
    late_ms = lateness_ms(watch, due, expected)
    assert 0 <= late_ms[0]
    assert late_ms[-1] <= 5_000 or not IS_LONG
    tell(f"{AT_ONCE:,} RQ jobs due at once: first {late_ms[0]:.0f} ms late, last {late_ms[-1]:.0f} ms")


def test_a_backlog_of_delayed_jobs_survives_kill_9_of_the_leader(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    expected = delay(watch, now(watch) - timedelta(minutes=1), OVERDUE)
    leader = start_daemon(server.url, **SHORT)
    leader.wait_for("term_began")
    standby = start_daemon(server.url, **SHORT)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > 0)

    leader.send(signal.SIGKILL)

    standby.wait_for("term_began")
    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= OVERDUE, within_s=60)
    runs = queued(watch)
    assert [] == doubles(runs)
    assert expected == set(runs)
    assert 0 == watch.zcard(f"{RQ}:scheduled:default")
