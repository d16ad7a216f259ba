"""enqueue.lua: puts a run straight into its queue."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.ground import HOUR_MS, TEMPLATE, Ground
from tests.prefix import RQ


def _enqueue(
    ground: Ground, id: str = "e", op: str = "op-1", fields: dict[str, str] = TEMPLATE, **over: Any
) -> list[Any]:
    texts = [text for pair in fields.items() for text in pair]
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
