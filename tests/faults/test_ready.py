"""
RQ 3 releases a run in two steps: it is marked ready when the previous run ends, then it is queued. Workers die between
the steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
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

# One worker after the other, forked as that takes milliseconds; it is killed when it would queue what is ready. The
# next one begins with RQ's maintenance, which would do that, too. It is left out: else it comes every ten minutes.
DYING_WORKERS = """
import os, signal, sys
import redis
from rq import Queue, SimpleWorker

def die(*_):
    client.rpush("killed", worker.name)
    os.kill(os.getpid(), signal.SIGKILL)

class Worker(SimpleWorker):
    def run_maintenance_tasks(self):
        pass

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

    for id in ids:
        runs = stage.runs(id)
        assert 1 + BEHIND == len(runs)
        assert runs == [span.run_id for span in stage.spans(id)]
        assert set(runs[1:]) == {change.run_id for change in stage.released(id)}  # by the leader, soon after a kill
    assert 0 == redis_client.zcard(f"{RQ}:ready:default")
