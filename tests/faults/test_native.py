"""RQ's delayed jobs when the leader dies, thousands at once, and with rate limits: each queued once, never early."""

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import redis
import rq
from rq import Queue

from tests.builders.daemons import Start
from tests.builders.workers import RqWorkers
from tests.faults import overdue
from tests.faults.leases import lapse, leader_and_standby
from tests.ledger import await_queued, doubles
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

AT_ONCE = 5_000
OVERDUE = 20_000
JOBS, SLOTS, WORKERS = 500, 3, 6
RQS = 100  # of RQ's own delayed jobs beside them, of the same limit
KILLED_EACH = 20  # jobs done: then a worker is killed
TASKS = '''
import os, redis

client = redis.Redis.from_url(os.environ["TASKS_REDIS"])

def work(name):
    """How many are at work while this one is, and what is done."""
    client.rpush("at once", client.incr("at work"))
    client.hincrby("done", name)
    client.decr("at work")
'''
# Workers that are forked, as that takes milliseconds. Every so often one is killed between its job's commit and the
# call that gives the slot back. RQ's maintenance, with which a worker begins, would free the slot: it is left out.
DYING_WORKERS = """
import os, signal, sys
import redis
import rq.worker.base
from rq import SimpleWorker

each, lanes = int(sys.argv[2]), int(sys.argv[3])
release = rq.worker.base.release_slot

def release_or_die(job):
    if client.incr("ended") % each == 0:
        client.rpush("killed", job.id)
        os.kill(os.getpid(), signal.SIGKILL)
    return release(job)

class Worker(SimpleWorker):
    def run_maintenance_tasks(self):
        pass

rq.worker.base.release_slot = release_or_die
living = 0
while os.getppid() > 1:
    if living < lanes:
        if not os.fork():
            client = redis.Redis.from_url(sys.argv[1])
            Worker(["default"], connection=client).work(logging_level="ERROR")
            os._exit(0)
        living += 1
    else:
        os.wait()
        living -= 1
"""


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


def test_rqs_delayed_jobs_are_queued_after_kill_9_of_the_leader(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    leader, _ = leader_and_standby(start_daemon, server.url, watch)
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
    leader, _ = leader_and_standby(start_daemon, server.url, watch)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > 0)

    leader.send(signal.SIGKILL)
    leader.wait()
    lapse(watch)

    assert_each_once_and_never_early(watch, (due, expected))


@pytest.mark.once
@pytest.mark.skipif(not hasattr(rq, "RateLimit"), reason="RQ 2 has no rate limits")
def test_500_jobs_at_once_never_have_more_than_the_slots_of_their_limit_and_all_run(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, guard: Guard, tmp_path: Path
) -> None:
    (tmp_path / "limited_tasks.py").write_text(TASKS)
    due, queue = now(watch) + timedelta(seconds=2), Queue("default", connection=watch)
    limit = rq.RateLimit("mail", SLOTS)
    for n in range(JOBS):
        queue.enqueue_at(due, "limited_tasks.work", f"j{n}", job_id=f"j{n}", rate_limit=limit)
    start_daemon(server.url).wait_for("term_began")
    workers = RqWorkers(guard, server.url, tmp_path)
    for _ in range(WORKERS):
        workers.start("-w", "rq.SimpleWorker")

    eventually(lambda: watch.hlen("done") == JOBS, 120)

    assert {b"1"} == set(watch.hvals("done"))
    at_once = Counter(map(int, watch.lrange("at once", 0, -1)))
    assert SLOTS == max(at_once)
    eventually(lambda: watch.zcard(f"{RQ}:rl:mail:allowed") == 0)
    assert 0 == watch.exists(f"{RQ}:rl:mail:rate_limited", f"{RQ}:queue:default")


@pytest.mark.once
@pytest.mark.skipif(not hasattr(rq, "RateLimit"), reason="RQ 2 has no rate limits")
def test_500_runs_at_once_beside_jobs_of_rq_never_have_more_than_their_slots_although_workers_are_killed(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, guard: Guard, tmp_path: Path
) -> None:
    (tmp_path / "limited_tasks.py").write_text(TASKS)
    start_daemon(server.url).wait_for("term_began")
    client, queue = Client.from_url(server.url), Queue("default", connection=watch)
    due = now(watch) + timedelta(hours=1)
    rows = [{"func": "limited_tasks.work", "args": (f"r{n}",), "id": f"r{n}", "at": due} for n in range(JOBS)]
    put = client.schedule_many([{**row, "rate_limit": rq.RateLimit("mail", SLOTS)} for row in rows])
    assert JOBS == put.created
    for n in range(RQS):
        queue.enqueue_at(due, "limited_tasks.work", f"j{n}", job_id=f"j{n}", rate_limit=rq.RateLimit("mail", SLOTS))
    become_due(watch, {f"j{n}" for n in range(RQS)}, now(watch))
    overdue.become_due(watch, *(f"r{n}" for n in range(JOBS)))
    env = os.environ | {"PYTHONPATH": str(tmp_path), "TASKS_REDIS": server.url}
    command = [sys.executable, "-c", DYING_WORKERS, server.url, str(KILLED_EACH), str(WORKERS)]
    guard.spawn(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    eventually(lambda: watch.hlen("done") == JOBS + RQS, 240)

    assert {b"1"} == set(watch.hvals("done"))
    assert SLOTS == max(map(int, watch.lrange("at once", 0, -1)))
    eventually(lambda: watch.zcard(f"{RQ}:rl:mail:allowed") == 0)
    eventually(lambda: watch.llen("killed") == (JOBS + RQS) // KILLED_EACH)  # maybe after its slot was freed
    assert 0 == watch.exists(f"{RQ}:rl:mail:rate_limited", f"{RQ}:queue:default")
