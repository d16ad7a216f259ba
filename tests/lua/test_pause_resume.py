"""pause.lua, resume.lua and cancel.lua: a schedule stops, goes on, or is removed."""

from typing import Any

import pytest

from tests.builders.namespaces import HOUR_MS, Namespace
from tests.prefix import RQ
from zsched.core.clock import LAST_MS


def _pause(ns: Namespace, id: str, note: str = "") -> str:
    return ns.call("pause", [id], note=note)[1]


def _resume(ns: Namespace, id: str, missed: str = "fire", plan: str = "", **op: Any) -> list[Any]:
    """Return word, now ms and due ms."""
    now_ms, word, due_ms = ns.call("resume", [id, plan], missed=missed, **op)
    return [word, now_ms, due_ms]


def plan_text(seen_due_ms: Any, version: Any, next_ms: Any = "-", from_ms: int = 0, until_ms: int = LAST_MS,
              passed: str = "paused:1:2:3") -> str:  # fmt: skip
    """Return the plan of a schedule that is resumed with skip, without jitter."""
    return " ".join(map(str, (seen_due_ms, version, next_ms, from_ms, until_ms, 0, passed)))


def test_a_paused_schedule_keeps_lane_due_time_and_note(ns: Namespace) -> None:
    due_ms = ns.put_later("a", lane="high")

    now_ms, word = ns.call("pause", ["a"], note="until the sale is over")

    assert "paused" == word
    kept = ns.redis.hget(ns.keys.paused(), "a").decode()
    assert f"high {due_ms} {now_ms} until the sale is over" == kept
    assert {"a": f"paused high {due_ms}"} == ns.places()
    entry = ns.last
    assert ("0-2", "pause", {"note": "until the sale is over"}) == (entry.id, entry.kind, entry.fields)
    assert [f"a high {due_ms}"] == entry.rows
    assert "scheduled" == ns.job(f"a-{due_ms}")["status"]


def test_a_paused_schedule_keeps_who_paused_it_behind_its_note(ns: Namespace) -> None:
    due_ms = ns.put_later("a")
    ann, bob = ns.acting_as("ann@host"), ns.acting_as("bob")

    ann.call("pause", ["a"], note="until May")
    words = [bob.call("pause", ["a"], note=note)[1] for note in ("until May", "until June")]
    ns.put(("a", due_ms + 1))

    assert ["unchanged", "paused"] == words
    kept = ns.redis.hget(ns.keys.paused(), "a").decode()
    assert kept.endswith(" until June\x1fbob")
    assert f"paused normal {due_ms + 1}" == ns.places()["a"]


def test_a_paused_schedule_does_not_fire_and_fires_late_if_it_became_due(led: Namespace) -> None:
    led.put(("a", "+1000"))
    led.put_recurring("r", "+1000")
    due = {id: place.split()[1] for id, place in led.places().items()}
    _pause(led, "a")
    _pause(led, "r")
    led.pass_time(HOUR_MS)

    paused = led.fire()
    resumed = [_resume(led, id)[::2] for id in "ar"]
    late = led.fire()

    assert (0, [], "") == (paused.runs, paused.recurring, paused.next_ms)
    assert [["resumed", due["a"]], ["resumed", due["r"]]] == resumed
    assert ([f"a-{due['a']}"], ["r"]) == (led.queue(), [row[0] for row in late.recurring])
    assert {"r": f"normal {due['r']}"} == led.places()


def test_pausing_again_changes_the_note_and_nothing_else(ns: Namespace) -> None:
    ns.put(("a", "+60000"))
    _pause(ns, "a", "one")
    since = ns.redis.hget(ns.keys.paused(), "a").split()[2]
    ns.pass_time(5000)

    assert ["unchanged", "paused"] == [_pause(ns, "a", "one"), _pause(ns, "a", "two")]
    kept = ns.redis.hget(ns.keys.paused(), "a")
    assert (since, b"two") == (kept.split()[2], kept.split()[3])
    assert 3 == len(ns.entries())


