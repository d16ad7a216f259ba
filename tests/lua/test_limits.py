"""limits.lua: setting and removing limits keeps the used tokens and the throttled runs right."""

from __future__ import annotations

import pytest

from tests.lua.ground import SERVER, TOKEN, Ground
from tests.lua.limited import now_ms, pass_on, put_due, put_many
from zsched.errors import ServerChanged, Stale


def test_setting_an_unchanged_limit_keeps_its_used_tokens(still: Ground) -> None:
    still.limit(email=1)
    put_due(still, "a", "b")
    still.fire()
    before = still.limits()

    still.limit(email=1)

    assert before == still.limits()
    assert 0 == still.fire().runs


def test_setting_unchanged_limits_writes_nothing(still: Ground) -> None:
    still.limit(email=1, sms=0.5)
    before = still.keyspace()

    still.limit(sms=0.5, email=1)

    assert before == still.keyspace()


def test_a_raised_limit_applies_from_the_next_fire(still: Ground) -> None:
    still.limit(email=0.01)
    put_many(still, "s", 20)
    still.fire()

    still.limit(email=100)
    assert now_ms(still) + 10 == still.fire().next_ms
    pass_on(still, 50)

    assert 5 == still.fire().runs


def test_throttled_runs_fire_in_due_order_after_the_limit_is_removed(still: Ground) -> None:
    still.limit(email=1)
    put_many(still, "s", 150)
    still.fire(limit=1000)
    assert 149 == len(still.places())

    still.limit()
    first = still.fire(limit=100)
    then = still.fire(limit=100)

    assert (100, now_ms(still), 49, "") == (first.runs, first.next_ms, then.runs, then.next_ms)
    assert ({}, {}, []) == (still.places(), still.limits(), still.throttled())
    assert sorted(still.queue("email")) == still.queue("email")


def test_removing_a_limit_without_throttled_runs_deletes_its_keys(still: Ground) -> None:
    still.limit(email=1)

    still.limit()

    assert {} == still.limits()


def test_a_limit_that_is_set_again_applies_to_the_runs_still_throttled(still: Ground) -> None:
    still.limit(email=1)
    put_many(still, "s", 50)
    still.fire()
    still.limit()
    still.fire(limit=10)

    still.limit(email=1)

    assert 1 == still.fire().runs
    assert 0 == still.fire().runs


def test_only_the_leader_of_this_server_sets_limits(still: Ground) -> None:
    with pytest.raises(Stale):
        still.call("limits", ["email", "1"], token="another", expected_server=SERVER)
    with pytest.raises(ServerChanged):
        still.call("limits", ["email", "1"], token=TOKEN, expected_server="another")
    assert {} == still.limits()


def test_a_corrupted_limit_is_ignored(still: Ground) -> None:
    still.redis.hset(still.keys.limits(), "email", "many")
    put_due(still, "a", "b", "c")

    assert 3 == still.fire().runs
    assert {} == still.limits()
