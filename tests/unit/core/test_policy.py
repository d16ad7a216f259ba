"""plan(): what becomes of a recurring schedule that is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.policy import Plan, Range, plan
from zsched.core.triggers import TriggerKind, TriggerSpec, build
from zsched.errors import TriggerError

MINUTE = 60_000
T0 = 1_767_225_600_000  # 2026-01-01T00:00Z


def _every(every_ms: int = MINUTE, **bounds: int) -> TriggerSpec:
    return TriggerSpec(TriggerKind.EVERY, str(every_ms), **bounds)


MINUTELY = TriggerSpec(TriggerKind.CRON, "* * * * *")


@pytest.mark.parametrize("spec", [_every(), MINUTELY])
@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (0, Plan(T0 + MINUTE, None, T0 + 2 * MINUTE)),
        (1, Plan(T0 + MINUTE, None, T0 + 2 * MINUTE)),
        (MINUTE - 1, Plan(T0 + MINUTE, None, T0 + 2 * MINUTE)),
        (MINUTE, Plan(T0 + 2 * MINUTE, Range(T0 + MINUTE, T0 + MINUTE, 1), T0 + 3 * MINUTE)),
        (3 * MINUTE + 5, Plan(T0 + 4 * MINUTE, Range(T0 + MINUTE, T0 + 3 * MINUTE, 3), T0 + 5 * MINUTE)),
    ],
)
def test_the_latest_occurrence_fires_and_those_before_are_one_range(
    spec: TriggerSpec, now: int, expected: Plan
) -> None:
    assert expected == plan(build(spec, T0), T0 + MINUTE, T0 + MINUTE + now)


def test_a_clock_that_went_back_fires_the_promised_occurrence_and_does_not_repeat_it() -> None:
    assert Plan(T0 + MINUTE, None, T0 + 2 * MINUTE) == plan(build(_every(), T0), T0 + MINUTE, T0 - 5)


def test_the_last_of_a_count_has_no_next() -> None:
    trigger = build(_every(count=3), T0)

    assert Plan(T0 + 3 * MINUTE, None, None) == plan(trigger, T0 + 3 * MINUTE, T0 + 3 * MINUTE)
    late = Plan(T0 + 3 * MINUTE, Range(T0 + MINUTE, T0 + 2 * MINUTE, 2), None)
    assert late == plan(trigger, T0 + MINUTE, T0 + 900 * MINUTE)


def test_an_end_in_the_gap_ends_it() -> None:
    trigger = build(_every(ends_ms=T0 + 2 * MINUTE), T0)

    assert Plan(T0 + 2 * MINUTE, Range(T0 + MINUTE, T0 + MINUTE, 1), None) == plan(
        trigger, T0 + MINUTE, T0 + 5 * MINUTE
    )


def test_a_promised_occurrence_fires_though_the_rules_of_its_zone_have_changed() -> None:
    promised_ms = T0 + MINUTE + 17  # not one of the rule's any more

    planned = plan(build(MINUTELY, T0), promised_ms, promised_ms)

    assert Plan(promised_ms, None, T0 + 2 * MINUTE) == planned


def test_a_gap_of_centuries_costs_no_more_than_one_of_minutes() -> None:
    planned = plan(build(_every(1), T0), T0 + 1, T0 + 300 * 365 * 86_400_000)

    assert planned.coalesced is not None
    assert planned.coalesced.count == planned.fire_ms - planned.coalesced.first_ms


class _Backwards:
    """A trigger that gives a time which is not later."""

    def next_after(self, after_ms: int) -> int:
        return after_ms - 1

    def last_until(self, until_ms: int) -> int:
        return until_ms


def test_a_trigger_that_goes_back_is_an_error() -> None:
    with pytest.raises(TriggerError, match="went back"):
        plan(_Backwards(), T0, T0)  # type: ignore[arg-type]


@given(
    st.sampled_from(
        [
            _every(7001), _every(1), MINUTELY, TriggerSpec(TriggerKind.CRON, "*/7 3 * * 1-5", "America/New_York"),
            TriggerSpec(TriggerKind.RRULE, "FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=9", "Europe/London"), _every(500, count=9),
        ]
    ),
    st.integers(0, 30), st.integers(0, 90 * 86_400_000),
)  # fmt: skip
def test_every_occurrence_is_fired_or_coalesced_exactly_once(spec: TriggerSpec, skip: int, late_ms: int) -> None:
    trigger = build(spec, T0)
    nominal_ms = trigger.next_after(T0 + skip * 86_400_000)
    if nominal_ms is None:
        return
    now_ms = nominal_ms + late_ms

    planned = plan(trigger, nominal_ms, now_ms)

    due = trigger.count_between(nominal_ms - 1, now_ms)
    assert due == 1 + (planned.coalesced.count if planned.coalesced else 0)
    assert planned.fire_ms <= now_ms
    assert planned.next_ms is None or planned.next_ms > now_ms
    assert trigger.next_after(planned.fire_ms) == planned.next_ms
    if planned.coalesced:
        assert nominal_ms == planned.coalesced.first_ms <= planned.coalesced.last_ms < planned.fire_ms
        assert planned.coalesced.last_ms == trigger.last_until(planned.fire_ms - 1)