@pytest.mark.parametrize(("id", "word"), [("q", "QUARANTINED"), ("e", "ENDED")])
def test_a_schedule_in_no_lane_is_neither_paused_nor_resumed(ns: Namespace, id: str, word: str) -> None:
    ns.put_recurring("e")
    ns.redis.zrem(ns.keys.due_normal(), "e")
    ns.redis.hset(ns.keys.quarantine(), "q", "normal 1 1 why")
    before = ns.keyspace()

    assert [word, word] == [_pause(ns, id), _resume(ns, id)[0]]
    assert before == ns.keyspace()


def test_a_resumed_schedule_is_back_at_its_due_time(ns: Namespace) -> None:
    due_ms = ns.put_later("a", lane="low")
    _pause(ns, "a")

    word, _, told_ms = _resume(ns, "a", "skip")

    assert ("resumed", str(due_ms)) == (word, told_ms)
    assert {"a": f"low {due_ms}"} == ns.places()
    entry = ns.last
    assert ("resume", [f"a low {due_ms}"]) == (entry.kind, entry.rows)
    assert ("unchanged", entry.id) == (_resume(ns, "a")[0], ns.last.id)


def test_resuming_with_skip_removes_and_records_an_overdue_one_shot(ns: Namespace) -> None:
    ns.put(("a", "+1000"))
    due_ms = ns.places()["a"].split()[1]
    _pause(ns, "a")
    ns.pass_time(HOUR_MS)

    assert ["skipped", "-"] == _resume(ns, "a", "skip")[::2]
    assert ({}, {}) == (ns.places(), ns.job(f"a-{due_ms}"))
    assert [f"a normal {due_ms} - paused:{due_ms}:{due_ms}:1"] == ns.last.rows


def _missed(ns: Namespace) -> tuple[str, str]:
    """Return due time and version of a paused recurring schedule whose time passed."""
    ns.put_recurring("r", "+1000")
    _pause(ns, "r")
    ns.pass_time(HOUR_MS)
    return ns.places()["r"].split()[2], ns.schedule("r")["version"]


def test_resuming_with_skip_ends_an_exhausted_schedule(ns: Namespace) -> None:
    due_ms, version = _missed(ns)

    word, now_ms, told = _resume(ns, "r", "skip", plan_text(due_ms, version))

    schedule = ns.schedule("r")
    assert ("skipped", "-", {}) == (word, told, ns.places())
    assert (str(now_ms), False) == (schedule["ended_at"], "nominal" in schedule)


def test_resuming_with_skip_skips_missed_occurrences_by_the_callers_plan(ns: Namespace) -> None:
    due_ms, version = _missed(ns)
    next_ms = ns.now_ms + 5000
    plan = plan_text(due_ms, version, next_ms, until_ms=next_ms, passed="paused:1:2:7,excluded:3:4:2:kr")

    word, _, told_ms = _resume(ns, "r", "skip", plan)

    assert ("resumed", str(next_ms)) == (word, told_ms)
    assert {"r": f"normal {next_ms}"} == ns.places()
    assert str(next_ms) == ns.schedule("r")["nominal"]
    assert [f"r normal {next_ms} {next_ms} paused:1:2:7,excluded:3:4:2:kr"] == ns.last.rows


@pytest.mark.parametrize("wrong", [{}, {"seen_due_ms": "1"}, {"version": "0-0"}, {"from_ms": LAST_MS}, {"until_ms": 1}])
def test_resuming_with_a_stale_plan_returns_again(ns: Namespace, wrong: dict[str, Any]) -> None:
    due_ms, version = _missed(ns)
    plan = plan_text(**({"seen_due_ms": due_ms, "version": version, "next_ms": LAST_MS} | wrong))
    before = ns.keyspace()

    reply = _resume(ns, "r", "skip", plan if wrong else "")

    assert "AGAIN" == reply[0]
    assert before == ns.keyspace()


def test_many_schedules_are_paused_and_resumed_with_an_entry_each(ns: Namespace) -> None:
    due_ms = ns.now_ms + HOUR_MS
    ids = [f"a{n}" for n in range(100)]
    ns.put(*((id, due_ms) for id in ids))
    _pause(ns, "a7", "note")

    paused = ns.call("pause", [*ids, "unknown"], note="note")[1:]
    places = ns.places()
    resumed = ns.call("resume", [text for id in (*ids, "unknown") for text in (id, "")], missed="fire")[1::2]

    assert ["paused"] * 7 + ["unchanged"] + ["paused"] * 92 + ["NOTFOUND"] == paused
    assert dict.fromkeys(ids, f"paused normal {due_ms}") == places
    assert ["resumed"] * 100 + ["NOTFOUND"] == resumed
    assert dict.fromkeys(ids, f"normal {due_ms}") == ns.places()
    assert ["put", "pause", "pause", "resume"] == [entry.kind for entry in ns.entries()]
    assert [f"{id} normal {due_ms}" for id in ids] == ns.last.rows


