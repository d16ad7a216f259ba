"""Modes of a guard: off, warn and enforce; jobs without a signature; workers that cannot begin, or are stopped."""

import json
import pickle
import uuid
from base64 import b64encode

import pytest
from rq import Queue
from rq.job import Job
from rq.registry import StartedJobRegistry

from tests.integration.guard.forging import KEYS, TASKS, Bomb, Forge, call, key_file
from tests.prefix import RQ
from tests.waiting import ENDS_S, eventually
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.storage.rqversion import HAS_EXECUTIONS

WORK = f"{TASKS}.work"


def push_three(forge: Forge) -> dict[str, str]:
    """Push a signed run, a forged run and a job of RQ; return their ids by name."""
    return {
        "signed": forge.enqueue("signed"),
        "forged": forge.push("forged-1700000000000", {"data": call("forged")}),
        "of-rq": forge.push(str(uuid.uuid4()), {"data": call("of-rq", f"{TASKS}.not_allowed")}),
    }


@pytest.mark.parametrize(("mode", "ran"), [("off", {"signed", "forged", "of-rq"}), ("enforce", {"signed"})])
def test_enforcement_runs_signed_jobs_alone(forge: Forge, guard: Guard, kind: str, mode: str, ran: set[str]) -> None:
    push_three(forge)

    forge.burst(guard, kind, ZSCHED_WORKER_GUARD=mode)

    assert ran == forge.receipts


def test_a_guard_that_warns_runs_all_jobs_and_tells_what_it_would_refuse(forge: Forge, guard: Guard, kind: str) -> None:
    ids = push_three(forge)

    forge.burst(guard, kind, "--name", "w", ZSCHED_WORKER_GUARD="warn")

    assert {"signed", "forged", "of-rq"} == forge.receipts
    assert f"job {ids['forged']}: enforce would refuse it: it has no signature" in forge.log
    assert (b"2", b"warn") == tuple(forge.redis.hmget(f"{RQ}:worker:w", "zs_warned", "zs_guard"))
    assert {b"default": b"2"} == forge.redis.hgetall(KEYS.rq.warned())
    assert [None, b"it has no signature"] == [
        forge.redis.hget(KEYS.rq.job(ids[name]), "zs_warned") for name in ("signed", "forged")
    ]


@pytest.mark.parametrize(
    "options",
    [
        ("rq.SimpleWorker", "--job-class", "zsched.rq.Job"),
        pytest.param(
            ("tests.integration.guard.workers.Spawning",),
            marks=pytest.mark.skipif(not HAS_EXECUTIONS, reason="a SpawnWorker with RQ 3 only"),
        ),
    ],
    ids=["a plain worker with the job class", "a class of one's own"],
)
def test_another_worker_with_the_guard_refuses_too(forge: Forge, guard: Guard, options: tuple[str, ...]) -> None:
    ids = push_three(forge)

    forge.burst(guard, *options)

    assert ({"signed"}, b"failed") == (forge.receipts, forge.fields(ids["forged"])["status"])


@pytest.mark.parametrize(("mode", "is_called"), [("off", True), ("enforce", False)])
def test_a_refused_job_calls_no_address_of_a_webhook(forge: Forge, guard: Guard, mode: str, is_called: bool) -> None:
    pytest.importorskip("rq.webhook", reason="RQ has webhooks from 2.10 on")
    hook = {"url": "http://127.0.0.1:1/", "job_status": "failed"}  # where nobody listens
    forge.push("forged-1700000000000", {"data": call("x", f"{TASKS}.missing"), "webhooks": json.dumps([hook])})

    forge.burst(guard, ZSCHED_WORKER_GUARD=mode)

    assert is_called is ("Failed to send webhook to http://127.0.0.1:1/" in forge.log)


def test_rqs_scheduler_is_not_started_beside_a_guard(forge: Forge, guard: Guard) -> None:
    forge.burst(guard, "zsched.rq.Worker", "--with-scheduler")

    assert "RQ's scheduler is not started beside a guard" in forge.log


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ZSCHED_WORKER_TASK_MODULES": "", "ZSCHED_WORKER_ALLOW_CALLABLES": ""}, "no function is allowed; name mod"),
        ({"ZSCHED_SIGNING_KEYS_FILE": "/nowhere"}, "[signing] keys_file='/nowhere': No such file or directory"),
        ({"ZSCHED_WORKER_TASK_MODULES": "nowhere"}, "there is no such module here"),
        ({"ZSCHED_WORKER_GUARD": "on"}, "write one of: off, warn, enforce"),
        ({"ZSCHED_SIGNING_KEYS_FILE": "empty"}, "it has no key; add one with: zsched keys new"),
    ],
)
def test_unusable_settings_stop_a_worker(forge: Forge, guard: Guard, settings: dict[str, str], message: str) -> None:
    if settings.get("ZSCHED_SIGNING_KEYS_FILE") == "empty":
        settings = {"ZSCHED_SIGNING_KEYS_FILE": key_file(forge.folder, "", "empty")}
    worker = forge.start(guard, "zsched.rq.Worker", "--burst", **settings)

    assert (True, True) == (worker.wait(ENDS_S) != 0, message in forge.log)


def test_new_keys_are_used_without_a_restart(forge: Forge, guard: Guard) -> None:
    forge.start(guard, "zsched.rq.SimpleWorker")
    first = forge.enqueue("first")
    eventually(lambda: forge.fields(first)["status"] == b"finished")

    file = key_file(forge.folder, f"k3 {'33' * 32}\nk2 {'22' * 32}\n")
    second = Client.from_url(forge.url, signing_keys_file=file).enqueue(f"{TASKS}.work", args=("second",)).run_id or ""

    eventually(lambda: forge.fields(second)["status"] == b"finished")
    assert {"first", "second"} == forge.receipts


def test_a_worker_that_is_stopped_while_it_decides_runs_the_job_first(forge: Forge, guard: Guard) -> None:
    forge.enqueue("first")
    forge.enqueue("second")

    worker = forge.start(guard, "tests.integration.guard.workers.Stopped")

    assert (0, {"first"}) == (worker.wait(ENDS_S), forge.receipts)
    assert 1 == forge.redis.llen(f"{RQ}:queue:default")


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


def test_a_writer_without_a_key_has_a_signed_failure_callback_called_after_a_success_and_writes_log_lines(
    forge: Forge, guard: Guard
) -> None:
    run_id = forge.enqueue("signed", on_failure=f"{TASKS}.called_back")
    forge.alter(run_id, description="of a job\nWorker w: a forged line")
    forge.burst(guard)
    assert (b"finished", {"signed"}) == (forge.fields(run_id)["status"], forge.receipts)

    forge.alter(run_id, status="started")
    forge.redis.zadd(StartedJobRegistry("default", connection=forge.redis).key, {f"{run_id}:1": 1})
    forge.burst(guard)

    assert {"signed", f"callback-{run_id}"} == forge.receipts
    assert "\nWorker w: a forged line" in forge.log


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
