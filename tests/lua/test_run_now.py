"""run_now.lua: pushes a run of a schedule at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.lua.ground import FIELDS, TEMPLATE, Ground
from tests.prefix import RQ


def _run_now(ground: Ground, id: str, op: str = "op-1") -> list[Any]:
    return ground.call("run_now", id=id, op=op, keep_op_ms=60_000)


def test_a_one_shot_runs_now_under_the_run_id_of_its_time(ground: Ground) -> None:
    due_ms = ground.put_later("a")

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
    ground.freeze()

    runs = [_run_now(ground, "r", f"op-{n}")[2] for n in range(40)]

    assert (40, runs) == (len(set(runs)), ground.queue())
    assert all(ground.redis.exists(f"{RQ}:job:{run}") for run in runs)


def test_run_now_keeps_a_paused_or_ended_rule_as_it_is_and_removes_a_paused_one_shot(ground: Ground) -> None:
    ground.put_recurring("p")
    ground.put_recurring("e")
    ground.redis.zrem(ground.keys.due_normal(), "e")
    ground.put_later("o")
    ground.call("pause", ["p", "o"], note="")
    place = ground.places()["p"]

    assert ["fired"] * 3 == [_run_now(ground, id, id)[0] for id in "peo"]
    assert ({"p": place}, 3) == (ground.places(), len(ground.queue()))


@pytest.mark.parametrize("kind", ["one-shot", "recurring"])
def test_run_now_respects_the_front_flag_of_the_schedule(ground: Ground, kind: str) -> None:
    ground.redis.rpush(f"{RQ}:queue:default", "waiting")
    if kind == "recurring":
        ground.put_recurring("a", own={"flags": "fs"})
    else:
        ground.put(("a", "+60000"), fields=FIELDS | {"zs": "1fs"})

    run = _run_now(ground, "a")[2]

    assert [run, "waiting"] == ground.queue()


def _one_shot(act: Callable[[Ground, str], Any]) -> Callable[[Ground], Any]:
    return lambda ground: act(ground, f"{RQ}:job:b-{ground.put_later('b')}")


def _rule(act: Callable[[Ground], Any]) -> Callable[[Ground], Any]:
    return lambda ground: (ground.put_recurring("b"), act(ground))


BROKEN: dict[str, tuple[Callable[[Ground], Any], str]] = {
    "a one-shot cancelled by RQ": (_one_shot(lambda g, job: g.redis.hset(job, "status", "canceled")), "QUARANTINED"),
    "a one-shot without its job": (_one_shot(lambda g, job: g.redis.delete(job)), "QUARANTINED"),
    "a one-shot whose job is of another type": (_one_shot(lambda g, job: g.redis.set(job, "x")), "QUARANTINED"),
    "a rule without its template": (_rule(lambda g: g.redis.delete(g.keys.template("b"))), "QUARANTINED"),
    "a rule with a template of another type": (
        _rule(lambda g: g.redis.set(g.keys.template("b"), "x")),
        "QUARANTINED",
    ),
    "a rule without a payload": (_rule(lambda g: g.redis.hdel(g.keys.template("b"), "data")), "QUARANTINED"),
    "a rule whose hash is of another type": (_rule(lambda g: g.redis.set(g.keys.schedule("b"), "x")), "WRONGTYPE"),
    "a queue of another type": (_rule(lambda g: g.redis.set(f"{RQ}:queue:default", "x")), "WRONGTYPE"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_run_now_of_a_broken_schedule_writes_nothing(ground: Ground, broken: str) -> None:
    prepare, word = BROKEN[broken]
    prepare(ground)
    before = ground.keyspace()

    assert word == _run_now(ground, "b")[0]
    assert before == ground.keyspace()
