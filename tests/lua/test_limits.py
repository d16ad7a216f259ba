"""limits.lua: limits come and go, and what was given out and what is throttled stays right."""

from __future__ import annotations

import pytest

from tests.lua.ground import SERVER, TOKEN, Ground
from tests.lua.limited import now_ms, pass_on, put_due, put_many
from zsched.errors import ServerChanged, Stale


def test_a_limit_that_stays_keeps_what_it_gave_out(still: Ground) -> None:
    still.limit(email=1)
    put_due(still, "a", "b")
    still.fire()
    before = still.limits()

    still.limit(email=1)

    assert before == still.limits()
    assert 0 == still.fire().runs


def test_limits_that_are_the_same_write_nothing(still: Ground) -> None:
    still.limit(email=1, sms=0.5)
    before = still.keyspace()

    still.limit(sms=0.5, email=1)

    assert before == still.keyspace()


def test_a_higher_limit_counts_from_the_next_look_on(still: Ground) -> None:
    still.limit(email=0.01)
    put_many(still, "s", 20)
    still.fire()

    still.limit(email=100)
    assert now_ms(still) + 10 == still.fire().next_ms
    pass_on(still, 50)

    assert 5 == still.fire().runs


def test_throttled_runs_fire_by_their_due_times_once_the_limit_is_gone(still: Ground) -> None:
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


def test_a_limit_that_is_gone_and_for_which_nobody_waits_leaves_nothing(still: Ground) -> None:
    still.limit(email=1)

    still.limit()

    assert {} == still.limits()


def test_a_limit_that_comes_back_holds_for_what_is_left(still: Ground) -> None:
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


def test_a_row_that_another_writer_broke_is_no_limit(still: Ground) -> None:
    still.redis.hset(still.keys.limits(), "email", "many")
    put_due(still, "a", "b", "c")

    assert 3 == still.fire().runs
    assert {} == still.limits()
