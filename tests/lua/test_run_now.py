"""run_now.lua and enqueue.lua: runs on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import FIELDS, HOUR_MS, TEMPLATE, Ground, flat
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


def _enqueue_waiting(ground: Ground, due_ms: int, version: str) -> list[Any]:
    job = flat(FIELDS | {"data": "call", "zs_sig": "to run now"})
    words = {"if_exists": "replace", "at_front": 0, "run_ms": str(due_ms), "seen_version": version}
    return ground.call("enqueue", job, id="a", **words)


def test_a_signed_one_shot_runs_before_its_time_with_the_signature_of_the_caller_in_one_step(ground: Ground) -> None:
    due_ms = ground.put_later("a")
    run = f"a-{due_ms}"
    ground.redis.hset(f"{RQ}:job:{run}", "zs_sig", "for its time")

    assert "SIGNED" == ground.call("run_now", id="a")[0]
    word, _, _, pushed = _enqueue_waiting(ground, due_ms, ground.job(run)["created_at"])

    assert ("updated", run, [run], {}) == (word, pushed, ground.queue(), ground.places())
    assert ("to run now", "queued") == (ground.job(run)["zs_sig"], ground.job(run)["status"])
    assert ["rows", "1", run] == ground.last.texts[:3]


@pytest.mark.parametrize("what", ["version", "time", "nothing"])
def test_a_one_shot_that_is_not_as_the_caller_signed_it_stays(ground: Ground, what: str) -> None:
    due_ms = ground.put_later("a")
    version = ground.job(f"a-{due_ms}")["created_at"]
    if what == "nothing":
        ground.call("cancel", ["a"])
    before = ground.places()

    answer = _enqueue_waiting(ground, due_ms + (what == "time"), "other" if what == "version" else version)

    assert answer[0].startswith("CHANGED:")
    assert (before, []) == (ground.places(), ground.queue())


@pytest.mark.parametrize("kind", ["one-shot", "rule"])
def test_a_schedule_of_another_version_does_not_run_now(ground: Ground, kind: str) -> None:
    if kind == "rule":
        ground.put_recurring("a")
    else:
        ground.put_later("a")

    assert ground.call("run_now", id="a", seen_version="other")[0].startswith("CHANGED:")
    assert [] == ground.queue()


def test_a_signed_one_shot_whose_queue_is_broken_keeps_its_signature(ground: Ground) -> None:
    run = f"a-{ground.put_later('a')}"
    ground.redis.hset(f"{RQ}:job:{run}", "zs_sig", "for its time")
    ground.redis.set(f"{RQ}:queue:default", "x")

    assert "WRONGTYPE" == ground.call("run_now", id="a")[0]
    assert "for its time" == ground.job(run)["zs_sig"]


def test_a_signed_one_shot_whose_time_has_come_runs_as_it_is(ground: Ground) -> None:
    run = f"a-{ground.put_later('a')}"
    ground.redis.hset(f"{RQ}:job:{run}", "zs_sig", "for its time")
    ground.call("pause", ["a"], note="")
    ground.pass_time(HOUR_MS)

    assert ("fired", run) == tuple(ground.call("run_now", id="a")[::2])


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


# -- enqueue -----------------------------------------------------------------------------------------


def _enqueue(ground: Ground, op: str = "op-1", fields: dict[str, str] = TEMPLATE, **over: Any) -> list[Any]:
    return ground.enqueue("e", fields, op=op, keep_op_ms=60_000, **over)


def test_a_run_is_queued_and_logged_whole(ground: Ground) -> None:
    word, now_ms, version, run = _enqueue(ground)

    assert ("created", "0-1", f"e-{now_ms}", [run]) == (word, version, run, ground.queue())
    assert TEMPLATE.items() <= ground.job(run).items()
    assert "queued" == ground.job(run)["status"]
    assert {f"{RQ}:queue:default".encode()} == ground.redis.smembers(f"{RQ}:queues")
    entry = ground.last
    assert ("0-1", "enqueue", ["rows", "1", run, "0 4 -", *flat(TEMPLATE)]) == (entry.id, entry.kind, entry.texts)


def test_calls_for_one_id_in_the_same_millisecond_get_different_run_ids(ground: Ground) -> None:
    ground.freeze()

    runs = [_enqueue(ground, op=f"o-{n}")[3] for n in range(41)]

    assert (41, runs) == (len(set(runs)), ground.queue())


def test_enqueue_at_front_puts_the_run_first(ground: Ground) -> None:
    ground.redis.rpush(f"{RQ}:queue:default", "waiting")

    run = _enqueue(ground, at_front=1)[3]

    assert [run, "waiting"] == ground.queue()
    assert "1 4 -" == ground.last.texts[3]


@pytest.mark.parametrize("kind", ["one-shot", "recurring"])
def test_enqueue_replaces_a_waiting_schedule_of_its_id(ground: Ground, kind: str) -> None:
    due_ms = ground.now_ms + HOUR_MS
    if kind == "recurring":
        ground.put_recurring("e")
    else:
        ground.put(("e", due_ms))

    assert "updated" == _enqueue(ground)[0]
    assert ({}, {}) == (ground.places(), ground.job(f"e-{due_ms}"))
    assert 0 == ground.redis.exists(ground.keys.schedule("e"), ground.keys.template("e"), ground.keys.recurring())


@pytest.mark.parametrize(("if_exists", "word"), [("keep", "kept"), ("error", "EXISTS")])
def test_enqueue_with_keep_or_error_leaves_a_waiting_schedule_alone(ground: Ground, if_exists: str, word: str) -> None:
    ground.put(("e", "+60000"))

    reply = _enqueue(ground, if_exists=if_exists)

    assert [word, "-"] == [reply[0], reply[3]]
    assert ([], 1) == (ground.queue(), len(ground.entries()))


def test_a_queue_of_another_type_is_reported(ground: Ground) -> None:
    ground.redis.set(f"{RQ}:queue:default", "x")

    assert "WRONGTYPE" == _enqueue(ground)[0]
    assert [] == ground.entries()


# -- a guarded id -------------------------------------------------------------------------------------


def _once(ground: Ground, op: str, if_exists: str = "keep", **over: Any) -> list[Any]:
    """Enqueue with a guard of an hour."""
    return _enqueue(ground, op=op, if_exists=if_exists, fields=TEMPLATE | {"zs_unique": str(HOUR_MS)}, **over)


@pytest.mark.parametrize("fate", ["queued", "started", "finished", "failed", "gone", "canceled"])
def test_a_guarded_id_keeps_its_run_whatever_became_of_it_unless_it_was_cancelled(ground: Ground, fate: str) -> None:
    run = _once(ground, "o-1")[3]
    if fate == "gone":
        ground.redis.delete(f"{RQ}:job:{run}")
    else:
        ground.redis.hset(f"{RQ}:job:{run}", "status", fate)

    refused, kept = _once(ground, "o-2", "error"), _once(ground, "o-3")

    is_free = fate == "canceled"
    assert refused[3] == kept[3]
    assert is_free == (run != kept[3])
    assert ("created" if is_free else "EXISTS", "kept") == (refused[0], kept[0])
    assert ([run, kept[3]] if is_free else [run], 1 + is_free) == (ground.queue(), len(ground.entries()))


def test_a_guard_ends_with_its_time_and_its_key_is_removed(ground: Ground) -> None:
    _, now_ms, _, first = _once(ground, "o-1")
    key = f"{ground.keys.unique_prefix()}e"
    left_ms = ground.redis.pttl(key)
    ground.redis.set(key, f"{now_ms} {first}")  # as an hour later

    again = _once(ground, "o-2")

    assert HOUR_MS - (ground.server_ms - ground.began_ms) <= left_ms <= HOUR_MS
    assert ("created", 2) == (again[0], len(ground.queue()))
    assert ground.redis.get(key).endswith(again[3].encode())


@pytest.mark.parametrize("text", ["", "soon e-1", "99999999999999999999 e-1", "1900000000000", "1 e-1", None])
def test_another_programs_value_is_no_guard_and_is_replaced(ground: Ground, text: str | None) -> None:
    key = f"{ground.keys.unique_prefix()}e"
    ground.redis.hset(key, "a", "b") if text is None else ground.redis.set(key, text)

    assert ["created", "kept"] == [_once(ground, op)[0] for op in ("o-1", "o-2")]


def test_a_call_that_replaces_neither_makes_nor_heeds_a_guard(ground: Ground) -> None:
    _enqueue(ground, op="o-1")
    assert "created" == _once(ground, "o-2")[0]

    assert "created" == _enqueue(ground, op="o-3")[0]
    assert "kept" == _once(ground, "o-4")[0]


def test_a_guarded_call_sent_again_answers_as_at_first(ground: Ground) -> None:
    first = _once(ground, "o-1")

    assert [str(one) for one in first] == _once(ground, "o-1")
