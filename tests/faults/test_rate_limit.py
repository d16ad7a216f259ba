"""RQ's rate limits hold when the leader queues RQ's delayed jobs: 500 at once, three slots, real workers."""

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

from tests.faults.processes import STEADY, Start, eventually
from tests.faults.test_native import now
from tests.prefix import RQ
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not hasattr(rq, "RateLimit"), reason="RQ 2 has no rate limits"),
]
JOBS, SLOTS, WORKERS = 500, 3, 6
TASKS = '''
import os, redis

client = redis.Redis.from_url(os.environ["TASKS_REDIS"])

def work(name):
    """How many are at work while this one is, and what is done."""
    client.rpush("at once", client.incr("at work"))
    client.hincrby("done", name)
    client.decr("at work")
'''


def test_500_jobs_at_once_never_have_more_than_the_slots_of_their_limit_and_all_run(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, guard: Guard, tmp_path: Path
) -> None:
    (tmp_path / "limited_tasks.py").write_text(TASKS)
    due, queue = now(watch) + timedelta(seconds=2), Queue("default", connection=watch)
    limit = rq.RateLimit("mail", SLOTS)
    for n in range(JOBS):
        queue.enqueue_at(due, "limited_tasks.work", f"j{n}", job_id=f"j{n}", rate_limit=limit)
    start_daemon(server.url, **STEADY).wait_for("term_began")
    env = os.environ | {"PYTHONPATH": str(tmp_path), "TASKS_REDIS": server.url}
    command = [sys.executable, "-m", "rq.cli", "worker", "--url", server.url, "-w", "rq.SimpleWorker", "default"]
    for _ in range(WORKERS):
        guard.spawn(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    eventually(lambda: watch.hlen("done") == JOBS, 120)

    assert {b"1"} == set(watch.hvals("done"))
    at_once = Counter(map(int, watch.lrange("at once", 0, -1)))
    assert SLOTS == max(at_once)
    eventually(lambda: watch.zcard(f"{RQ}:rl:mail:allowed") == 0)
    assert 0 == watch.exists(f"{RQ}:rl:mail:rate_limited", f"{RQ}:queue:default")
