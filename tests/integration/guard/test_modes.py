"""Modes of a guard: off, warn and enforce; and workers that cannot begin, or are stopped."""

from __future__ import annotations

import uuid

import pytest

from tests.faults.processes import ENDS_S, eventually
from tests.integration.guard.ground import KEYS, TASKS, Forge, call, key_file
from tests.prefix import RQ
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.storage.rqversion import HAS_EXECUTIONS


def push_three(forge: Forge) -> dict[str, str]:
    """Push a signed run, a forged run and a job of RQ; return their ids by name."""
    return {
        "signed": forge.enqueue("signed"),
        "forged": forge.push("forged-1700000000000", {"data": call("forged")}),
        "of-rq": forge.push(str(uuid.uuid4()), {"data": call("of-rq", f"{TASKS}.not_allowed")}),
    }


@pytest.mark.parametrize(("mode", "ran"), [("off", {"signed", "forged", "of-rq"}), ("enforce", {"signed"})])
def test_a_guard_that_enforces_runs_the_signed_job_alone(
    forge: Forge, guard: Guard, kind: str, mode: str, ran: set[str]
) -> None:
    push_three(forge)

    forge.burst(guard, kind, ZSCHED_WORKER_GUARD=mode)

    assert ran == forge.receipts


def test_a_guard_that_warns_runs_every_job_and_tells_what_it_would_refuse(
    forge: Forge, guard: Guard, kind: str
) -> None:
    ids = push_three(forge)

    forge.burst(guard, kind, "--name", "w", ZSCHED_WORKER_GUARD="warn")

    assert {"signed", "forged", "of-rq"} == forge.receipts
    assert f"job {ids['forged']}: enforce would refuse it: it has no signature" in forge.log
    assert (b"2", b"warn") == tuple(forge.redis.hmget(f"{RQ}:worker:w", "zs_warned", "zs_guard"))
    assert {b"default": b"2"} == forge.redis.hgetall(KEYS.rq.warned())
    assert [None, b"it has no signature"] == [
        forge.redis.hget(KEYS.rq.job(ids[name]), "zs_warned") for name in ("signed", "forged")
    ]


def test_a_plain_worker_with_the_job_class_refuses_too(forge: Forge, guard: Guard) -> None:
    ids = push_three(forge)

    forge.burst(guard, "rq.SimpleWorker", "--job-class", "zsched.rq.Job")

    assert ({"signed"}, b"failed") == (forge.receipts, forge.fields(ids["forged"])["status"])


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
def test_a_worker_with_unusable_settings_does_not_begin(
    forge: Forge, guard: Guard, settings: dict[str, str], message: str
) -> None:
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


@pytest.mark.skipif(not HAS_EXECUTIONS, reason="a SpawnWorker with RQ 3 only")
def test_a_class_of_ones_own_refuses_too(forge: Forge, guard: Guard) -> None:
    ids = push_three(forge)

    forge.burst(guard, "tests.integration.guard.workers.Spawning")

    assert ({"signed"}, b"failed") == (forge.receipts, forge.fields(ids["forged"])["status"])


def test_a_worker_that_is_stopped_while_it_decides_runs_the_job_first(forge: Forge, guard: Guard) -> None:
    forge.enqueue("first")
    forge.enqueue("second")

    worker = forge.start(guard, "tests.integration.guard.workers.Stopped")

    assert (0, {"first"}) == (worker.wait(ENDS_S), forge.receipts)
    assert 1 == forge.redis.llen(f"{RQ}:queue:default")
