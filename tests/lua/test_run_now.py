"""run_now.lua: pushes a run of a schedule at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.ground import FIELDS, HOUR_MS, TEMPLATE, Ground
from tests.prefix import RQ


def _run_now(ground: Ground, id: str, op: str = "op-1") -> list[Any]:
    return ground.call("run_now", id=id, op=op, keep_op_ms=60_000)


def test_a_one_shot_runs_now_under_the_run_id_of_its_time(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))

    word, _, run = _run_now(ground, "a")

    assert ("fired", f"a-{due_ms}", [run]) == (word, run, ground.queue())
    assert {} == ground.places()
    assert "queued" == ground.job(run)["status"]
    assert ground.job(run)["created_at"] <= ground.job(run)["enqueued_at"]
    entry = ground.last
    assert ("0-2", "run_now", {"id": "a", "run": run, "last": "0"}) == (entry.id, entry.kind, entry.fields)
    assert {f"{RQ}:queue:default".encode()} == ground.redis.smembers(f"{RQ}:queues")


def test_a_recurring_schedule_gets_an_extra_run_and_keeps_its_next_time(ground: Ground) -> None:
    _, _, _, due_ms = ground.put_recurring("r")

    word, now_ms, run = _run_now(ground, "r")

    assert ("fired", f"r-{now_ms}-r1", [run]) == (word, run, ground.queue())
    assert {"r": f"normal {due_ms}"} == ground.places()
    assert TEMPLATE.items() <= ground.job(run).items()
    assert "queued" == ground.job(run)["status"]
    assert run == ground.schedule("r")["last"]
    assert "1" == ground.last.fields["last"]


def test_runs_in_the_same_millisecond_get_different_ids(ground: Ground) -> None:
    ground.put_recurring("r")
    _run_now(ground, "r", "op-0")
    with ground.redis.pipeline(transaction=True) as pipe:
        for n in range(1, 40):
            pipe.execute_command(*ground.scripts.command("run_now", [], _arguments(f"op-{n}")))
        pipe.execute()

    queue = ground.queue()
    assert (40, 40) == (len(queue), len(set(queue)))
    assert all(ground.redis.exists(f"{RQ}:job:{run}") for run in queue)


def _arguments(op: str) -> dict[str, Any]:
    return {"id": "r", "op": op, "keep_op_ms": 60_000}


def test_a_call_sent_again_with_its_operation_id_pushes_no_second_run(ground: Ground) -> None:
    ground.put_recurring("r")
    first = _run_now(ground, "r")

    assert [str(one) for one in first] == _run_now(ground, "r")
    assert 1 == len(ground.queue())


def test_run_now_keeps_a_paused_or_ended_schedule_as_it_is(ground: Ground) -> None:
    ground.put_recurring("p")
    ground.put_recurring("e")
    ground.call("pause", ["p"], note="")
    ground.redis.zrem(ground.keys.due_normal(), "e")
    before = ground.places()

    assert ["fired", "fired"] == [_run_now(ground, id, id)[0] for id in "pe"]
    assert before == ground.places()
    assert 2 == len(ground.queue())


def test_run_now_of_a_paused_one_shot_removes_the_schedule(ground: Ground) -> None:
    ground.put(("a", "+60000"))
    ground.call("pause", ["a"], note="")

    assert "fired" == _run_now(ground, "a")[0]
    assert {} == ground.places()


@pytest.mark.parametrize("kind", ["one-shot", "recurring"])
def test_run_now_respects_the_front_flag_of_the_schedule(ground: Ground, kind: str) -> None:
    ground.redis.rpush(f"{RQ}:queue:default", "waiting")
    if kind == "recurring":
        ground.put_recurring("a", own={"flags": "fs"})
    else:
        ground.put(("a", "+60000"), fields=FIELDS | {"zs": "1fs"})

    run = _run_now(ground, "a")[2]

    assert [run, "waiting"] == ground.queue()


@pytest.mark.parametrize("broken", ["gone", "another type", "cancelled by RQ"])
def test_run_now_does_not_push_a_cancelled_or_broken_one_shot(ground: Ground, broken: str) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    key = f"{RQ}:job:a-{due_ms}"
    if broken == "cancelled by RQ":
        ground.redis.hset(key, "status", "canceled")
    else:
        ground.redis.delete(key)
    if broken == "another type":
        ground.redis.set(key, "x")

    assert "QUARANTINED" == _run_now(ground, "a")[0]
    assert ([], 1) == (ground.queue(), len(ground.entries()))


@pytest.mark.parametrize("broken", ["gone", "another type", "without a payload"])
def test_run_now_does_not_push_a_schedule_without_a_template(ground: Ground, broken: str) -> None:
    ground.put_recurring("r")
    ground.redis.hdel(ground.keys.template("r"), "data")
    if broken != "without a payload":
        ground.redis.delete(ground.keys.template("r"))
    if broken == "another type":
        ground.redis.set(ground.keys.template("r"), "x")

    assert "QUARANTINED" == _run_now(ground, "r")[0]
    assert ([], 1) == (ground.queue(), len(ground.entries()))


def test_a_queue_of_another_type_is_reported(ground: Ground) -> None:
    ground.put_recurring("r")
    ground.redis.set(f"{RQ}:queue:default", "x")

    assert "WRONGTYPE" == _run_now(ground, "r")[0]
    assert 1 == len(ground.entries())


def test_a_schedule_whose_hash_is_of_another_type_is_left_alone(ground: Ground) -> None:
    ground.put_recurring("r")
    ground.redis.delete(ground.keys.schedule("r"))
    ground.redis.rpush(ground.keys.schedule("r"), "x")
    before = ground.keyspace()

    assert "WRONGTYPE" == _run_now(ground, "r")[0]
    assert before == ground.keyspace()
