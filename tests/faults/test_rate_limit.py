"""RQ's rate limits hold when the leader queues runs and RQ's delayed jobs: 500 at once, three slots, real workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
import redis
import rq
from rq import Queue

from tests.faults.overdue import become_due
from tests.faults.processes import Start, eventually
from tests.faults.test_native import become_due as rqs_become_due
from tests.faults.test_native import now
from tests.prefix import RQ
from tests.rq_workers import RqWorkers
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not hasattr(rq, "RateLimit"), reason="RQ 2 has no rate limits"),
]
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
    rqs_become_due(watch, {f"j{n}" for n in range(RQS)}, now(watch))
    become_due(watch, *(f"r{n}" for n in range(JOBS)))
    env = os.environ | {"PYTHONPATH": str(tmp_path), "TASKS_REDIS": server.url}
    command = [sys.executable, "-c", DYING_WORKERS, server.url, str(KILLED_EACH), str(WORKERS)]
    guard.spawn(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    eventually(lambda: watch.hlen("done") == JOBS + RQS, 240)

    assert {b"1"} == set(watch.hvals("done"))
    assert SLOTS == max(map(int, watch.lrange("at once", 0, -1)))
    eventually(lambda: watch.zcard(f"{RQ}:rl:mail:allowed") == 0)
    assert (JOBS + RQS) // KILLED_EACH == watch.llen("killed")
    assert 0 == watch.exists(f"{RQ}:rl:mail:rate_limited", f"{RQ}:queue:default")
