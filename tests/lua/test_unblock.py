"""unblock.lua: runs of chains are released, withdrawn or removed, and only by the leader."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from rq import Queue
from rq.job import Job

from tests.builders.namespaces import EPOCH, TERM, Namespace
from tests.lua.chained import CANCEL, FORGET, OVER, QUEUE, RELEASE, WHY, WITHDRAW, A, B, C, chain, jobs, survey, unblock
from tests.prefix import RQ
from zsched.core.clock import ManualClock
from zsched.daemon.chains import SETTLED_MS, ChainKeeper
from zsched.errors import RedisRefused


@pytest.mark.parametrize("status", OVER)
def test_releasing_a_run_queues_it_and_removes_earlier_runs_from_the_chain(led: Namespace, status: str) -> None:
    jobs(led, status, "deferred")
    chain(led, QUEUE)
    led.redis.rpush(f"{RQ}:queue:default", "before")

    reply = unblock(led, RELEASE)

    entry, job = led.last, led.job(B)
    assert ([B], []) == tuple(reply)
    assert (f"{EPOCH}-1", "unblock", [f"{B} {WHY[status]}"]) == (entry.id, entry.kind, entry.rows)
    assert (["before", B], f"queue {B}") == (led.queue(), chain(led))
    assert ("queued", 27) == (job["status"], len(job["enqueued_at"]))
    assert [] == led.redis.keys(f"{RQ}:deferred:*") + led.redis.keys(f"{RQ}:job:*:depend*")
    assert {f"{RQ}:queue:default".encode()} == led.redis.smembers(f"{RQ}:queues")


@pytest.mark.parametrize(
    ("before", "status", "front"),
    [("stopped", "deferred", ""), ("stopped", "deferred", "1"), ("finished", "ready_to_enqueue", "")],
)
def test_releasing_a_run_keeps_later_runs_waiting_for_it(led: Namespace, before: str, status: str, front: str) -> None:
    jobs(led, before, status, "deferred", enqueue_at_front=front)
    chain(led, f"{QUEUE} {C}")
    led.redis.rpush(f"{RQ}:queue:default", "before")

    assert [[B], []] == unblock(led, RELEASE)

    assert (f"queue {B} {C}", "queued") == (chain(led), led.job(B)["status"])
    assert [f"{RQ}:deferred:default".encode()] == led.redis.keys(f"{RQ}:deferred:*") + led.redis.keys(f"{RQ}:ready:*")
    assert {C.encode()} == led.redis.smembers(f"{RQ}:job:{B}:dependents")
    assert ([B, "before"] if front else ["before", B]) == led.queue()


def test_dropping_an_expired_ready_run_deletes_it_and_releases_the_next_run(led: Namespace) -> None:
    jobs(led, "finished", "ready_to_enqueue", "deferred")
    led.redis.hdel(led.keys.rq.job(B), "data")
    chain(led, f"{QUEUE} {C}")

    assert [[], []] == unblock(led, ("drop", "-"))

    assert (f"queue {C}", [], []) == (chain(led), led.redis.keys(f"{RQ}:ready:*"), led.redis.keys(led.keys.rq.job(B)))
    assert [["r", "release", C]] == [need[:3] for need in survey(led)[1]]


def test_releasing_skips_an_expired_run_in_the_middle_of_a_chain(led: Namespace) -> None:
    jobs(led, "finished", "deferred", "deferred")
    led.redis.delete(led.keys.rq.job(B))
    chain(led, f"{QUEUE} {C}")

    assert [[C], []] == unblock(led, ("release", C))
    assert ([C], f"queue {C}") == (led.queue(), chain(led))
    assert [] == led.redis.keys(f"{RQ}:deferred:*") + led.redis.keys(f"{RQ}:job:*:depend*")


def test_releasing_a_run_removes_both_of_its_dependencies(led: Namespace) -> None:
    jobs(led, "stopped", "stopped", "deferred")
    led.redis.sadd(f"{RQ}:job:{A}:dependents", C, "other")
    led.redis.sadd(f"{RQ}:job::{C}:dependencies", A)
    chain(led, f"{QUEUE} {C}")

    unblock(led, ("release", C))

    assert [f"{RQ}:job:{A}:dependents".encode()] == led.redis.keys(f"{RQ}:job:*:depend*")
    assert {b"other"} == led.redis.smembers(f"{RQ}:job:{A}:dependents")


def test_a_run_that_rq_has_released_is_not_released_again(led: Namespace) -> None:
    jobs(led, "failed", "deferred", data="")
    chain(led, QUEUE)
    Queue("default", connection=led.redis).enqueue_dependents(Job.fetch(A, connection=led.redis))

    assert [[], ["r"]] == unblock(led, RELEASE)
    assert ([B], [], QUEUE) == (led.queue(), led.entries(), chain(led))


def test_rq_does_not_release_a_run_that_zsched_released_meanwhile(
    led: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs(led, "failed", "deferred", data="")
    chain(led, QUEUE)
    fetch_many, released = Job.fetch_many, []

    def and_then_release(*args: Any, **kwargs: Any) -> Any:
        """Release the run between RQ's reads and its transaction."""
        found = fetch_many(*args, **kwargs)
        if not released:
            released.append(unblock(led, RELEASE))
        return found

    monkeypatch.setattr(Job, "fetch_many", and_then_release)
    Queue("default", connection=led.redis).enqueue_dependents(Job.fetch(A, connection=led.redis))

    assert ([[[B], []]], [B]) == (released, led.queue())


