"""Skips by hand against a plain list of times."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.model import Schedule
from zsched.core.occurrences.outcomes import Outcome
from zsched.core.occurrences.planning import skip_plan
from zsched.core.occurrences.policy import Passed, Policy, plan
from zsched.core.options.choices import CatchUp, Overlap, ScheduleState
from zsched.core.record import STATE, skipped_in, skips_text
from zsched.core.triggers.spec import OnExcluded, TriggerSpec
from zsched.core.triggers.trigger import build, due_of, kind_named, with_skipped
from zsched.errors import InvalidSchedule

START_MS = 1_790_000_000_000
MOST = 40
EACH = Policy(CatchUp.ALL, overlap=Overlap.ALLOW)
SPECS = [
    TriggerSpec(kind_named("cron"), "0 9 * * *", "Asia/Seoul"),
    TriggerSpec(kind_named("cron"), "30 2 * * *", "Europe/Berlin", jitter_ms=7_200_000),
    TriggerSpec(kind_named("cron"), "*/20 * * * *", jitter_ms=600_000),
    TriggerSpec(kind_named("cron"), "0 * * * *", "UTC", exclude=("22:00-07:00",)),
    TriggerSpec(kind_named("cron"), "0 * * * *", exclude=("22:00-07:00",), on_excluded=OnExcluded.NEXT_OPEN),
    TriggerSpec(kind_named("cron"), "0 9 * * *", count=30),
]


def listed(spec: TriggerSpec) -> list[int]:
    """Return the first occurrences."""
    return list(islice(build(spec, START_MS).between(START_MS, START_MS * 2), MOST))


@st.composite
def skipping(draw: st.DrawFn) -> tuple[TriggerSpec, list[int], tuple[int, ...]]:
    """Draw a rule, its first times, and some of them that are skipped."""
    spec = draw(st.sampled_from(SPECS))
    times = listed(spec)
    places = draw(st.sets(st.integers(0, min(len(times), 25) - 1)))
    return spec, times, tuple(times[place] for place in sorted(places))


@given(skipping(), st.data())
def test_a_trigger_has_the_times_that_are_not_skipped(
    drawn: tuple[TriggerSpec, list[int], tuple[int, ...]], data: st.DataObject
) -> None:
    spec, times, skipped = drawn
    left = [at_ms for at_ms in times if at_ms not in skipped]
    trigger = build(with_skipped(spec, skipped), START_MS)
    first_ms, last_ms = sorted(data.draw(st.lists(st.integers(START_MS, times[-1] - 1), min_size=2, max_size=2)))

    between = [at_ms for at_ms in left if first_ms < at_ms <= last_ms]
    assert between == list(trigger.between(first_ms, last_ms))
    assert len(between) == trigger.count_between(first_ms, last_ms)
    assert next((at_ms for at_ms in left if at_ms > first_ms), None) == trigger.next_after(first_ms)
    assert next((at_ms for at_ms in reversed(left) if at_ms <= last_ms), None) == trigger.last_until(last_ms)
    whole = build(spec, START_MS)
    assert [due_of(whole, "a", at_ms) for at_ms in left] == [due_of(trigger, "a", at_ms) for at_ms in left]


@given(skipping(), st.integers(0, 10))
def test_plans_one_after_another_fire_or_record_each_time_once(
    drawn: tuple[TriggerSpec, list[int], tuple[int, ...]], places_late: int
) -> None:
    spec, times, skipped = drawn
    nominal_ms: int | None = times[0]
    state, fired, recorded = skips_text(skipped), list[int](), list[int]()
    while nominal_ms is not None and nominal_ms < times[30 if len(times) > 30 else -1]:
        trigger = build(with_skipped(spec, skipped_in(state)), START_MS)
        now_ms = due_of(trigger, "a", nominal_ms) + places_late * 3_600_000
        made = plan(trigger, nominal_ms, now_ms, EACH, "a")
        fired += [made.fire_ms] * (made.fire_ms is not None)
        recorded += [one.first_ms for one in made.passed if one.why == Outcome.BY_HAND.word]
        until_ms = nominal_ms if made.next_ms is not None else times[-1]  # as advance.lua
        state = skips_text(at_ms for at_ms in skipped_in(state) if at_ms > until_ms)
        nominal_ms = made.next_ms

    reached = [at_ms for at_ms in times if at_ms <= max([*fired, *recorded])]
    assert [at_ms for at_ms in reached if at_ms not in skipped] == fired
    assert [at_ms for at_ms in skipped if at_ms <= max(recorded, default=0)] == recorded
    assert not set(skipped_in(state)) & set(recorded)


@given(skipping(), st.lists(st.tuples(st.booleans(), st.integers(0, 24)), max_size=12))
def test_skips_and_take_backs_leave_the_next_time_that_a_plain_list_has(
    drawn: tuple[TriggerSpec, list[int], tuple[int, ...]], steps: list[tuple[bool, int]]
) -> None:
    spec, times, _ = drawn
    schedule = Schedule(
        "a", ScheduleState.ACTIVE, "cron", "f", due_of(build(spec, START_MS), "a", times[0]), spec, START_MS, times[0],
        read_ms=START_MS,
    )  # fmt: skip
    skipped = set[int]()
    for takes_back, place in steps:
        made = skip_plan(schedule, times[place], 0, takes_back=takes_back)
        skipped = skipped - {times[place]} if takes_back else skipped | {times[place]}
        if made is not None:
            spec = replace(spec, skipped=made.skipped)
            schedule = replace(schedule, trigger=spec, nominal_ms=made.nominal_ms, next_ms=made.due_ms)

        left = [at_ms for at_ms in times if at_ms not in skipped]
        assert (tuple(sorted(skipped)), left[0]) == (spec.skipped, schedule.nominal_ms)
        assert schedule.next_ms == due_of(build(spec, START_MS), "a", left[0])


@given(st.sets(st.integers(0, 24)))
def test_skips_and_plans_together_record_each_excluded_time_once(places: set[int]) -> None:
    spec, recorded = SPECS[3], list[int]()
    times, fired = listed(spec), list[int]()
    schedule = Schedule("a", ScheduleState.ACTIVE, "cron", "f", times[0], spec, START_MS, times[0], read_ms=START_MS)
    for place in places:
        made = skip_plan(schedule, times[place], 0)
        assert made is not None
        recorded += hours(made.passed)
        spec = replace(spec, skipped=made.skipped)
        schedule = replace(schedule, trigger=spec, nominal_ms=made.nominal_ms, next_ms=made.due_ms)
    nominal_ms = schedule.nominal_ms or 0
    while nominal_ms < times[-1]:
        made_plan = plan(build(spec, START_MS), nominal_ms, nominal_ms, EACH, "a")
        recorded += hours(made_plan.passed)
        fired.append(made_plan.fire_ms or 0)
        nominal_ms = made_plan.next_ms or 0

    whole = [*range(times[0], nominal_ms, 3_600_000)]
    assert whole == sorted([*recorded, *fired, *spec.skipped])


def hours(passed: Iterable[Passed]) -> list[int]:
    """Return the hourly times that *passed* has as excluded."""
    excluded = (one for one in passed if one.why == Outcome.EXCLUDED.word)
    return [at_ms for one in excluded for at_ms in range(one.first_ms, one.last_ms + 1, 3_600_000)]


def test_the_next_occurrences_to_skip_are_not_skipped_yet() -> None:
    spec = with_skipped(SPECS[0], (listed(SPECS[0])[1],))
    times = listed(SPECS[0])
    schedule = Schedule("a", ScheduleState.ACTIVE, "cron", "f", times[0], spec, START_MS, times[0], read_ms=START_MS)

    made = skip_plan(schedule, None, 2)

    assert made is not None
    assert ((times[0], times[2]), times[3]) == (made.times, made.nominal_ms)
    assert (START_MS, times[0]) == (made.from_ms, made.until_ms)


def test_an_overdue_occurrence_stays_and_is_not_among_the_next_ones() -> None:
    times = listed(SPECS[0])
    overdue = Schedule(
        "a", ScheduleState.PAUSED, "cron", "f", times[0], SPECS[0], START_MS, times[0], read_ms=times[1] + 1
    )

    made = skip_plan(overdue, None, 1)

    assert made is not None
    assert ((times[2],), times[0]) == (made.times, made.nominal_ms)
    with pytest.raises(InvalidSchedule, match="its time has come already"):
        skip_plan(overdue, times[1], 0)


def test_a_skip_names_the_due_time_of_an_occurrence_with_jitter() -> None:
    times, trigger = listed(SPECS[2]), build(SPECS[2], START_MS)
    schedule = Schedule(
        "a", ScheduleState.ACTIVE, "cron", "f", times[0], SPECS[2], START_MS, times[0], read_ms=START_MS
    )

    made = skip_plan(schedule, due_of(trigger, "a", times[1]), 0)

    assert made is not None
    assert (times[1],) == made.times


@given(st.lists(st.integers(0, 9_999_999_999_999), max_size=100, unique=True))
def test_skips_of_a_state_are_read_as_they_were_written(skipped: list[int]) -> None:
    state = ",".join(filter(None, ["failures=2", skips_text(skipped), "skips=3"]))

    assert STATE.fullmatch(state)
    assert tuple(sorted(skipped)) == skipped_in(state)
    assert all(a < b for a, b in pairwise(skipped_in(state)))
