"""fire.lua and quarantine.lua: calls that are refused, runs in doubt, and schedules that cannot be fired."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import EPOCH, HOUR_MS, LEASE_MS, Namespace, put_due
from tests.prefix import RQ
from zsched.config.settings import LONGEST_LEASE_MS
from zsched.errors import ServerChanged, Stale

REFUSED: dict[str, tuple[Callable[[Namespace], Any], type[Exception]]] = {
    "another token": (lambda led: led.redis.set(led.keys.lease(), "daemon-2:6:2000:nonce"), Stale),
    "a lapsed lease": (lambda led: led.redis.delete(led.keys.lease()), Stale),
    "another server": (lambda led: led.redis.hset(led.keys.meta(), "server", "server-2"), ServerChanged),
    "a server without a name": (lambda led: led.redis.hset(led.keys.meta(), "server", ""), ServerChanged),
    "a server without meta": (lambda led: led.redis.delete(led.keys.meta(), led.keys.log()), ServerChanged),
}


@pytest.mark.parametrize("state", REFUSED)
def test_a_leader_without_the_lease_or_on_another_server_can_do_nothing(led: Namespace, state: str) -> None:
    put_due(led, "a")
    prepare, error = REFUSED[state]
    prepare(led)
    before = led.keyspace()

    with pytest.raises(error):
        led.fire()
    assert before == led.keyspace()


def test_fire_is_refused_during_a_hold(led: Namespace) -> None:
    put_due(led, "a")
    hold_ms = led.now_ms + LEASE_MS
    led.redis.hset(led.keys.meta(), "hold", hold_ms)

    word, now_ms, until_ms = led.fire_reply()

    assert ("HELD", led.now_ms, hold_ms) == (word, now_ms, until_ms)
    led.pass_time(LEASE_MS)
    assert 1 == led.fire().runs


@pytest.mark.parametrize("is_held", [True, False])
def test_a_hold_is_kept_unless_it_is_longer_than_any_lease(led: Namespace, is_held: bool) -> None:
    put_due(led, "a")
    led.redis.hset(led.keys.meta(), "hold", led.now_ms + LONGEST_LEASE_MS + (-5000 if is_held else 5000))

    assert is_held == (led.fire_reply()[0] == "HELD")
    led.pass_time(10_000)  # within the longest lease of it
    put_due(led, "b")
    assert is_held == (led.fire_reply()[0] == "HELD")
    assert (0 if is_held else 2) == len(led.queue())


def test_a_doubt_in_the_future_is_lowered_to_the_current_time(led: Namespace) -> None:
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


def test_a_doubt_in_the_future_is_logged_even_if_nothing_is_due(led: Namespace) -> None:
    led.redis.hset(led.keys.meta(), "doubt", led.now_ms + HOUR_MS)

    fired = led.fire()
    led.fire()

    assert [("fire", {"doubt": str(fired.now_ms)})] == [(one.kind, one.fields) for one in led.entries()]
    assert str(fired.now_ms).encode() == led.redis.hget(led.keys.meta(), "doubt")


def test_a_doubt_in_the_future_is_unchanged_during_a_hold(led: Namespace) -> None:
    doubt_ms = led.now_ms + HOUR_MS
    led.redis.hset(led.keys.meta(), mapping={"doubt": doubt_ms, "hold": led.now_ms + LEASE_MS})

    led.fire_reply()

    assert str(doubt_ms).encode() == led.redis.hget(led.keys.meta(), "doubt")


@pytest.mark.parametrize(("from_ms", "until_ms"), [(-7000, -3000), (3000, 7000), (0, 0)])
def test_fire_is_refused_when_the_clock_has_jumped_out_of_its_window(
    led: Namespace, from_ms: int, until_ms: int
) -> None:
    put_due(led, "a")
    before = led.keyspace()

    reply = led.fire_reply(clock_from_ms=led.now_ms + from_ms, clock_until_ms=led.now_ms + until_ms)

    has_jumped = from_ms != 0
    assert has_jumped == (["JUMPED", led.now_ms] == reply) == (before == led.keyspace())
    assert ([] if has_jumped else ["a"]) == [run.partition("-")[0] for run in led.queue()]


def test_runs_due_before_the_doubt_are_marked_uncertain(led: Namespace) -> None:
    before_run, after_run = put_due(led, "before", "after")
    led.redis.hset(led.keys.meta(), "doubt", before_run.rpartition("-")[2])

    fired = led.fire()

    assert (2, 1) == (fired.runs, fired.uncertain)
    assert [before_run, after_run] == led.queue()
    assert ["1", None] == [led.job(run).get("zs_uncertain") for run in (before_run, after_run)]
    assert {"runs": f"{before_run} {after_run}", "uncertain": before_run} == led.last.fields


@pytest.mark.parametrize("is_doubted", [True, False])
def test_uncertain_runs_that_must_not_run_twice_are_skipped(led: Namespace, is_doubted: bool) -> None:
    [run] = put_due(led, "s", zs="1s")
    [other] = put_due(led, "t", lane="low")
    if is_doubted:
        led.redis.hset(led.keys.meta(), "doubt", led.now_ms)

    fired = led.fire()

    assert ((1, [run]) if is_doubted else (2, [])) == (fired.runs, fired.skipped)
    assert ([other] if is_doubted else [run, other]) == led.queue()
    assert is_doubted == (led.job(run) == {})
    assert (run if is_doubted else None) == led.last.fields.get("skipped")
    assert {} == led.places()


# -- a quarantine of a wrong type ---------------------------------------------------------------


def _spoil_quarantine(ns: Namespace) -> str:
    key = ns.keys.quarantine()
    ns.redis.set(key, "x")
    return key


def _stuck_one_shots(ns: Namespace, number: int) -> None:
    for run in put_due(ns, *(f"stuck{n:03}" for n in range(number))):
        ns.redis.delete(f"{RQ}:job:{run}")


def _due_rules(ns: Namespace, number: int) -> None:
    for n in range(number):
        ns.put_recurring(f"stuck{n:03}", ns.now_ms - 2000)


# -- quarantine --------------------------------------------------------------------------------------


def test_quarantine_takes_schedules_out_of_their_lanes_and_stores_the_reason(led: Namespace) -> None:
    _, _, _, due_a = led.put_recurring("a", lane="high")
    _, _, _, due_b = led.put_recurring("b")
    progress_a, progress_b = map(led.progress, "ab")
    rows = ["a", "high", due_a, progress_a, "no date", "b", "normal", due_b, progress_b, "bound reached: 1 2 3"]

    now_ms, taken = led.call("quarantine", rows)

    assert 2 == taken
    assert {"a": f"quarantine high {due_a}", "b": f"quarantine normal {due_b}"} == led.places()
    assert f"normal {due_b} {now_ms} bound reached: 1 2 3" == led.redis.hget(led.keys.quarantine(), "b").decode()
    entry = led.last
    rows = [f"a high {due_a} no date", f"b normal {due_b} bound reached: 1 2 3"]
    assert (f"{EPOCH}-3", "quarantine", rows) == (entry.id, entry.kind, entry.rows)


def test_a_schedule_that_changed_or_is_gone_is_not_quarantined(led: Namespace) -> None:
    _, _, _, due_ms = led.put_recurring("a")
    progress = led.progress("a")
    rows = [("a", int(due_ms) - 1, progress), ("a", due_ms, "0-1"), ("gone", due_ms, progress)]

    texts = [text for id, ms, seen in rows for text in (id, "normal", ms, seen, "why")]
    assert 0 == led.call("quarantine", texts)[1]
    assert ({"a": f"normal {due_ms}"}, 1) == (led.places(), len(led.entries()))