CHANGES: dict[str, Callable[[Namespace], Any]] = {
    "its policy": lambda led: chain(led, CANCEL),
    "queued again": lambda led: led.redis.hset(led.keys.rq.job(A), "status", "queued"),
    "cancelled": lambda led: led.redis.hset(led.keys.rq.job(B), "status", "canceled"),
    "expired": lambda led: led.redis.delete(led.keys.rq.job(B)),
    "not the next": lambda led: None,
    "a queue of another type": lambda led: led.redis.set(f"{RQ}:queue:default", "text"),
    "deferred runs of another type": lambda led: led.redis.set(f"{RQ}:deferred:default", "text"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_chain_that_changed_since_the_survey_is_left_alone(led: Namespace, change: str) -> None:
    jobs(led, "stopped", "deferred")
    chain(led, QUEUE)
    CHANGES[change](led)
    before = led.keyspace()

    assert [[], ["r"]] == unblock(led, ("release", C if change == "not the next" else B))
    assert before == led.keyspace()


def test_forgetting_removes_finished_runs_and_empty_chains(led: Namespace) -> None:
    jobs(led, "finished", "started")
    chain(led, QUEUE)
    unblock(led, FORGET)
    assert f"queue {B}" == chain(led)

    jobs(led, "-", "failed")
    unblock(led, FORGET)
    assert (None, []) == (chain(led), led.entries())


def ends(led: Namespace) -> list[str]:
    return [row for entry in led.entries() if entry.kind == "end" for row in entry.rows]


@pytest.mark.parametrize("status", ["queued", "scheduled", "deferred"])
def test_withdrawing_cancels_a_waiting_run_and_records_its_end(led: Namespace, status: str) -> None:
    jobs(led, status, "started")
    chain(led, CANCEL)

    unblock(led, WITHDRAW)

    [row] = ends(led)
    assert row.startswith(f'{A} cancelled {{"ended":')
    assert json.loads(row.split(" ", 2)[2])["error"] == "its next occurrence came first (overlap=cancel_previous)"
    assert ("canceled", f"cancel_previous {B}", []) == (led.job(A)["status"], chain(led), led.queue())
    assert [] == led.redis.keys(f"{RQ}:scheduled:*") + led.redis.keys(f"{RQ}:deferred:*")


def test_withdrawing_a_running_run_sends_its_worker_a_stop_command_every_ten_seconds(led: Namespace) -> None:
    jobs(led, "started", "queued")
    chain(led, CANCEL)

    with led.heard(f"{RQ}:pubsub:w") as heard:
        for passed_ms in (0, 0, 9000, 1001, 0):
            led.pass_time(passed_ms)
            unblock(led, WITHDRAW)

    told = {"command": "stop-job", "job_id": A}
    assert [told, told] == [json.loads(text) for text in heard]
    assert (CANCEL, []) == (chain(led), led.entries())


@pytest.mark.parametrize(("statuses", "left"), [
    (("stopped", "started"), f"cancel_previous {B}"),
    (("started", "finished"), CANCEL),  # it is still not to run
    (("stopped", "finished"), None),
])  # fmt: skip
def test_the_last_run_of_a_chain_stays_till_all_end(
    led: Namespace, statuses: tuple[str, str], left: str | None
) -> None:
    jobs(led, *statuses)
    chain(led, CANCEL)

    unblock(led, WITHDRAW)

    assert (left, []) == (chain(led), led.entries())


def test_withdrawing_skips_a_run_that_a_worker_has_just_taken(led: Namespace) -> None:
    jobs(led, "queued", "started")
    led.redis.delete(f"{RQ}:queue:default")
    chain(led, CANCEL)

    unblock(led, WITHDRAW)

    assert (CANCEL, "queued", []) == (chain(led), led.job(A)["status"], led.entries())


def test_chains_of_another_type_are_refused_before_anything_is_written(led: Namespace) -> None:
    led.redis.set(led.keys.chains(), "text")

    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        unblock(led, RELEASE)
    assert [] == led.entries()


@pytest.mark.parametrize(
    ("text", "need", "changed"),
    [
        ("cancel_previous ", WITHDRAW, []),  # a chain without runs is deleted
        ("cancel_previous   ", WITHDRAW, []),
        (None, RELEASE, ["s"]),  # it changed since the survey
    ],
)
def test_another_chain_hinders_no_release(
    led: Namespace, text: str | None, need: tuple[str, str], changed: list[str]
) -> None:
    jobs(led, "stopped", "deferred")
    chain(led, QUEUE)
    if text is not None:
        chain(led, text, "s")
        assert ["s", *need, "urgent", ""] in survey(led)[1]

    rows = ["s", *need, "r", *RELEASE]
    assert [[B], changed] == led.call("unblock", rows)[1:]
    assert (None, f"queue {B}") == (chain(led, id="s"), chain(led))


def test_the_reason_of_a_release_is_one_line_for_a_hostile_dependency_id(led: Namespace) -> None:
    jobs(led, "stopped", "deferred")
    led.redis.hset(led.keys.rq.job(B), "dependency_id", f"gone\n{B} {'x' * 300}")
    chain(led, QUEUE)
    clock = ManualClock()
    with closing(led.link.open()) as wire:
        keeper = ChainKeeper(led.keys, clock).over(wire)
        for _ in range(2):
            keeper.step(TERM)
            clock.advance(SETTLED_MS)

    seen = f"gone?{B}?{'x' * 300}"[:200]
    assert [f"{B} {seen} is gone: it expired, or somebody deleted it"] == led.last.rows
