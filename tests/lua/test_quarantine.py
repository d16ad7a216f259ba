"""quarantine.lua: schedules that cannot be planned."""

from __future__ import annotations

from tests.lua.ground import EPOCH, SERVER, TOKEN, Ground


def test_quarantine_takes_schedules_out_of_their_lanes_and_stores_the_reason(led: Ground) -> None:
    _, _, _, due_a = led.put_recurring("a", lane="high")
    _, _, _, due_b = led.put_recurring("b")
    version_a, version_b = (led.schedule(id)["version"] for id in "ab")
    rows = ["a", "high", due_a, version_a, "no date", "b", "normal", due_b, version_b, "bound reached: 1 2 3"]

    now_ms, taken = led.call("quarantine", rows, token=TOKEN, expected_server=SERVER)

    assert 2 == taken
    assert {"a": f"quarantine high {due_a}", "b": f"quarantine normal {due_b}"} == led.places()
    assert f"normal {due_b} {now_ms} bound reached: 1 2 3" == led.redis.hget(led.keys.quarantine(), "b").decode()
    entry = led.last
    rows = [f"a high {due_a} no date", f"b normal {due_b} bound reached: 1 2 3"]
    assert (f"{EPOCH}-3", "quarantine", rows) == (entry.id, entry.kind, entry.rows)


def test_a_schedule_whose_due_time_changed_is_not_quarantined(led: Ground) -> None:
    _, _, _, due_ms = led.put_recurring("a")
    version = led.schedule("a")["version"]
    rows = ["a", "normal", int(due_ms) - 1, version, "why", "gone", "normal", due_ms, version, "why"]

    assert 0 == led.call("quarantine", rows, token=TOKEN, expected_server=SERVER)[1]
    assert {"a": f"normal {due_ms}"} == led.places()
    assert 1 == len(led.entries())


def test_a_schedule_whose_rule_changed_is_not_quarantined(led: Ground) -> None:
    _, _, _, due_ms = led.put_recurring("a")

    taken = led.call("quarantine", ["a", "normal", due_ms, "0-1", "why"], token=TOKEN, expected_server=SERVER)[1]

    assert (0, {"a": f"normal {due_ms}"}) == (taken, led.places())
