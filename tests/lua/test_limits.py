"""limits.lua: setting and removing limits keeps the used tokens and the throttled runs right."""

from __future__ import annotations

from tests.lua.ground import Ground
from tests.lua.limited import put_due, put_many


def test_setting_an_unchanged_limit_keeps_its_used_tokens(led: Ground) -> None:
    led.limit(email=1)
    put_due(led, "a", "b")
    led.fire()
    before = led.limits()

    led.limit(email=1)

    assert before == led.limits()
    assert 0 == led.fire().runs


def test_setting_unchanged_limits_writes_nothing(led: Ground) -> None:
    led.limit(email=1, sms=0.5)
    before = led.keyspace()

    led.limit(sms=0.5, email=1)

    assert before == led.keyspace()


def test_a_raised_limit_applies_from_the_next_fire(led: Ground) -> None:
    led.limit(email=0.01)
    put_many(led, "s", 20)
    led.fire()

    led.limit(email=100)
    assert led.now_ms + 10 == led.fire().next_ms
    led.pass_time(50)

    assert 5 == led.fire().runs


def test_throttled_runs_fire_in_due_order_after_the_limit_is_removed(led: Ground) -> None:
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


def test_removing_a_limit_without_throttled_runs_deletes_its_keys(led: Ground) -> None:
    led.limit(email=1)

    led.limit()

    assert {} == led.limits()


def test_a_limit_that_is_set_again_applies_to_the_runs_still_throttled(led: Ground) -> None:
    led.limit(email=1)
    put_many(led, "s", 50)
    led.fire()
    led.limit()
    led.fire(limit=10)

    led.limit(email=1)

    assert 1 == led.fire().runs
    assert 0 == led.fire().runs


def test_a_corrupted_limit_is_ignored(led: Ground) -> None:
    led.redis.hset(led.keys.limits(), "email", "many")
    put_due(led, "a", "b", "c")

    assert 3 == led.fire().runs
    assert {} == led.limits()
