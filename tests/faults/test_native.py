"""RQ's own delayed jobs when the leader dies, and thousands of them at once: each queued once, and never early."""

from __future__ import annotations

import signal
from datetime import datetime, timedelta

import redis
from rq import Queue

from tests.faults.leases import await_listeners, lapse
from tests.faults.ledger import await_queued, doubles
from tests.faults.processes import DaemonProcess, Start, eventually
from tests.prefix import RQ
from zsched.core.clock import from_ms
from zsched.embedded import EmbeddedRedis

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


def now(client: redis.Redis) -> datetime:
    return from_ms(int(client.time()[0]) * 1000)


def lateness_ms(client: redis.Redis, due: datetime, ids: set[str]) -> list[float]:
    """Return the lateness of each job by its ``enqueued_at``, in order."""
    with client.pipeline() as pipeline:
        for id in ids:
            pipeline.hget(f"{RQ}:job:{id}", "enqueued_at")
        return sorted((datetime.fromisoformat(at.decode()) - due).total_seconds() * 1000 for at in pipeline.execute())


def become_due(client: redis.Redis, ids: set[str], due: datetime) -> None:
    """Move RQ's delayed jobs to *due*."""
    client.zadd(f"{RQ}:scheduled:default", dict.fromkeys(ids, due.timestamp()))


def assert_each_once_and_never_early(client: redis.Redis, *due: tuple[datetime, set[str]]) -> None:
    """Wait for all jobs of *due*."""
    ids = set[str]().union(*(those for _, those in due))
    jobs = await_queued(client, len(ids))
    assert [] == doubles(jobs)
    assert ids == set(jobs)
    assert [] == [late for at, those in due for late in lateness_ms(client, at, those) if late < 0]
    assert 0 == client.zcard(f"{RQ}:scheduled:default")


def two_daemons(start_daemon: Start, url: str, watch: redis.Redis) -> DaemonProcess:
    """Start a leader and a standby; return the leader."""
    leader = start_daemon(url)
    leader.wait_for("term_began")
    start_daemon(url)
    await_listeners(watch, 2)
    return leader


def test_rqs_delayed_jobs_are_queued_after_kill_9_of_the_leader(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    leader = two_daemons(start_daemon, server.url, watch)
    parts = [delay(watch, now(watch) + timedelta(hours=1), 20, name) for name in ("before", "meanwhile", "after")]
    times = [now(watch)]
    become_due(watch, parts[0], times[0])
    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= 10)

    leader.send(signal.SIGKILL)
    leader.wait()
    times += [now(watch), now(watch) + timedelta(seconds=1)]
    become_due(watch, parts[1], times[1])
    become_due(watch, parts[2], times[2])
    lapse(watch)

    assert_each_once_and_never_early(watch, *zip(times, parts, strict=True))


def test_thousands_of_delayed_jobs_due_in_one_second_are_queued_once_each(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    start_daemon(server.url).wait_for("term_began")
    expected = delay(watch, now(watch) + timedelta(hours=1), AT_ONCE)
    due = now(watch) + timedelta(seconds=1)

    become_due(watch, expected, due)

    assert_each_once_and_never_early(watch, (due, expected))


def test_a_backlog_of_delayed_jobs_survives_kill_9_of_the_leader(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    due = now(watch) - timedelta(minutes=1)
    expected = delay(watch, due, OVERDUE)
    leader = two_daemons(start_daemon, server.url, watch)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > 0)

    leader.send(signal.SIGKILL)
    leader.wait()
    lapse(watch)

    assert_each_once_and_never_early(watch, (due, expected))
