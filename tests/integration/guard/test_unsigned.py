"""Parts of a job that no signature covers: a worker reads them without running them. RQ's own jobs run by choice."""

from __future__ import annotations

import pickle
from base64 import b64encode

from rq import Queue
from rq.job import Job
from rq.registry import StartedJobRegistry

from tests.integration.guard.ground import KEYS, TASKS, Bomb, Forge, call
from tests.prefix import RQ
from zsched.embedded.guard import Guard

WORK = f"{TASKS}.work"


# -- what no signature covers ------------------------------------------------------------------------


def test_a_pickle_among_the_things_that_a_task_reads_is_not_opened(forge: Forge, guard: Guard, kind: str) -> None:
    before = forge.enqueue("before")
    run_id = forge.enqueue("reader", f"{TASKS}.read_others", args=())
    bomb = pickle.dumps({"x": Bomb("read")})
    forge.alter(run_id, dependency_id=before, result=bomb)
    forge.alter(before, meta=bomb, result=bomb)
    for id in (before, run_id):
        forge.redis.xadd(f"{RQ}:results:{id}", {"type": 1, "return_value": b64encode(bomb)})

    forge.burst(guard, kind)

    assert b"finished" == forge.fields(run_id)["status"]
    assert not [name for name in forge.receipts if name.startswith("boom")]
    assert "closed-1-NotPlain" in forge.receipts


def test_an_abandoned_job_that_is_forged_runs_no_callback(forge: Forge, guard: Guard) -> None:
    forged = {
        "data": call("x"), "status": "started", "failure_callback_name": f"{TASKS}.called_back", "origin": "default",
        "meta": pickle.dumps({"x": Bomb("abandoned")}), "retries_left": "1", "timeout": "180",
    }  # fmt: skip
    forge.redis.hset(KEYS.rq.job("forged"), mapping=forged)
    forge.redis.sadd(f"{RQ}:queues", f"{RQ}:queue:default")
    forge.redis.zadd(StartedJobRegistry("default", connection=forge.redis).key, {"forged:1": 1})

    forge.burst(guard)

    assert set() == forge.receipts


def test_a_dependent_job_that_is_forged_is_released_unopened(forge: Forge, guard: Guard) -> None:
    run_id = forge.enqueue("first")
    forged = {
        "data": call("dependent"), "status": "deferred", "origin": "other", "timeout": "180",
        "meta": pickle.dumps({"x": Bomb("dependent")}), "success_callback_name": f"{TASKS}.called_back",
    }  # fmt: skip
    forge.redis.hset(KEYS.rq.job("waits"), mapping=forged)
    forge.redis.sadd(f"{RQ}:job:{run_id}:dependents", "waits")
    forge.redis.zadd(f"{RQ}:deferred:other", {"waits": 1})

    forge.burst(guard, queues=("default",))

    assert {"first"} == forge.receipts
    kept = forge.fields("waits")
    assert (forged["meta"], forged["success_callback_name"].encode()) == (kept["meta"], kept["success_callback_name"])


# -- RQ's own jobs -----------------------------------------------------------------------------------


def test_an_unsigned_job_of_rq_runs_by_choice_if_its_arguments_are_plain(forge: Forge, guard: Guard, kind: str) -> None:
    queue = Queue("default", connection=forge.redis)
    plain = queue.enqueue(WORK, "plain", meta={"a": 1}, on_success=None)
    forbidden = queue.enqueue(f"{TASKS}.not_allowed", "forbidden")
    forge.redis.hset(plain.key, "x", "y")
    bomb = forge.push("d3b07384-d9a0-4c1e-8f1e-aaaaaaaaaaaa", {"data": call("x", args=(Bomb("argument"),))})

    forge.burst(guard, kind, ZSCHED_WORKER_UNSIGNED_RQ_JOBS="true")

    assert {"plain"} == forge.receipts
    statuses = [Job.fetch(id, forge.redis).get_status().value for id in (plain.id, forbidden.id)]
    assert (["finished", "failed"], b"failed") == (statuses, forge.fields(bomb)["status"])
