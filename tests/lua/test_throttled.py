"""Limits of queues: limits.lua, and throttled schedules in every other operation."""

from typing import Any

import pytest

from tests.builders.namespaces import HOUR_MS, TEMPLATE, Namespace
from tests.builders.records import one_shot, texts_of
from tests.lua.limited import EMAIL, ids, put_due, put_many
from tests.lua.restoring import restore
from tests.prefix import RQ


def test_setting_unchanged_limits_writes_nothing_and_keeps_their_used_tokens(led: Namespace) -> None:
    led.limit(email=1, sms=0.5)
    put_due(led, "a", "b")
    led.fire()
    before = led.keyspace()

    led.limit(sms=0.5, email=1)

    assert before == led.keyspace()
    assert 0 == led.fire().runs


def test_a_raised_limit_applies_from_the_next_fire(led: Namespace) -> None:
    led.limit(email=0.01)
    put_many(led, "s", 20)
    led.fire()

    led.limit(email=100)
    assert led.now_ms + 10 == led.fire().next_ms
    led.pass_time(50)

    assert 5 == led.fire().runs


def test_throttled_runs_fire_in_due_order_after_the_limit_is_removed(led: Namespace) -> None:
    led.limit(email=1)
    put_many(led, "s", 150)
    led.fire(limit=1000)
    assert 149 == len(led.places())

    led.limit()
    first = led.fire(limit=100)
    then = led.fire(limit=100)

    assert (100, led.now_ms, 49, "") == (first.runs, first.next_ms, then.runs, then.next_ms)
    assert ({}, {}, []) == (led.places(), led.limits(), led.throttled())
    assert sorted(led.queue("email")) == led.queue("email")


def test_removing_a_limit_without_throttled_runs_deletes_its_keys_and_a_corrupted_limit_is_ignored(
    led: Namespace,
) -> None:
    led.limit(email=1)
    led.limit()
    assert {} == led.limits()
    led.redis.hset(led.keys.limits(), "email", "many")
    put_due(led, "a", "b", "c")

    assert 3 == led.fire().runs
    assert {} == led.limits()


def test_a_limit_that_is_set_again_applies_to_the_runs_still_throttled(led: Namespace) -> None:
    led.limit(email=1)
    put_many(led, "s", 50)
    led.fire()
    led.limit()
    led.fire(limit=10)

    led.limit(email=1)

    assert 1 == led.fire().runs
    assert 0 == led.fire().runs


def put_rule(ns: Namespace, id: str, **options: Any) -> int:
    """Put a recurring schedule of queue email that is due now; return its due time."""
    due_ms = ns.now_ms
    ns.put_recurring(id, due_ms, template=TEMPLATE | {"origin": "email"}, **options)
    return due_ms


def test_a_recurring_schedule_uses_a_token_when_fire_returns_it(led: Namespace) -> None:
    led.limit(email=1)
    due_ms = put_rule(led, "r")
    put_rule(led, "s")

    fired = led.fire()

    assert [["r", "normal", str(due_ms)]] == [row[:3] for row in fired.recurring]
    assert f"normal:email {due_ms}" == led.places()["s"]


def test_a_throttled_schedule_advances_back_into_its_lane(led: Namespace) -> None:
    led.limit(email=1)
    due_ms = put_rule(led, "r", lane="high")
    put_rule(led, "s", lane="high")
    led.advance((led.fire().recurring[0], due_ms, due_ms + HOUR_MS))
    led.pass_time(1000)

    fired = led.fire()
    words = led.advance((fired.recurring[0], due_ms, due_ms + HOUR_MS))

    assert [["s", "high:email", str(due_ms)]] == [row[:3] for row in fired.recurring]
    assert ["fired"] == words
    assert dict.fromkeys("rs", f"high {due_ms + HOUR_MS}") == led.places()
    assert ["r", "s"] == ids(led.queue("email"))
    assert f"s fired {due_ms} {due_ms + HOUR_MS}" == " ".join(led.last.rows[0].split()[:4])


def test_a_throttled_schedule_can_end(led: Namespace) -> None:
    led.limit(email=1)
    put_due(led, "a")
    due_ms = put_rule(led, "r")
    led.fire()
    led.pass_time(1000)

    led.advance((led.fire().recurring[0], due_ms, ""))

    assert {} == led.places()
    assert "ended_at" in led.schedule("r")
    led.fire()
    assert [] == led.throttled()


@pytest.mark.parametrize("script", ["advance", "quarantine"])
def test_a_throttled_schedule_can_be_quarantined_under_its_lane(led: Namespace, script: str) -> None:
    led.limit(email=1)
    put_due(led, "a")
    due_ms = put_rule(led, "r", lane="low")
    led.fire()
    led.pass_time(1000)
    row = led.fire().recurring[0]

    if script == "advance":
        led.redis.delete(led.keys.template("r"))
        led.advance((row, due_ms, due_ms + HOUR_MS))
    else:
        led.call("quarantine", [*row[:4], "why"])

    assert {"r": f"quarantine low {due_ms}"} == led.places()


