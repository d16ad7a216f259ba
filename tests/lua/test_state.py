"""lib/state.lua: the counts of a recurring schedule, in Redis, in the log and after a restore."""

import pytest

from tests.builders.namespaces import Namespace
from tests.builders.progress import change_progress
from tests.builders.records import rule
from tests.lua.overlapping import advance, becomes, fired
from tests.lua.restoring import restore
from tests.lua.test_streaks import failures, put, track
from zsched.core.log.lives import StateEntry
from zsched.core.log.puts import PutRecurringEntry


def logged(ns: Namespace) -> list[tuple[str, str]]:
    """Return id and state of all rows of entries of states."""
    entries = filter(None, map(StateEntry.of, ns.parsed()))
    return [(row.id, row.state) for entry in entries for row in entry.rows()]


def test_the_log_has_each_new_state_as_an_absolute_value(led: Namespace) -> None:
    put(led, None)

    for verdicts in ("!!", "-", "!", "+", "+"):
        track(led, verdicts)

    assert [("r", "failures=2"), ("r", "failures=3"), ("r", "")] == logged(led)


def test_a_skip_keeps_the_other_counts_of_a_state(led: Namespace) -> None:
    [first] = fired(led, "skip")
    becomes(led, first, "started")
    change_progress(led.redis, led.keys, "r", state="failures=2,others=7")

    assert ["overlap"] * 2 == [advance(led, "skip")[0] for _ in range(2)]
    assert "failures=2,others=7,skips=2" == led.schedule("r")["state"]

    becomes(led, first, "finished")
    assert "fired" == advance(led, "skip")[0]
    assert "failures=2,others=7" == led.schedule("r")["state"]


def test_a_put_keeps_the_state_and_logs_it(led: Namespace) -> None:
    put(led, None)
    track(led, "!!")

    put(led, None, digest="another")

    assert 2 == failures(led)
    assert "failures=2" == PutRecurringEntry(led.parsed()[-1]).record_of(0).state


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_pause_and_a_cancel_end_the_state(led: Namespace, verb: str) -> None:
    put(led, None)
    track(led, "!!")

    led.call(verb, ["r"], **({"note": ""} if verb == "pause" else {}))

    assert failures(led) is None


@pytest.mark.parametrize("state", ["failures=3,skips=7", "skips=1,others=2", ""])
def test_a_restore_writes_the_state_back_and_finds_its_trouble(led: Namespace, state: str) -> None:
    restore(led, rule(state=state))

    assert state == led.schedule("r").get("state", "")
    counts = dict(word.split("=") for word in state.split(",") if word)
    for name, key in (("failures", led.keys.failing()), ("skips", led.keys.blocked())):
        assert (float(counts[name]) if name in counts else None) == led.redis.zscore(key, "r")


@pytest.mark.parametrize("broken", ["failures", "failures=x", "a-b", "=3", "failures=-2"])
def test_a_broken_state_counts_nothing(led: Namespace, broken: str) -> None:
    put(led, None)
    change_progress(led.redis, led.keys, "r", state=broken)

    track(led, "!")

    assert 1 == failures(led)
