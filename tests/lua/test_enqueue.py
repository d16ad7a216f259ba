"""enqueue.lua: puts a run straight into its queue."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.ground import HOUR_MS, TEMPLATE, Ground
from tests.prefix import RQ


def _enqueue(ground: Ground, id: str = "e", op: str = "op-1", **over: Any) -> list[Any]:
    texts = [text for pair in TEMPLATE.items() for text in pair]
    arguments = {"if_exists": "replace", "keep_op_ms": 60_000, "at_front": 0}
    return ground.call("enqueue", texts, id=id, op=op, **(arguments | over))


def test_a_run_is_queued_and_logged_whole(ground: Ground) -> None:
    word, now_ms, version, run = _enqueue(ground)

    assert ("created", "0-1", f"e-{now_ms}", [run]) == (word, version, run, ground.queue())
    assert TEMPLATE.items() <= ground.job(run).items()
    assert "queued" == ground.job(run)["status"]
    assert {f"{RQ}:queue:default".encode()} == ground.redis.smembers(f"{RQ}:queues")
    entry = ground.last
    pairs = [text for pair in TEMPLATE.items() for text in pair]
    assert ("0-1", "enqueue", ["rows", "1", run, "0 4 -", *pairs]) == (entry.id, entry.kind, entry.texts)


def test_a_call_sent_again_with_its_operation_id_queues_nothing_more(ground: Ground) -> None:
    first = _enqueue(ground)

    assert [str(one) for one in first] == _enqueue(ground)
    assert 1 == len(ground.queue())


def test_calls_for_one_id_in_the_same_millisecond_get_different_run_ids(ground: Ground) -> None:
    _enqueue(ground)
    texts = [text for pair in TEMPLATE.items() for text in pair]
    with ground.redis.pipeline(transaction=True) as pipe:
        for n in range(40):
            arguments = {"id": "e", "op": f"o-{n}", "if_exists": "replace", "keep_op_ms": 1000, "at_front": 0}
            pipe.execute_command(*ground.scripts.command("enqueue", texts, arguments))
        pipe.execute()

    assert (41, 41) == (len(ground.queue()), len(set(ground.queue())))


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
