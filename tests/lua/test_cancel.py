"""cancel.lua: removes a schedule, wherever it is."""

from __future__ import annotations

from tests.lua.ground import HOUR_MS, Ground
from tests.prefix import RQ


def test_cancelling_a_one_shot_leaves_only_its_log_entry(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))

    now_ms, word = ground.call("cancel", ["a"])

    assert "cancelled" == word
    assert ({}, {}) == (ground.places(), ground.job(f"a-{due_ms}"))
    entry = ground.last
    assert ("0-2", "cancel", [f"a {due_ms}"]) == (entry.id, entry.kind, entry.rows)
    assert entry.t.startswith(str(now_ms))


def test_cancelling_a_recurring_schedule_leaves_only_its_log_entry(ground: Ground) -> None:
    ground.put_recurring("r")

    assert "cancelled" == ground.call("cancel", ["r"])[1]
    assert sorted([ground.keys.meta().encode(), ground.keys.log().encode()]) == sorted(ground.redis.keys("*"))


def test_a_paused_and_a_quarantined_schedule_can_be_cancelled(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("p", due_ms), ("q", due_ms))
    ground.call("pause", ["p"], note="")
    ground.redis.zrem(ground.keys.due_normal(), "q")
    ground.redis.hset(ground.keys.quarantine(), "q", f"normal {due_ms} 1 why")

    assert ["cancelled", "cancelled"] == ground.call("cancel", ["p", "q"])[1:]
    assert {} == ground.places()
    assert ({}, {}) == (ground.job(f"p-{due_ms}"), ground.job(f"q-{due_ms}"))


def test_an_ended_schedule_can_be_cancelled(ground: Ground) -> None:
    ground.put_recurring("r")
    ground.redis.zrem(ground.keys.due_normal(), "r")

    assert "cancelled" == ground.call("cancel", ["r"])[1]
    assert ["r -"] == ground.last.rows
    assert 0 == ground.redis.exists(ground.keys.schedule("r"), ground.keys.template("r"), ground.keys.recurring())


def test_a_call_sent_again_with_its_operation_id_gets_the_first_reply(ground: Ground) -> None:
    ground.put(("a", "+60000"))
    first = ground.call("cancel", ["a"], op="op-1", keep_op_ms=60_000)
    ground.put(("a", "+60000"))

    assert [str(one) for one in first] == ground.call("cancel", ["a"], op="op-1", keep_op_ms=60_000)
    assert ["a"] == list(ground.places())


def test_cancelling_a_schedule_leaves_its_fired_run_alone(led: Ground) -> None:
    due_ms = led.now_ms - 1
    led.put(("a", due_ms), allow_past=1)
    led.fire()

    assert "NOTFOUND" == led.call("cancel", ["a"])[1]
    assert [f"a-{due_ms}"] == led.queue()
    assert "queued" == led.job(f"a-{due_ms}")["status"]


def test_cancelling_a_schedule_keeps_a_run_that_rq_changed(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    ground.redis.hset(f"{RQ}:job:a-{due_ms}", "status", "canceled")

    assert "cancelled" == ground.call("cancel", ["a"])[1]
    assert "canceled" == ground.job(f"a-{due_ms}")["status"]


def test_a_run_key_of_another_type_does_not_stop_a_cancel(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    ground.redis.delete(f"{RQ}:job:a-{due_ms}")
    ground.redis.set(f"{RQ}:job:a-{due_ms}", "x")

    assert "cancelled" == ground.call("cancel", ["a"])[1]
    assert {} == ground.places()


def test_many_schedules_are_cancelled_with_one_entry_and_a_word_for_each(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(*((f"a{n}", due_ms) for n in range(99)))
    ground.put_recurring("r")

    words = ground.call("cancel", [*(f"a{n}" for n in range(99)), "unknown", "r"])[1:]

    assert ["cancelled"] * 99 + ["NOTFOUND", "cancelled"] == words
    assert {} == ground.places()
    assert (3, 100) == (len(ground.entries()), len(ground.last.rows))
