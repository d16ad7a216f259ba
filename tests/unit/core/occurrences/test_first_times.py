"""First times by a clock that may be wrong, and missed occurrences."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.breadth import pairs
from zsched.core.clock import LAST_MS, to_ms
from zsched.core.occurrences.first_times import Bracket, after_missed, first
from zsched.core.occurrences.policy import Passed
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import build, check, due_of
from zsched.errors import InvalidSchedule

HOUR = 3_600_000
DAY = 24 * HOUR
NOON = to_ms(datetime(2026, 11, 20, 12, tzinfo=UTC))

SPECS: dict[str, dict[str, Any]] = {
    "every": {"kind": EVERY, "expr": "60000"},
    "every with start": {"kind": EVERY, "expr": "7000", "starts_ms": NOON - 3333},
    "every with start later": {"kind": EVERY, "expr": "7000", "starts_ms": NOON + HOUR // 2},
    "every with end": {"kind": EVERY, "expr": "60000", "ends_ms": NOON + 30 * DAY},
    "every with count": {"kind": EVERY, "expr": "60000", "count": 3},
    "cron": {"kind": CRON, "expr": "*/5 * * * *"},
    "cron in a zone": {"kind": CRON, "expr": "30 2 * * *", "tz": "America/New_York"},
    "cron with start": {"kind": CRON, "expr": "0 * * * *", "starts_ms": NOON + HOUR // 2},
    "cron with count": {"kind": CRON, "expr": "0 * * * *", "count": 2},
    "cron once a year": {"kind": CRON, "expr": "0 0 29 2 *"},
    "rrule": {"kind": RRULE, "expr": "FREQ=DAILY;BYHOUR=9,12,15"},
    "rrule at midnight": {"kind": RRULE, "expr": "FREQ=DAILY", "tz": "Asia/Seoul"},
    "rrule every other day": {"kind": RRULE, "expr": "FREQ=DAILY;INTERVAL=2;BYHOUR=11"},
    "rrule with start": {"kind": RRULE, "expr": "FREQ=DAILY;INTERVAL=3", "starts_ms": NOON - DAY},
    "rrule with count": {"kind": RRULE, "expr": "FREQ=DAILY;BYHOUR=13", "count": 2},
    "rrule with until": {"kind": RRULE, "expr": "FREQ=DAILY;UNTIL=20261231T000000Z"},
}


def _spec(name: str) -> TriggerSpec:
    return TriggerSpec(**SPECS[name])


def _put(spec: TriggerSpec, client_ms: int, server_ms: int) -> tuple[int | None, int]:
    """Put like client and put_recurring.lua; return the first time and the number of round trips."""
    now_ms = client_ms
    for trips in range(1, 6):
        plan = first(spec, now_ms)
        if plan.next is None:
            if now_ms == server_ms:
                return None, trips
            now_ms = server_ms
        elif plan.from_ms <= server_ms < plan.until_ms:
            return (server_ms + int(plan.next) if plan.next.startswith("+") else int(plan.next)), trips
        else:
            now_ms = server_ms
    raise AssertionError("no end")


@pytest.mark.parametrize(
    ("name", "wrong_ms", "server_ms"),
    pairs(
        list(SPECS),
        [0, 3, -3, 1000, -1000, HOUR, -HOUR, DAY, -DAY, 400 * DAY, -400 * DAY],
        [NOON, NOON + 1, NOON - 1, NOON + 11 * HOUR, NOON + 3 * HOUR + 61_001],
    ),
)
def test_a_wrong_clock_of_the_client_ends_with_the_servers_answer(name: str, wrong_ms: int, server_ms: int) -> None:
    spec = _spec(name)

    first_ms, trips = _put(spec, server_ms + wrong_ms, server_ms)

    assert build(spec, server_ms).next_after(server_ms) == first_ms
    assert trips <= 3
    if wrong_ms == 0:
        assert 1 == trips


@given(st.sampled_from(sorted(SPECS)), st.integers(NOON - 500 * DAY, NOON + 30 * DAY), st.integers(-2 * DAY, 2 * DAY))
def test_a_plan_accepted_by_the_server_equals_the_servers_own_plan(name: str, server_ms: int, wrong_ms: int) -> None:
    spec = _spec(name)
    plan = first(spec, server_ms + wrong_ms)

    if plan.next is not None and plan.from_ms <= server_ms < plan.until_ms:
        planned = server_ms + int(plan.next) if plan.next.startswith("+") else int(plan.next)
        assert build(spec, server_ms).next_after(server_ms) == planned


def test_the_server_sets_the_phase_of_an_interval_which_has_no_first_time_after_its_end() -> None:
    spec = TriggerSpec(EVERY, "60000", ends_ms=NOON + 60_000)

    assert Bracket("+60000", 0, LAST_MS) == first(_spec("every"), NOON)
    assert Bracket("+60000", 0, NOON + 1) == first(spec, NOON)
    assert first(spec, NOON + 1).next is None
    with pytest.raises(InvalidSchedule):
        check(spec, NOON + 1)


def missed(first_ms: int, last_ms: int, count: int) -> tuple[Passed, ...]:
    return (Passed("paused", first_ms, last_ms, count),)


def test_excluded_occurrences_until_the_next_one_are_recorded_with_missed_ones() -> None:
    spec = replace(_spec("cron"), exclude=("12:30-13:00",))

    passed, plan = after_missed(build(spec, NOON), NOON + 300_000, NOON + HOUR // 2 - 1)

    excluded = Passed("excluded", NOON + HOUR // 2, NOON + HOUR - 300_000, 6, "12:30-13:00")
    assert (*missed(NOON + 300_000, NOON + HOUR // 2 - 300_000, 5), excluded) == passed
    assert str(NOON + HOUR) == plan.next


def test_missed_occurrences_are_counted_and_the_next_time_is_planned() -> None:
    spec = _spec("cron")
    nominal_ms = NOON + 5 * 60_000

    passed, plan = after_missed(build(spec, NOON), nominal_ms, NOON + HOUR + 7)

    assert missed(nominal_ms, NOON + HOUR, 12) == passed
    assert Bracket(str(NOON + HOUR + 300_000), NOON + HOUR, NOON + HOUR + 300_000) == plan


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("wrong_ms", [0, 3, -3, 1000, -1000, HOUR, -HOUR, 400 * DAY, -400 * DAY])
def test_the_first_time_of_a_rule_with_jitter_follows_the_servers_clock(name: str, wrong_ms: int) -> None:
    spec = replace(_spec(name), jitter_ms=3000)
    now_ms, server_ms = NOON + wrong_ms, NOON

    plan, trips = first(spec, now_ms, "a"), 1
    if not plan.from_ms <= server_ms < plan.until_ms:
        plan, trips = first(spec, server_ms, "a"), 2

    assert plan.from_ms <= server_ms < plan.until_ms
    anchor_ms = server_ms if plan.anchor_ms is None else plan.anchor_ms
    trigger = build(spec, anchor_ms)
    next_ms = trigger.next_after(server_ms)
    assert (str(next_ms), due_of(trigger, "a", next_ms or 0)) == (plan.next, int(plan.next or 0) + plan.jitter_ms)
    assert server_ms - 5000 < anchor_ms <= server_ms, "an interval begins when it was put"
    assert trips == 1 or wrong_ms


def test_an_interval_with_jitter_is_anchored_by_its_planner() -> None:
    spec = replace(_spec("every"), jitter_ms=60_000)
    delay_ms = due_of(build(spec, NOON), "a", NOON + 60_000) - NOON - 60_000

    assert Bracket(str(NOON + 60_000), NOON, NOON + 5000, delay_ms, NOON) == first(spec, NOON, "a")
    assert NOON + 1000 == first(replace(spec, expr="1000"), NOON, "a").until_ms


@pytest.mark.parametrize("bound", [{"ends_ms": NOON + 59_999}, {"ends_ms": NOON - DAY}])
def test_an_interval_with_jitter_that_would_begin_after_its_end_has_no_first_time(bound: dict[str, int]) -> None:
    assert first(replace(_spec("every"), jitter_ms=5, **bound), NOON, "a").next is None


def test_an_occurrence_whose_jitter_outlasts_the_pause_is_not_missed() -> None:
    spec = replace(_spec("cron"), jitter_ms=299_000)
    trigger, at_one = build(spec, NOON), NOON + HOUR
    due_ms = due_of(trigger, "a", at_one)
    assert due_ms > at_one

    both = (after_missed(build(spec, NOON), NOON + 300_000, now_ms, "a") for now_ms in (due_ms - 1, due_ms))
    (early, plan), (late, then) = both

    assert [missed(NOON + 300_000, at_one - 300_000, 11), missed(NOON + 300_000, at_one, 12)] == [early, late]
    assert (str(at_one), due_ms - at_one, due_ms) == (plan.next, plan.jitter_ms, plan.until_ms)
    assert (str(at_one + 300_000), due_ms) == (then.next, then.from_ms)


def test_an_exhausted_schedule_has_no_next_time_and_a_promise_outside_of_the_rule_is_missed() -> None:
    passed, plan = after_missed(build(TriggerSpec(EVERY, "60000", count=3), NOON), NOON + 60_000, NOON + DAY)
    promised, _ = after_missed(build(_spec("cron"), NOON), NOON + 17, NOON + 100)

    assert [missed(NOON + 60_000, NOON + 180_000, 3), missed(NOON + 17, NOON + 17, 1)] == [passed, promised]
    assert (None, LAST_MS) == (plan.next, plan.until_ms)
