"""replan.lua: moves waiting occurrences to their times by the new rules of their zone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.ground import EPOCH, HOUR_MS, Ground


def replan(ground: Ground, *rows: Any, tzdata: str = "2026a", is_done: int = 0, **over: Any) -> tuple[str, list[str]]:
    """Return the version before, and a word per row."""
    texts = [each for row in rows for each in row]
    _now_ms, before, *words = ground.call("replan", texts, tzdata=tzdata, is_done=is_done, **over)
    return before, words


def seen(ground: Ground, id: str, new_ms: int, jitter_ms: int = 0) -> list[Any]:
    """Return a row that moves *id* from its current time."""
    schedule = ground.schedule(id)
    due_ms = ground.places()[id].split()[-1]
    return [id, schedule["version"], due_ms, schedule["nominal"], new_ms, new_ms + jitter_ms]


def test_replan_moves_a_waiting_occurrence_in_its_lane(led: Ground) -> None:
    _, _, _, due_ms = led.put_recurring("r", lane="high")
    before = led.schedule("r")
    new_ms = int(due_ms) - HOUR_MS
    row = seen(led, "r", new_ms, 7)

    assert ("", ["moved"]) == replan(led, row)

    assert {"r": f"high {new_ms + 7}"} == led.places()
    assert before | {"nominal": str(new_ms)} == led.schedule("r")
    entry = led.last
    assert (f"{EPOCH}-2", "replan", {"old": "", "new": "2026a"}) == (entry.id, entry.kind, entry.fields)
    assert [f"r {due_ms} {new_ms} {new_ms + 7}"] == entry.rows


def test_replan_moves_a_paused_schedule_and_keeps_pause_time_and_note(led: Ground) -> None:
    _, _, _, due_ms = led.put_recurring("r", lane="low")
    led.call("pause", ["r"], note="until the sale is over")
    _, _, since_ms, note = led.redis.hget(led.keys.paused(), "r").decode().split(" ", 3)
    new_ms = int(due_ms) + HOUR_MS

    assert ["moved"] == replan(led, seen(led, "r", new_ms))[1]

    assert f"low {new_ms} {since_ms} {note}" == led.redis.hget(led.keys.paused(), "r").decode()
    assert str(new_ms) == led.schedule("r")["nominal"]
    led.call("resume", ["r", ""], missed="fire")
    assert {"r": f"low {new_ms}"} == led.places()


CHANGED = {
    "another rule": lambda g, row: [row[0], "0-1", *row[2:]],
    "another due time": lambda g, row: [*row[:2], int(row[2]) - 1, *row[3:]],
    "another nominal time": lambda g, row: [*row[:3], int(row[3]) - 1, *row[4:]],
    "it is gone": lambda g, row: g.call("cancel", ["r"]) and row,
    "quarantined": lambda g, row: g.call("quarantine", ["r", "normal", row[2], row[1], "why"]) and row,
    "a one-shot of its name": lambda g, row: g.put(("r", row[2]), allow_past=1) and row,
    "wrong type at its key": lambda g, row: (g.redis.delete(g.keys.schedule("r")), g.redis.set(g.keys.schedule("r"), 1),
                                             row)[-1],
}  # fmt: skip


@pytest.mark.parametrize("why", CHANGED)
def test_replan_skips_a_schedule_that_changed_since_it_was_read(led: Ground, why: str) -> None:
    _, _, _, due_ms = led.put_recurring("r")
    led.put_recurring("other")
    new_ms = int(due_ms) + HOUR_MS
    row, other = seen(led, "r", new_ms), seen(led, "other", new_ms)
    row = CHANGED[why](led, row)
    place, schedule = led.places().get("r"), led.redis.dump(led.keys.schedule("r"))

    assert ["changed", "moved"] == replan(led, row, other)[1]

    assert (place, schedule) == (led.places().get("r"), led.redis.dump(led.keys.schedule("r")))
    assert f"normal {new_ms}" == led.places()["other"]
    assert [f"other {other[3]} {new_ms} {new_ms}"] == led.last.rows


def test_replanning_twice_changes_nothing_more(led: Ground) -> None:
    _, _, _, due_ms = led.put_recurring("r")
    row = seen(led, "r", int(due_ms) + HOUR_MS)
    replan(led, row)
    before = led.keyspace()

    assert ["changed"] == replan(led, row)[1]
    assert before == led.keyspace()


def test_replan_stores_the_tzdata_version_when_it_is_done(led: Ground) -> None:
    _, _, _, due_ms = led.put_recurring("r")

    assert "" == replan(led, seen(led, "r", int(due_ms) + 1))[0]
    assert led.redis.hget(led.keys.meta(), "tzdata") is None
    assert "" == replan(led, is_done=1)[0]
    assert "2026a" == replan(led, tzdata="2026b")[0]
    assert "2026a" == replan(led, seen(led, "r", int(due_ms) + 2), tzdata="2026b", is_done=1)[0]

    assert {"old": "2026a", "new": "2026b"} == {name: led.last.fields[name] for name in ("old", "new")}
    assert b"2026b" == led.redis.hget(led.keys.meta(), "tzdata")
    assert ["put_recurring", "replan", "replan"] == [entry.kind for entry in led.entries()]
