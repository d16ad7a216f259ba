"""fire.lua refuses without the lease, during a hold and after a clock jump, and marks runs due before the doubt."""

from __future__ import annotations

import pytest

from tests.lua.ground import HOUR_MS, LEASE_MS, Ground, put_due
from zsched.config.settings import LONGEST_LEASE_MS
from zsched.errors import ServerChanged, Stale


def test_a_leader_without_the_lease_can_do_nothing(led: Ground) -> None:
    put_due(led, "a")
    before = led.keyspace()

    with pytest.raises(Stale):
        led.fire(token="daemon-2:6:2000:nonce")
    assert before == led.keyspace()


def test_a_lapsed_lease_is_stale(led: Ground) -> None:
    led.redis.delete(led.keys.lease())

    with pytest.raises(Stale):
        led.fire()


@pytest.mark.parametrize("server", ["server-2", ""])
def test_a_leader_on_another_server_can_do_nothing(led: Ground, server: str) -> None:
    put_due(led, "a")
    led.redis.hset(led.keys.meta(), "server", server)
    before = led.keyspace()

    with pytest.raises(ServerChanged):
        led.fire()
    assert before == led.keyspace()


def test_a_leader_on_a_server_without_meta_can_do_nothing(led: Ground) -> None:
    led.redis.delete(led.keys.meta())

    with pytest.raises(ServerChanged):
        led.fire()


def test_fire_is_refused_during_a_hold(led: Ground) -> None:
    put_due(led, "a")
    hold_ms = led.now_ms + LEASE_MS
    led.redis.hset(led.keys.meta(), "hold", hold_ms)

    word, now_ms, until_ms = led.fire_reply()

    assert ("HELD", led.now_ms, hold_ms) == (word, now_ms, until_ms)
    led.pass_time(LEASE_MS)
    assert 1 == led.fire().runs


def test_a_hold_longer_than_the_leaders_lease_is_kept(led: Ground) -> None:
    put_due(led, "a")
    led.redis.hset(led.keys.meta(), "hold", led.now_ms + LONGEST_LEASE_MS - 5000)

    assert "HELD" == led.fire_reply()[0]


def test_a_hold_from_before_a_clock_jump_is_ignored(led: Ground) -> None:
    put_due(led, "a")
    led.redis.hset(led.keys.meta(), "hold", led.now_ms + LONGEST_LEASE_MS + 5000)

    assert 1 == led.fire().runs
    led.pass_time(10_000)  # within the longest lease of it
    put_due(led, "b")
    assert 1 == led.fire().runs


def test_a_doubt_in_the_future_is_lowered_to_the_current_time(led: Ground) -> None:
    [before] = put_due(led, "before", zs="1s")
    led.redis.hset(led.keys.meta(), "doubt", led.now_ms + HOUR_MS)

    fired = led.fire()
    led.pass_time(1001)  # put_due: due a second ago
    [after] = put_due(led, "after", zs="1s")
    again = led.fire()

    assert [before] == fired.skipped
    assert {"skipped": before, "doubt": str(fired.now_ms)} == led.entries()[-3].fields
    assert (1, 0, []) == (again.runs, again.uncertain, again.skipped)
    assert [after] == led.queue()


def test_a_doubt_in_the_future_is_logged_even_if_nothing_is_due(led: Ground) -> None:
    led.redis.hset(led.keys.meta(), "doubt", led.now_ms + HOUR_MS)

    fired = led.fire()
    led.fire()

    assert [("fire", {"doubt": str(fired.now_ms)})] == [(one.kind, one.fields) for one in led.entries()]
    assert str(fired.now_ms).encode() == led.redis.hget(led.keys.meta(), "doubt")


def test_a_doubt_in_the_future_is_unchanged_during_a_hold(led: Ground) -> None:
    doubt_ms = led.now_ms + HOUR_MS
    led.redis.hset(led.keys.meta(), mapping={"doubt": doubt_ms, "hold": led.now_ms + LEASE_MS})

    led.fire_reply()

    assert str(doubt_ms).encode() == led.redis.hget(led.keys.meta(), "doubt")


@pytest.mark.parametrize("away_ms", [-5000, 5000])
def test_fire_is_refused_when_the_clock_has_jumped(led: Ground, away_ms: int) -> None:
    put_due(led, "a")
    expected_ms = led.now_ms + away_ms
    before = led.keyspace()

    word, now_ms = led.fire_reply(clock_from_ms=expected_ms - 2000, clock_until_ms=expected_ms + 2000)

    assert ("JUMPED", led.now_ms) == (word, now_ms)
    assert before == led.keyspace()


def test_a_clock_at_either_end_of_its_window_has_not_jumped(led: Ground) -> None:
    put_due(led, "a")

    assert 1 == led.fire(clock_from_ms=led.now_ms, clock_until_ms=led.now_ms).runs


def test_runs_due_before_the_doubt_are_marked_uncertain(led: Ground) -> None:
    before_run, after_run = put_due(led, "before", "after")
    led.redis.hset(led.keys.meta(), "doubt", before_run.rpartition("-")[2])

    fired = led.fire()

    assert (2, 1) == (fired.runs, fired.uncertain)
    assert [before_run, after_run] == led.queue()
    assert ["1", None] == [led.job(run).get("zs_uncertain") for run in (before_run, after_run)]
    assert {"runs": f"{before_run} {after_run}", "uncertain": before_run} == led.last.fields


def test_uncertain_runs_that_must_not_run_twice_are_skipped(led: Ground) -> None:
    [skipped] = put_due(led, "s", zs="1s")
    [fired_run] = put_due(led, "f")
    led.redis.hset(led.keys.meta(), "doubt", led.now_ms)

    fired = led.fire()

    assert (1, [skipped]) == (fired.runs, fired.skipped)
    assert [fired_run] == led.queue()
    assert {} == led.job(skipped)
    assert skipped == led.last.fields["skipped"]
    assert {} == led.places()


def test_a_schedule_with_on_uncertain_skip_fires_without_a_doubt(led: Ground) -> None:
    [run] = put_due(led, "s", zs="1s")

    led.fire()

    assert [run] == led.queue()
