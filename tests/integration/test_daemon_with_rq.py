"""
A real ``rq worker`` executes the runs that the client scheduled and the daemon fired.

The test uses the installed RQ, and the older ones of ``rq_python``.
"""

from __future__ import annotations

import subprocess
from ast import literal_eval
from datetime import timedelta
from pathlib import Path

import pytest
import redis

from tests.faults.processes import eventually
from tests.faults.threads import DaemonThread, know
from tests.prefix import RQ
from tests.rq_workers import RqWorkers
from zsched import Client
from zsched.embedded.guard import Guard

TASKS = """
import os, redis
from rq import get_current_job

def note(*args, **kwargs):
    with redis.Redis.from_url(os.environ["TASKS_REDIS"]) as client:
        client.rpush("noted", repr((get_current_job().id.rpartition("-")[0], args, kwargs)))

def fail():
    raise ValueError("on purpose")
"""

RESTORE = """
import sys, redis, rq
from rq.job import Job
client = redis.Redis.from_url(sys.argv[1])
for run in sys.argv[2:]:
    job = Job.fetch(run, connection=client)
    print(job.id, job.origin, job.get_status(), job.timeout, job.func_name, job.args, job.kwargs, sep="|")
print(rq.VERSION)
"""


@pytest.fixture
def workers(rq_python: str, redis_url: str, guard: Guard, tmp_path: Path) -> RqWorkers:
    return RqWorkers(guard, redis_url, tmp_path, TASKS, rq_python)


@pytest.mark.true_start
@pytest.mark.parametrize("serializer", ["pickle", "json"])
def test_a_worker_restores_and_executes_scheduled_runs(
    rq_python: str, redis_url: str, redis_client: redis.Redis, workers: RqWorkers, serializer: str
) -> None:
    know(redis_client)
    client = Client.from_url(redis_url, serializer=serializer)
    with DaemonThread(redis_url):
        client.schedule("tasks.note", id="once", after=0, args=(1, "zwei"), kwargs={"drei": [3.5, None]}, timeout="1h")
        client.schedule("tasks.note", id="front", after=0, at_front=True, description="naïve – ünïcode")
        client.schedule("tasks.note", id="rule", every=0.2, count=1, meta={"a": 1}, result_ttl=60, failure_ttl=-1)
        client.schedule("tasks.fail", id="fails", after=timedelta(0), retry=1, queue="other")
        client.enqueue("tasks.note", id="now", args=("now",))
        eventually(
            lambda: redis_client.llen(f"{RQ}:queue:default") == 4 and redis_client.llen(f"{RQ}:queue:other") == 1
        )
    runs = [run.decode() for name in ("default", "other") for run in redis_client.lrange(f"{RQ}:queue:{name}", 0, -1)]

    if serializer == "pickle":
        command = [rq_python, "-c", RESTORE, redis_url, *runs]
        restored = subprocess.run(command, cwd=workers.folder, capture_output=True, check=True, text=True)
        told = {line.partition("-")[0]: line.split("|") for line in restored.stdout.splitlines()}
        assert ["default", "JobStatus.QUEUED", "3600", "tasks.note"] == told["once"][1:5]
        assert ["(1, 'zwei')", "{'drei': [3.5, None]}"] == told["once"][5:]

    kind = "JSONSerializer" if serializer == "json" else "DefaultSerializer"
    workers.work("default", "other", "--serializer", f"rq.serializers.{kind}")

    noted = {id: rest for id, *rest in map(literal_eval, map(bytes.decode, redis_client.lrange("noted", 0, -1)))}
    assert {"once", "front", "rule", "now"} == set(noted)
    assert [(1, "zwei"), {"drei": [3.5, None]}] == noted["once"]
    assert [("now",), {}] == noted["now"]
    statuses = {run.rpartition("-")[0]: redis_client.hget(f"{RQ}:job:{run}", "status") for run in runs}
    assert dict.fromkeys(noted, b"finished") | {"fails": b"failed"} == statuses


def test_chained_runs_are_executed_one_after_the_other(
    redis_url: str, redis_client: redis.Redis, workers: RqWorkers
) -> None:
    know(redis_client)
    client = Client.from_url(redis_url)
    with DaemonThread(redis_url):
        client.schedule("tasks.note", id="rule", every=0.3, overlap="queue", overlap_limit=4)
        eventually(lambda: redis_client.zcard(f"{RQ}:deferred:default") == 3)
        client.pause("rule")
        workers.work()

    assert 4 == redis_client.llen("noted")
    assert 0 == redis_client.exists(f"{RQ}:deferred:default", f"{RQ}:ready:default", f"{RQ}:queue:default")
