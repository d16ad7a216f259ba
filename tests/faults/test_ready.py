"""
RQ 3 releases a run in two steps: it is marked ready when the previous run ends, then it is queued. Workers die between
the steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import redis
from rq import Queue

from tests.faults.overlap import Stage
from tests.faults.processes import eventually
from tests.prefix import RQ
from zsched.embedded.guard import Guard

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not hasattr(Queue, "enqueue_ready_jobs_by_queue"), reason="RQ 2 has no run that is ready"),
]
SCHEDULES, BEHIND = 40, 5  # 200 kills: each run that others wait for is the last of its worker
RELEASED_WITHIN_S = 5.0

# One worker after the other, forked as that takes milliseconds; it is killed when it would queue what is ready. The
# next one begins with RQ's maintenance, which would do that, too. It is left out: else it comes every ten minutes.
DYING_WORKERS = """
import os, signal, sys
import redis
from rq import Queue, SimpleWorker

def die(*_):
    seconds, micros = client.time()
    client.rpush("killed", f"{worker.last_job_id} {seconds}.{micros:06}")
    os.kill(os.getpid(), signal.SIGKILL)

class Worker(SimpleWorker):
    def run_maintenance_tasks(self):
        pass

    def perform_job(self, job, *more):
        self.last_job_id = job.id
        return super().perform_job(job, *more)

Queue.enqueue_ready_jobs_by_queue = die
print("ready", flush=True)
while os.getppid() > 1:
    child = os.fork()
    if not child:
        client = redis.Redis.from_url(sys.argv[1])
        worker = Worker(["default"], connection=client)
        worker.work(burst=True, logging_level="ERROR")
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture
def stage(guard: Guard, redis_url: str, redis_client: redis.Redis, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(guard, redis_url, tmp_path)
    yield stage
    stage.close()


def test_a_ready_run_of_a_dead_worker_is_released_and_no_run_is_lost_or_doubled(
    stage: Stage, guard: Guard, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    stage.daemon()
    ids = [f"s{n}" for n in range(SCHEDULES)]
    for id in ids:
        stage.schedule(id, "queue", every=0.5, seconds=0.0, overlap_limit=1 + BEHIND)
    eventually(lambda: stage.waiting() == SCHEDULES * BEHIND, 60)
    for id in ids:
        stage.client.pause(id)
    env = os.environ | {"PYTHONPATH": str(tmp_path), "TASKS_REDIS": redis_url}
    guard.spawn([sys.executable, "-c", DYING_WORKERS, redis_url], env=env, stdout=subprocess.DEVNULL)

    eventually(lambda: redis_client.llen("killed") == SCHEDULES * BEHIND, 120)
    eventually(lambda: all(len(stage.spans(id)) == 1 + BEHIND for id in ids), 30)

    killed = dict(line.decode().split(" ") for line in redis_client.lrange("killed", 0, -1))
    waits = []
    for id in ids:
        runs = stage.runs(id)
        assert runs == [span.run_id for span in stage.spans(id)]
        released = {change.run_id: change.at_us / 1e6 for change in stage.released(id)}
        assert set(runs[1:]) == set(released)
        waits += [released[behind] - float(killed[run]) for run, behind in pairwise(runs)]
    assert SCHEDULES * BEHIND == len(waits)
    assert max(waits) < RELEASED_WITHIN_S
    assert 0 == redis_client.zcard(f"{RQ}:ready:default")
