"""
A real ``rq worker`` executes the runs that the client scheduled and the daemon fired.

The test uses the installed RQ, and the older ones of ``rq_python``.
"""

import json
import subprocess
from ast import literal_eval
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from tests.builders.daemons import DaemonThread
from tests.builders.leaders import know
from tests.builders.workers import RqWorkers, work_off
from tests.integration.reruns import tasks
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client, Contended, CurrentRun, InvalidSchedule, current_run
from zsched.core.clock import from_ms
from zsched.core.runs.run_id import RunId
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link
from zsched.storage.jobs import Jobs, Notes
from zsched.storage.keys import Keys

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
KEYS = Keys("default")
REPORTS = "tests.integration.reruns.tasks"


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


@pytest.mark.parametrize("task", ["note", "fail"])
def test_a_run_of_no_lifetime_is_removed_when_its_end_is_in_the_log(
    redis_url: str, redis_client: redis.Redis, workers: RqWorkers, task: str
) -> None:
    know(redis_client)
    client = Client.from_url(redis_url)
    run = client.enqueue(f"tasks.{task}", id="a", result_ttl=0, failure_ttl=0).run_id or ""
    workers.work()
    key, result = f"{RQ}:job:{run}", f"{RQ}:results:{run}"
    assert 0 < redis_client.ttl(key) <= 60
    assert 1 == redis_client.exists(result)

    with DaemonThread(redis_url):
        eventually(lambda: not redis_client.exists(key, result))
        again = client.retry(run)

    assert b"0" == redis_client.hget(f"{RQ}:job:{again}", "zs_result_ttl")
    redis_client.delete(f"{RQ}:job:{again}")
    assert [] == [each for each in redis_client.scan_iter(f"{RQ}:*") if run.encode() in each]
    assert ["succeeded" if task == "note" else "failed"] == [one.status for one in client.runs("a") if one.id == run]
    assert [0, 0] == [redis_client.zcard(f"{RQ}:{kind}:default") for kind in ("finished", "failed")]


def test_chained_runs_are_executed_one_after_the_other(
    redis_url: str, redis_client: redis.Redis, workers: RqWorkers
) -> None:
    know(redis_client)
    client = Client.from_url(redis_url)
    with DaemonThread(redis_url):
        client.schedule("tasks.note", id="rule", every=0.3, overlap="queue", overlap_limit=4)
        eventually(lambda: redis_client.llen(KEYS.waiting("rule")) == 3)
        client.pause("rule")
        workers.start()
        eventually(lambda: redis_client.llen("noted") >= 4)
        eventually(lambda: not redis_client.exists(KEYS.chains(), KEYS.waiting("rule"), f"{RQ}:queue:default"))

    assert 4 == redis_client.llen("noted")


# -- the current run of a task ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Worker", "SimpleWorker"])
@pytest.mark.parametrize("serializer", ["DefaultSerializer", "JSONSerializer"])
def test_a_task_knows_its_run_and_its_notes_survive_an_attempt(
    redis_url: str, redis_client: redis.Redis, guard: Guard, tmp_path: Path, kind: str, serializer: str
) -> None:
    client = Client.from_url(redis_url, serializer="json" if serializer.startswith("JSON") else "pickle")
    run = client.enqueue(f"{REPORTS}.report", id="a-b", retry=1).run_id
    assert run is not None
    parts = RunId.parse(run)
    assert parts is not None

    options = ("--worker-class", f"rq.{kind}", "--serializer", f"rq.serializers.{serializer}")
    RqWorkers(guard, redis_url, tmp_path).work(*options)

    assert b"finished" == redis_client.hget(KEYS.rq.job(run), "status")
    [job] = Jobs(Link.from_url(redis_url, 5), KEYS).read([run])
    assert job is not None
    noted = json.loads(job.note)
    assert {
        "id": run, "schedule": "a-b", "nominal": from_ms(parts.nominal_ms).isoformat(),
        "attempt1": noted["attempt1"], "attempt2": noted["attempt2"],
    } == noted  # fmt: skip
    assert 0 <= noted["attempt1"] <= noted["attempt2"]
    assert 2 == job.attempt


