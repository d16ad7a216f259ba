"""pause.lua and resume.lua."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.ground import HOUR_MS, Ground
from zsched.core.clock import LAST_MS

UNPLANNED = {"seen_due_ms": "", "planned_version": "", "next_ms": "", "from_ms": 0, "until_ms": 0, "jitter_ms": 0,
             "first_ms": "", "last_ms": "", "count": 0}  # fmt: skip


def _pause(ground: Ground, id: str, note: str = "") -> str:
    return ground.call("pause", id=id, note=note)[0]


def _resume(ground: Ground, id: str, missed: str = "fire", **plan: Any) -> list[Any]:
    return ground.call("resume", id=id, missed=missed, **(UNPLANNED | plan))


def test_a_paused_schedule_keeps_lane_due_time_and_note(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms), lane="high")

    word, now_ms = ground.call("pause", id="a", note="until the sale is over")

    assert "paused" == word
    kept = ground.redis.hget(ground.keys.paused(), "a").decode()
    assert f"high {due_ms} {now_ms} until the sale is over" == kept
    assert {"a": f"paused high {due_ms}"} == ground.places()
    entry = ground.last
    fields = {"id": "a", "lane": "high", "due": str(due_ms), "note": "until the sale is over"}
    assert ("0-2", "pause", fields) == (entry.id, entry.kind, entry.fields)
    assert "scheduled" == ground.job(f"a-{due_ms}")["status"]


def test_a_paused_schedule_keeps_who_paused_it_behind_its_note(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    ann, bob = ground.acting_as("ann@host"), ground.acting_as("bob")

    ann.call("pause", id="a", note="until May")
    words = [bob.call("pause", id="a", note=note)[0] for note in ("until May", "until June")]
    ground.put(("a", due_ms + 1))

    assert ["unchanged", "paused"] == words
    kept = ground.redis.hget(ground.keys.paused(), "a").decode()
    assert kept.endswith(" until June\x1fbob")
    assert f"paused normal {due_ms + 1}" == ground.places()["a"]


def test_a_paused_schedule_does_not_fire(led: Ground) -> None:
    led.put(("a", "+1000"))
    led.put_recurring("r", "+1000")
    _pause(led, "a")
    _pause(led, "r")
    led.pass_time(HOUR_MS)

    fired = led.fire()

    assert (0, [], "") == (fired.runs, fired.recurring, fired.next_ms)


def test_pausing_again_changes_the_note_and_nothing_else(ground: Ground) -> None:
    ground.put(("a", "+60000"))
    _pause(ground, "a", "one")
    since = ground.redis.hget(ground.keys.paused(), "a").split()[2]
    ground.pass_time(5000)

    assert ["unchanged", "paused"] == [_pause(ground, "a", "one"), _pause(ground, "a", "two")]
    kept = ground.redis.hget(ground.keys.paused(), "a")
    assert (since, b"two") == (kept.split()[2], kept.split()[3])
    assert 3 == len(ground.entries())


def _ended(ground: Ground, id: str) -> None:
    ground.put_recurring(id)
    ground.redis.zrem(ground.keys.due_normal(), id)


@pytest.mark.parametrize(("id", "word"), [("unknown", "NOTFOUND"), ("q", "QUARANTINED"), ("e", "ENDED")])
def test_a_schedule_in_no_lane_is_neither_paused_nor_resumed(ground: Ground, id: str, word: str) -> None:
    _ended(ground, "e")
    ground.redis.hset(ground.keys.quarantine(), "q", "normal 1 1 why")
    before = ground.keyspace()

    assert [word, word] == [_pause(ground, id), _resume(ground, id)[0]]
    assert before == ground.keyspace()


def test_a_resumed_schedule_is_back_at_its_due_time(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms), lane="low")
    _pause(ground, "a")

    word, _, told_ms = _resume(ground, "a", "skip")

    assert ("resumed", str(due_ms)) == (word, told_ms)
    assert {"a": f"low {due_ms}"} == ground.places()
    entry = ground.last
    assert ("resume", {"id": "a", "lane": "low", "due": str(due_ms), "missed": "fire"}) == (entry.kind, entry.fields)


def test_resuming_an_active_schedule_changes_nothing(ground: Ground) -> None:
    ground.put(("a", "+60000"))

    assert "unchanged" == _resume(ground, "a")[0]
    assert 1 == len(ground.entries())


def test_a_one_shot_that_became_due_during_its_pause_fires_late(led: Ground) -> None:
    led.put(("a", "+1000"))
    due_ms = led.places()["a"].split()[1]
    _pause(led, "a")
    led.pass_time(HOUR_MS)

    assert ["resumed", due_ms] == _resume(led, "a")[::2]
    assert 1 == led.fire().runs
    assert [f"a-{due_ms}"] == led.queue()


def test_resuming_with_skip_removes_and_records_an_overdue_one_shot(ground: Ground) -> None:
    ground.put(("a", "+1000"))
    due_ms = ground.places()["a"].split()[1]
    _pause(ground, "a")
    ground.pass_time(HOUR_MS)

    assert ["skipped", "-"] == _resume(ground, "a", "skip")[::2]
    assert ({}, {}) == (ground.places(), ground.job(f"a-{due_ms}"))
    expected = {"id": "a", "lane": "normal", "due": due_ms, "missed": "skip"}
    assert expected | {"first": due_ms, "last": due_ms, "count": "1"} == ground.last.fields


def test_a_resume_sent_again_with_its_operation_id_gets_the_first_reply(ground: Ground) -> None:
    ground.put(("a", "+1000"))
    _pause(ground, "a")
    ground.pass_time(HOUR_MS)
    first = _resume(ground, "a", "skip", op="op-1", keep_op_ms=60_000)

    assert [str(one) for one in first] == _resume(ground, "a", "skip", op="op-1", keep_op_ms=60_000)
    assert "skipped" == first[0]


def _missed(ground: Ground) -> tuple[str, str]:
    """Return due time and version of a paused recurring schedule whose time passed."""
    ground.put_recurring("r", "+1000")
    due_ms, version = ground.places()["r"].split()[1], ground.schedule("r")["version"]
    _pause(ground, "r")
    ground.pass_time(HOUR_MS)
    return due_ms, version


def test_a_recurring_schedule_that_became_due_during_its_pause_fires_late(ground: Ground) -> None:
    due_ms, _ = _missed(ground)

    assert ["resumed", due_ms] == _resume(ground, "r")[::2]
    assert {"r": f"normal {due_ms}"} == ground.places()


def test_resuming_with_skip_skips_missed_occurrences_by_the_callers_plan(ground: Ground) -> None:
    due_ms, version = _missed(ground)
    next_ms = ground.now_ms + 5000
    plan = {"seen_due_ms": due_ms, "planned_version": version, "next_ms": next_ms, "from_ms": 0, "until_ms": next_ms}

    word, _, told_ms = _resume(ground, "r", "skip", **plan, first_ms=due_ms, last_ms=ground.now_ms - 9, count=7)

    assert ("resumed", str(next_ms)) == (word, told_ms)
    assert {"r": f"normal {next_ms}"} == ground.places()
    assert str(next_ms) == ground.schedule("r")["nominal"]
    fields = ground.last.fields
    assert ["skip", str(next_ms), due_ms, "7"] == [fields[name] for name in ("missed", "due", "first", "count")]


def test_resuming_with_skip_ends_an_exhausted_schedule(ground: Ground) -> None:
    due_ms, version = _missed(ground)

    word, now_ms, told = _resume(ground, "r", "skip", seen_due_ms=due_ms, planned_version=version, until_ms=LAST_MS)

    assert ("skipped", "-") == (word, told)
    assert {} == ground.places()
    schedule = ground.schedule("r")
    assert (str(now_ms), False) == (schedule["ended_at"], "nominal" in schedule)


@pytest.mark.parametrize(
    "wrong", [{}, {"seen_due_ms": "1"}, {"planned_version": "0-0"}, {"from_ms": LAST_MS}, {"until_ms": 1}]
)
def test_resuming_with_a_stale_plan_returns_again(ground: Ground, wrong: dict[str, Any]) -> None:
    due_ms, version = _missed(ground)
    plan = {"seen_due_ms": due_ms, "planned_version": version, "next_ms": LAST_MS, "until_ms": LAST_MS} | wrong
    before = ground.keyspace()

    reply = _resume(ground, "r", "skip", **(plan if wrong else {}))

    assert "AGAIN" == reply[0]
    assert before == ground.keyspace()