def test_resuming_many_with_skip_asks_for_plans_of_overdue_rules_only(ns: Namespace) -> None:
    due_ms, version = _missed(ns)
    ns.put(("late", ns.now_ms - 1), ("later", ns.now_ms + HOUR_MS), allow_past=1)
    ns.put_recurring("unplanned", ns.now_ms - 1)
    for id in ("late", "later", "unplanned"):
        _pause(ns, id)
    next_ms = ns.now_ms + HOUR_MS

    rows = ["r", plan_text(due_ms, version, next_ms), "late", "", "later", "", "unplanned", ""]
    reply = ns.call("resume", rows, missed="skip")[1::2]

    assert ["resumed", "skipped", "resumed", "AGAIN"] == reply
    assert {"r": "normal", "later": "normal", "unplanned": "paused"} == {
        id: place.split()[0] for id, place in ns.places().items()
    }
    assert ["r", "late", "later"] == [row.split(" ")[0] for row in ns.last.rows]


# -- cancel ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "place"),
    [*((kind, place) for kind in ("one-shot", "recurring") for place in ("due", "paused", "quarantined")),
     ("recurring", "ended")],
)  # fmt: skip
def test_cancelling_a_schedule_wherever_it_is_leaves_only_its_log_entry(ns: Namespace, kind: str, place: str) -> None:
    due_ms = ns.put_later("a") if kind == "one-shot" else ns.put_recurring("a")[3]
    if place == "paused":
        ns.call("pause", ["a"], note="")
    elif place != "due":
        ns.redis.zrem(ns.keys.due_normal(), "a")
    if place == "quarantined":
        ns.redis.hset(ns.keys.quarantine(), "a", f"normal {due_ms} 1 why")

    now_ms, word = ns.call("cancel", ["a"])

    assert "cancelled" == word
    assert {ns.keys.meta().encode(), ns.keys.log().encode()} == set(ns.redis.keys("*"))
    entry = ns.last
    assert ("cancel", [f"a {'-' if place == 'ended' else due_ms}"]) == (entry.kind, entry.rows)
    assert entry.t.startswith(str(now_ms))


def test_cancelling_a_schedule_leaves_its_fired_run_alone(led: Namespace) -> None:
    due_ms = led.now_ms - 1
    led.put(("a", due_ms), allow_past=1)
    led.fire()

    assert "NOTFOUND" == led.call("cancel", ["a"])[1]
    assert [f"a-{due_ms}"] == led.queue()
    assert "queued" == led.job(f"a-{due_ms}")["status"]


@pytest.mark.parametrize("is_of_another_type", [False, True])
def test_cancelling_a_schedule_keeps_a_run_that_others_changed(ns: Namespace, is_of_another_type: bool) -> None:
    key = f"{RQ}:job:a-{ns.put_later('a')}"
    ns.redis.set(key, "x") if is_of_another_type else ns.redis.hset(key, "status", "canceled")
    before = ns.redis.dump(key)

    assert "cancelled" == ns.call("cancel", ["a"])[1]
    assert ({}, before) == (ns.places(), ns.redis.dump(key))


def test_many_schedules_are_cancelled_with_one_entry_and_a_word_for_each(ns: Namespace) -> None:
    due_ms = ns.now_ms + HOUR_MS
    ns.put(*((f"a{n}", due_ms) for n in range(99)))
    ns.put_recurring("r")

    words = ns.call("cancel", [*(f"a{n}" for n in range(99)), "unknown", "r"])[1:]

    assert ["cancelled"] * 99 + ["NOTFOUND", "cancelled"] == words
    assert {} == ns.places()
    assert (3, 100) == (len(ns.entries()), len(ns.last.rows))