@pytest.fixture
def late(led: Namespace) -> Namespace:
    """A namespace in which "b" (one-shot) and "r" (recurring) are throttled."""
    led.limit(email=1)
    put_due(led, "a", "b")
    put_rule(led, "r")
    led.fire()
    assert {"b", "r"} == led.places().keys()
    assert all(place.startswith("normal:email ") for place in led.places().values())
    return led


@pytest.mark.parametrize("id", ["b", "r"])
def test_a_throttled_schedule_is_paused_and_resumed_into_its_lane(late: Namespace, id: str) -> None:
    due_ms = late.places()[id].split()[-1]

    late.call("pause", [id], note="n")
    assert f"paused normal {due_ms}" == late.places()[id]
    late.call("resume", [id, ""], missed="fire")

    assert f"normal {due_ms}" == late.places()[id]


@pytest.mark.parametrize("id", ["b", "r"])
def test_a_throttled_schedule_can_be_cancelled(late: Namespace, id: str) -> None:
    late.call("cancel", [id])

    assert id not in late.places()
    assert {} == late.schedule(id) | late.template(id)


def test_a_throttled_schedule_can_be_put_with_another_time_queue_and_lane(late: Namespace) -> None:
    due_ms = late.now_ms + HOUR_MS

    words = late.put(("b", due_ms), lane="high")
    late.put_recurring("r", due_ms, trigger="rule-2", digest="digest-2")

    assert [("updated", str(due_ms))] == words
    assert {"b": f"high {due_ms}", "r": f"normal {due_ms}"} == late.places()
    assert 2 == len(late.redis.keys(f"{RQ}:job:*"))  # the run of "a", and the one that waits


def test_putting_the_same_definition_keeps_a_throttled_schedule_in_its_place(late: Namespace) -> None:
    before = late.places()

    words = late.put(("b", before["b"].split()[-1]), allow_past=1, fields=EMAIL)

    assert "unchanged" == words[0][0]
    assert before == late.places()


def test_a_throttled_schedule_is_read_as_due_in_its_lane_with_all_its_places(late: Namespace) -> None:
    due_ms = late.places()["b"].split()[-1]
    row = late.call("get", ["b"])[3]
    late.redis.zadd(late.keys.due_high(), {"b": int(due_ms)})

    both = late.call("get", ["b", "r"])[3:]

    assert ["due", "normal", due_ms] == row[:3]
    assert ["high normal:email", "normal:email"] == [each[-1] for each in both]
    assert [] == late.call("audit", ["b", due_ms, "r", ""])


@pytest.mark.parametrize("is_scattered", [False, True])
def test_a_restore_puts_a_throttled_schedule_into_its_lane_only(late: Namespace, is_scattered: bool) -> None:
    due_ms = late.places()["b"].split()[-1]
    if is_scattered:
        late.redis.zadd(late.keys.due_high(), {"b": 5})
        late.redis.zadd(late.keys.due_low(), {"b": 5})
        late.redis.hset(late.keys.paused(), "b", "low 5 5 by hand")
        late.redis.hset(late.keys.quarantine(), "b", "low 5 5 by hand")
    job = {name: text for name, text in late.job(f"b-{due_ms}").items() if name not in ("status", "created_at")}
    known = one_shot("due", "b", due_ms, lane="normal", job=texts_of(job), t_us=int(late.last.t))

    restore(late, known, hold_for_ms=0, reason="audit")

    assert f"normal {due_ms}" == late.places()["b"]


def test_a_replan_leaves_a_throttled_schedule_in_one_place(late: Namespace) -> None:
    due_ms, version, new_ms = late.places()["r"].split()[-1], late.schedule("r")["version"], late.now_ms + HOUR_MS
    row = ["r", version, due_ms, due_ms, new_ms, new_ms, "-"]

    late.call("replan", row, meta_field="tzdata", plans_by="2026a", is_done=0)
    late.call("cancel", ["b"])

    assert str(new_ms) == late.places()["r"].split()[-1]
    assert new_ms == late.fire().next_ms
    late.pass_until(new_ms)
    [row] = late.fire().recurring
    late.advance((row, new_ms, new_ms + HOUR_MS))
    assert {"r": f"normal {new_ms + HOUR_MS}"} == late.places()


def test_fire_removes_a_throttled_queue_whose_schedules_were_cancelled(late: Namespace) -> None:
    late.call("cancel", ["b"])
    late.call("cancel", ["r"])
    assert ["normal:email"] == late.throttled()

    fired = late.fire()

    assert ("", []) == (fired.next_ms, late.throttled())
