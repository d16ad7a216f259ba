"""Schedules that wait because their queue's key has a wrong type, or because the leader lacks their zone."""

import pytest

from tests.builders.namespaces import HOUR_MS, Namespace
from tests.lua.limited import EMAIL, ids, put_due, put_many
from tests.prefix import RQ

EMAIL_KEY = f"{RQ}:queue:email"
KYIV = "Europe/Kyiv"


def put_rule(led: Namespace, id: str = "r", queue: str = "email") -> list[str]:
    """Put a due rule; return its row of fire."""
    led.put_recurring(id, led.now_ms - 1000, template={"status": "queued", "origin": queue})
    return next(row for row in led.fire().recurring if row[0] == id)


def advance(led: Namespace, row: list[str]) -> str:
    [word] = led.advance((row, int(row[2]), led.now_ms + HOUR_MS))
    return word


@pytest.mark.parametrize("flags", ["1", "1f", "1s"])
def test_one_shots_wait_while_the_key_of_their_queue_has_a_wrong_type_and_then_fire(led: Namespace, flags: str) -> None:
    led.redis.set(EMAIL_KEY, "not a list")
    put_due(led, "a", "b", zs=flags)
    put_due(led, "other", origin="push")
    before = len(led.entries())

    blocked = led.fire()

    assert (1, [], [EMAIL_KEY]) == (blocked.runs, blocked.quarantined, blocked.wrong)
    assert ["fire"] == [entry.kind for entry in led.entries()[before:]]
    assert {"a", "b"} == led.places().keys()
    assert (blocked.now_ms + 1000, b"not a list") == (blocked.next_ms, led.redis.get(EMAIL_KEY))
    assert (0, [EMAIL_KEY]) == ((again := led.fire()).runs, again.wrong)

    led.redis.delete(EMAIL_KEY)

    assert 2 == led.fire().runs
    assert ["a", "b"] == sorted(ids(led.queue("email")))
    assert ({}, {}, []) == (led.places(), led.limits(), led.throttled())


def test_a_rule_waits_while_the_key_of_its_queue_has_a_wrong_type_and_then_fires(led: Namespace) -> None:
    led.redis.set(EMAIL_KEY, "not a list")
    row = put_rule(led)

    assert "changed" == advance(led, row)
    assert ([], {"r": f"normal:email {row[2]}"}) == (led.fire().recurring, led.places())
    led.redis.delete(EMAIL_KEY)
    [back] = led.fire().recurring

    assert ("r", "normal:email", "fired") == (back[0], back[1], advance(led, back))
    assert led.fire().runs == 0
    assert ({}, []) == (led.limits(), led.throttled())
    assert ["r"] == ids(led.queue("email"))


def test_thousands_that_wait_for_a_queue_delay_no_other_queue(led: Namespace) -> None:
    led.redis.set(EMAIL_KEY, "not a list")
    waiting = put_many(led, "s", 2_000, age_ms=5_000)
    put_due(led, "other", origin="push")

    looked, runs = [], 0
    while not looked or looked[-1]:
        fired = led.fire(limit=500)
        looked.append(fired.looked)
        runs += fired.runs

    assert ([500, 500, 500, 500, 1, 0], 1) == (looked, runs)
    assert len(waiting) == len(led.places())


def test_a_limit_stays_while_the_key_of_its_queue_has_a_wrong_type(led: Namespace) -> None:
    led.limit(email=1)
    led.redis.set(EMAIL_KEY, "not a list")
    put_due(led, "a", "b", "c")

    led.fire()
    led.redis.delete(EMAIL_KEY)
    fired = led.fire()

    assert (1, 2) == (fired.runs, len(led.places()))
    assert "email" in led.limits()


@pytest.mark.parametrize("queue", ["two words", "x" * 1001], ids=["spaces", "long"])
def test_a_queue_without_a_proper_name_quarantines_its_schedule(led: Namespace, queue: str) -> None:
    led.redis.set(f"{RQ}:queue:{queue}", "not a list")
    put_due(led, "a", origin=queue)

    [[id, reason]] = led.fire().quarantined

    assert ("a", True) == (id, reason.startswith(f"wrong type at {RQ}:queue:"))


def test_a_schedule_waits_while_the_leader_lacks_its_zone_and_fires_by_another_leader(led: Namespace) -> None:
    row = put_rule(led)
    put_due(led, "other", **EMAIL)
    before = len(led.entries())

    assert ["1"] == [str(each) for each in led.call("set_aside", [*row[:4], KYIV])[1:]]
    lacking = led.fire(lacking=KYIV)
    assert (1, [], []) == (lacking.runs, lacking.recurring, lacking.wrong)
    assert [f"normal:-{KYIV}"] == led.throttled()
    assert ["fire"] == [entry.kind for entry in led.entries()[before:]]
    assert lacking.now_ms + 1000 == lacking.next_ms

    [back] = led.fire().recurring

    assert ("r", f"normal:-{KYIV}", "fired") == (back[0], back[1], advance(led, back))
    led.fire()
    assert ({}, []) == (led.limits(), led.throttled())


def test_a_schedule_that_changed_meanwhile_is_not_set_aside(led: Namespace) -> None:
    row = put_rule(led)
    led.put_recurring("r", led.now_ms - 500, template={"status": "queued"}, trigger="rule-2")

    assert [0] == led.call("set_aside", [*row[:4], KYIV])[1:]
    assert [] == led.throttled()