def test_a_note_does_not_recreate_a_deleted_job(redis_url: str, redis_client: redis.Redis) -> None:
    Client.from_url(redis_url).enqueue(f"{REPORTS}.vanish", id="a", result_ttl=60)

    work_off(Queue("default", connection=redis_client), redis_client)

    assert b"0" == redis_client.get("found")


@pytest.mark.parametrize("job_id", ["other", "a-1"])
def test_current_run_is_none_in_a_foreign_job(redis_client: redis.Redis, job_id: str) -> None:
    queue = Queue("default", connection=redis_client)
    queue.enqueue(tasks.foreign, job_id=job_id)

    work_off(queue, redis_client)

    assert b"None" == redis_client.get("found")


def test_current_run_is_none_outside_of_a_job() -> None:
    assert current_run() is None


@pytest.fixture
def run(redis_client: redis.Redis) -> CurrentRun:
    """The current run of a task."""
    id = "a-1700000000000"
    redis_client.hset(KEYS.rq.job(id), mapping={"data": "call", "status": "started"})
    at = from_ms(1_700_000_000_000)
    return CurrentRun(id, "a", at, 1, at - at, Notes(redis_client, KEYS, id))


def noted(redis_client: redis.Redis) -> object:
    return json.loads(redis_client.hget(KEYS.rq.job("a-1700000000000"), "zs_note") or b"null")


def test_notes_are_merged_by_name(run: CurrentRun, redis_client: redis.Redis) -> None:
    run.note(sent=1, seen=[1, {"a": None}])
    run.note(sent=2, failed="ü")

    assert {"sent": 2, "seen": [1, {"a": None}], "failed": "ü"} == noted(redis_client)


def test_a_note_overtaken_at_every_attempt_raises_contended(
    run: CurrentRun, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute, numbers = Notes.execute, iter(range(1000))

    def forestalled(self: Notes, *command: Any) -> Any:
        reply = execute(self, *command)
        if command[0] == "HGET":
            redis_client.hset(KEYS.rq.job("a-1700000000000"), "zs_note", json.dumps({"other": next(numbers)}))
        return reply

    monkeypatch.setattr(Notes, "execute", forestalled)

    with pytest.raises(Contended, match="zs_note of run 'a-1700000000000' was changed by another writer"):
        run.note(sent=1)
    assert {"other": 99} == noted(redis_client)


@pytest.mark.parametrize("wrong", [float("nan"), object(), {1, 2}, b"x", "x" * 4096])
def test_a_note_that_is_too_long_or_not_json_is_an_error(
    run: CurrentRun, redis_client: redis.Redis, wrong: object
) -> None:
    run.note(sent=1)

    with pytest.raises(InvalidSchedule, match="note="):
        run.note(failed=wrong)
    assert {"sent": 1} == noted(redis_client)


def test_the_limit_applies_to_all_notes_together(run: CurrentRun, redis_client: redis.Redis) -> None:
    run.note(a="x" * 4000)

    with pytest.raises(InvalidSchedule, match=r"would have 41.. bytes, the limit is 4096"):
        run.note(b="x" * 100)
    assert {"a": "x" * 4000} == noted(redis_client)


def test_a_corrupted_note_is_replaced(run: CurrentRun, redis_client: redis.Redis) -> None:
    redis_client.hset(KEYS.rq.job(run.id), "zs_note", b"[\xff")

    run.note(sent=1)

    assert {"sent": 1} == noted(redis_client)


def test_a_note_survives_a_save_by_rq(run: CurrentRun, redis_client: redis.Redis) -> None:
    run.note(sent=1)
    job = Job.fetch(run.id, connection=redis_client, serializer=JSONSerializer)
    job.save()

    assert {"sent": 1} == noted(redis_client)
