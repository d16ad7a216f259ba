"""fire.lua and quarantine.lua: calls that are refused, runs in doubt, and schedules that cannot be fired."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lua.ground import EPOCH, HOUR_MS, LEASE_MS, SERVER, TOKEN, Ground, put_due
from tests.prefix import RQ
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


# -- a quarantine of a wrong type --------------------------------------------------------------------


def _spoil_quarantine(ground: Ground) -> str:
    key = ground.keys.quarantine()
    ground.redis.set(key, "x")
    return key


def test_fire_reports_a_quarantine_key_of_a_wrong_type(led: Ground) -> None:
    led.put_recurring("r", led.now_ms - 1000)
    key = _spoil_quarantine(led)

    assert [key] == led.fire().wrong


def _stuck_one_shots(ground: Ground, number: int) -> None:
    for run in put_due(ground, *(f"stuck{n:03}" for n in range(number))):
        ground.redis.delete(f"{RQ}:job:{run}")


def _due_rules(ground: Ground, number: int) -> None:
    for n in range(number):
        ground.put_recurring(f"stuck{n:03}", ground.now_ms - 2000)


@pytest.mark.parametrize("put", [_stuck_one_shots, _due_rules])
def test_a_schedule_that_cannot_be_quarantined_does_not_block_later_schedules(
    led: Ground, put: Callable[[Ground, int], None]
) -> None:
    put(led, 9)
    good = put_due(led, *(f"good{n}" for n in range(5)))
    low = put_due(led, "low", lane="low")
    _spoil_quarantine(led)

    fired = [led.fire(limit=3) for _ in range(3)]

    assert [3, 3, 0] == [one.runs for one in fired]
    assert [*good, *low] == led.queue()
    assert 9 == led.redis.zcard(led.keys.due_normal())


def test_fire_pushes_no_more_than_its_limit_beside_schedules_that_cannot_be_quarantined(led: Ground) -> None:
    _stuck_one_shots(led, 2)
    good = put_due(led, *(f"good{n}" for n in range(8)))
    _spoil_quarantine(led)

    assert 4 == led.fire(limit=4).runs
    assert good[:4] == led.queue()


@pytest.mark.parametrize("number", [1, 3, 100])
def test_a_schedule_that_cannot_be_quarantined_is_tried_once_a_second(led: Ground, number: int) -> None:
    _stuck_one_shots(led, number)
    _spoil_quarantine(led)

    fired = led.fire(limit=3)

    assert (fired.now_ms + 1000, min(number, 30)) == (fired.next_ms, fired.looked)


def test_fire_does_not_page_through_a_lane_if_quarantine_works(led: Ground) -> None:
    _due_rules(led, 9)

    fired = led.fire(limit=3)

    assert (3, 3, fired.now_ms) == (fired.looked, len(fired.recurring), fired.next_ms)


# -- quarantine --------------------------------------------------------------------------------------


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
