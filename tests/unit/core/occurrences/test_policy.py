"""plan(): the plan of a due recurring schedule, under each of its policies."""

from collections import Counter
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.breadth import each
from zsched.core.occurrences.outcomes import Outcome
from zsched.core.occurrences.policy import (
    ON_TIME_MS,
    USUAL,
    Passed,
    Plan,
    Policy,
    latest_due,
    passed_in,
    passed_text,
    plan,
)
from zsched.core.options.checked import CheckedOptions, letters_in, policy_text, read_policy
from zsched.core.options.choices import CatchUp, Overlap
from zsched.core.options.forms import UNREADABLE
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.layers import Trigger
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import build, due_of
from zsched.errors import TriggerError

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
DAY = 24 * HOUR
T0 = 1_767_225_600_000  # 2026-01-01T00:00Z
FIRST = T0 + MINUTE


def _every(every_ms: int = MINUTE, **bounds: int) -> TriggerSpec:
    return TriggerSpec(EVERY, str(every_ms), **bounds)


MINUTELY = TriggerSpec(CRON, "* * * * *")


def _plan(fire: int | None, next: int | None, *passed: tuple[str, int, int, int]) -> Plan:
    """Return the expected plan of a minutely rule without jitter; times in minutes after T0."""
    fire_ms, next_ms = (None if at is None else T0 + at * MINUTE for at in (fire, next))
    told = tuple(Passed(why, T0 + a * MINUTE, T0 + b * MINUTE, count) for why, a, b, count in passed)
    return Plan(fire_ms, fire_ms, told, next_ms, next_ms)


C, M, L = (outcome.word for outcome in (Outcome.COALESCED, Outcome.MISSED, Outcome.LIMIT))
LATEST, ALL, NONE = CatchUp.LATEST, CatchUp.ALL, CatchUp.NONE

TABLE = [  # the policy, how late (ms) the occurrence of 00:01 is, and the plan
    (USUAL, 0, _plan(1, 2)),
    (USUAL, 1, _plan(1, 2)),
    (USUAL, MINUTE - 1, _plan(1, 2)),
    (USUAL, MINUTE, _plan(2, 3, (C, 1, 1, 1))),
    (USUAL, 3 * MINUTE + 5, _plan(4, 5, (C, 1, 3, 3))),
    # a minutely rule is never late by its window: its latest occurrence is young
    (Policy(LATEST, catch_up_window_ms=20 * SECOND), 3 * MINUTE + 20 * SECOND, _plan(4, 5, (C, 1, 3, 3))),
    (Policy(LATEST, catch_up_window_ms=20 * SECOND), 3 * MINUTE + 20_001, _plan(None, 5, (M, 1, 4, 4))),
    (Policy(LATEST, catch_up_window_ms=0), ON_TIME_MS, _plan(1, 2)),
    (Policy(LATEST, catch_up_window_ms=0), ON_TIME_MS + 1, _plan(None, 2, (M, 1, 1, 1))),
    (Policy(NONE), 0, _plan(1, 2)),
    (Policy(NONE), ON_TIME_MS, _plan(1, 2)),
    (Policy(NONE), ON_TIME_MS + 1, _plan(None, 2, (M, 1, 1, 1))),
    (Policy(NONE), 3 * MINUTE + 2000, _plan(4, 5, (M, 1, 3, 3))),
    (Policy(NONE), 3 * MINUTE + 30 * SECOND, _plan(None, 5, (M, 1, 4, 4))),
    (Policy(ALL), 0, _plan(1, 2)),
    (Policy(ALL), 3 * MINUTE + 5, _plan(1, 2)),
    (Policy(ALL), 99 * MINUTE, _plan(1, 2)),
    (Policy(ALL), 100 * MINUTE, _plan(2, 3, (L, 1, 1, 1))),
    (Policy(ALL, catch_up_limit=1), 3 * MINUTE, _plan(4, 5, (L, 1, 3, 3))),
    (Policy(ALL, catch_up_limit=3), 9 * MINUTE, _plan(8, 9, (L, 1, 7, 7))),
    (Policy(ALL, catch_up_window_ms=2 * MINUTE), 9 * MINUTE, _plan(8, 9, (M, 1, 7, 7))),
    (Policy(ALL, catch_up_window_ms=2 * MINUTE), 9 * MINUTE + 1, _plan(9, 10, (M, 1, 8, 8))),
    (Policy(ALL, 5 * MINUTE, 2), 9 * MINUTE, _plan(9, 10, (M, 1, 4, 4), (L, 5, 8, 4))),
    (Policy(ALL, catch_up_window_ms=20 * SECOND), 3 * MINUTE + 30 * SECOND, _plan(None, 5, (M, 1, 4, 4))),
    (Policy(ALL, catch_up_window_ms=0), ON_TIME_MS, _plan(1, 2)),
]


@pytest.mark.parametrize(("row", "spec"), each(TABLE, [_every(), MINUTELY]))
def test_a_late_schedule_is_caught_up_as_its_policy_says(row: tuple[Policy, int, Plan], spec: TriggerSpec) -> None:
    policy, late_ms, expected = row

    assert expected == plan(build(spec, T0), FIRST, FIRST + late_ms, policy)


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [(LATEST, _plan(3, None, (C, 1, 2, 2))), (ALL, _plan(1, 2)), (NONE, _plan(None, None, (M, 1, 3, 3)))],
)
@pytest.mark.parametrize("bounds", [{"count": 3}, {"ends_ms": T0 + 3 * MINUTE + 5}], ids=["count", "ends"])
def test_missed_occurrences_end_with_the_rule(catch_up: CatchUp, bounds: dict[str, int], expected: Plan) -> None:
    assert expected == plan(build(_every(**bounds), T0), FIRST, T0 + 900 * MINUTE, Policy(catch_up))


PROMISED_MS = FIRST + 17  # not one of the rule's any more, by new rules of its zone


@pytest.mark.parametrize(
    ("spec", "promised_ms", "now_ms", "expected"),
    [
        (_every(count=3), T0 + 3 * MINUTE, T0 + 3 * MINUTE, _plan(3, None)),
        (_every(), FIRST, T0 - 5, _plan(1, 2)),
        (MINUTELY, PROMISED_MS, PROMISED_MS, _plan(1, 2)._replace(fire_ms=PROMISED_MS, due_ms=PROMISED_MS)),
    ],
    ids=["the last of a count", "after the clock went back", "by other rules of its zone"],
)
@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_promised_occurrence_fires_once(
    spec: TriggerSpec, promised_ms: int, now_ms: int, expected: Plan, catch_up: CatchUp
) -> None:
    assert expected == plan(build(spec, T0), promised_ms, now_ms, Policy(catch_up))


def test_a_promised_occurrence_that_is_too_old_is_missed_and_earlier_ones_stay_done() -> None:
    trigger = build(TriggerSpec(CRON, "* * * * *", jitter_ms=59 * SECOND), T0)
    promised_ms = FIRST + 57 * SECOND  # not one of the rule's any more
    before, after = FIRST, FIRST + MINUTE
    id = next(  # one that would be due later than the promised one is, followed by one that is due soon
        id
        for id in map(str, range(100_000))
        if due_of(trigger, id, before) > due_of(trigger, id, promised_ms) and due_of(trigger, id, after) < after + 1500
    )
    now_ms = due_of(trigger, id, promised_ms) + ON_TIME_MS + 1
    assert now_ms >= due_of(trigger, id, after)

    planned = plan(trigger, promised_ms, now_ms, Policy(ALL, catch_up_window_ms=0), id)

    assert (after, (Passed(M, promised_ms, promised_ms, 1),)) == (planned.fire_ms, planned.passed)


def _jittered(id: str, jitter_ms: int = HOUR - 1, spec: TriggerSpec | None = None) -> tuple[Trigger, int]:
    """Return an hourly rule, and the delay of its occurrence of 01:00."""
    trigger = build(spec or TriggerSpec(CRON, "0 * * * *", jitter_ms=jitter_ms), T0)
    return trigger, due_of(trigger, id, T0 + HOUR) - T0 - HOUR


@pytest.mark.parametrize(("id", "catch_up"), each("abcd", list(CatchUp)))
def test_the_lateness_of_an_occurrence_counts_from_its_due_time(catch_up: CatchUp, id: str) -> None:
    trigger, delay_ms = _jittered(id)
    policy = Policy(catch_up, catch_up_window_ms=10 * SECOND)
    assert delay_ms > policy.patience_ms, "its nominal time alone would be too late"

    found = [
        plan(trigger, T0 + HOUR, T0 + HOUR + delay_ms + late_ms, policy, id)
        for late_ms in (0, policy.patience_ms, policy.patience_ms + 1)
    ]

    due_ms, next_due_ms = T0 + HOUR + delay_ms, due_of(trigger, id, T0 + 2 * HOUR)
    on_time = Plan(T0 + HOUR, due_ms, (), T0 + 2 * HOUR, next_due_ms)
    missed = Plan(None, None, (Passed(M, T0 + HOUR, T0 + HOUR, 1),), T0 + 2 * HOUR, next_due_ms)
    assert [on_time, on_time, missed] == found


@pytest.mark.parametrize(("late_ms", "first_ms"), [(0, T0 + 2 * HOUR), (1, T0 + 3 * HOUR)])
def test_the_catch_up_window_counts_from_the_due_time(late_ms: int, first_ms: int) -> None:
    trigger, _ = _jittered("a")
    due_ms = due_of(trigger, "a", T0 + 2 * HOUR)
    assert due_ms > T0 + 2 * HOUR, "by its nominal time alone it would be too old"

    planned = plan(trigger, T0 + HOUR, due_ms + 9 * HOUR + late_ms, Policy(ALL, 9 * HOUR), "a")

    missed = Passed(M, T0 + HOUR, first_ms - HOUR, first_ms // HOUR - T0 // HOUR - 1)
    assert (first_ms, (missed,)) == (planned.fire_ms, planned.passed)


@pytest.mark.parametrize(
    ("past_ms", "expected"),
    [(-1, T0 + HOUR), (0, T0 + 2 * HOUR), (HOUR + MINUTE, T0 + 3 * HOUR), (-2 * HOUR, T0 + HOUR)],
)
def test_the_latest_due_occurrence_is_the_last_whose_jitter_has_passed(past_ms: int, expected: int) -> None:
    trigger, _ = _jittered("a", MINUTE)

    assert expected == latest_due(trigger, T0 + HOUR, due_of(trigger, "a", T0 + 2 * HOUR) + past_ms, "a")


@pytest.mark.parametrize("catch_up", CatchUp)
def test_an_occurrence_whose_jitter_has_not_passed_is_not_due(catch_up: CatchUp) -> None:
    trigger, _ = _jittered("a")
    next_due_ms = due_of(trigger, "a", T0 + 2 * HOUR)
    assert next_due_ms > T0 + 2 * HOUR

    planned = plan(trigger, T0 + HOUR, next_due_ms - 1, Policy(catch_up), "a")

    assert (T0 + 2 * HOUR, next_due_ms) == (planned.next_ms, planned.next_due_ms)


RULES = [
    _every(7001), _every(1), MINUTELY, TriggerSpec(CRON, "*/7 3 * * 1-5", "America/New_York"),
    TriggerSpec(RRULE, "FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=9", "Europe/London"), _every(500, count=9),
    _every(HOUR, ends_ms=T0 + 40 * DAY), TriggerSpec(CRON, "30 * * * *", jitter_ms=HOUR),
    _every(10 * MINUTE, jitter_ms=5 * MINUTE), _every(DAY, count=20, jitter_ms=DAY),
]  # fmt: skip

policies = st.builds(
    Policy,
    catch_up=st.sampled_from(CatchUp),
    catch_up_window_ms=st.sampled_from([0, 7000, MINUTE, HOUR, DAY, 40 * DAY]),
    catch_up_limit=st.integers(1, 12),
)


@given(st.sampled_from(RULES), policies, st.integers(0, 30), st.integers(0, 90 * DAY))
def test_every_occurrence_has_exactly_one_outcome(spec: TriggerSpec, policy: Policy, skip: int, late_ms: int) -> None:
    trigger = build(spec, T0)
    nominal_ms = trigger.next_after(T0 + skip * DAY)
    if nominal_ms is None:
        return
    first_ms, now_ms = nominal_ms, due_of(trigger, "a", nominal_ms) + late_ms
    fired: list[int] = []
    outcomes: Counter[str] = Counter()
    last_ms = nominal_ms - 1  # of what has an outcome

    due_ms: int | None = now_ms
    while nominal_ms is not None and due_ms is not None and due_ms <= now_ms:
        planned = plan(trigger, nominal_ms, now_ms, policy, "a")
        for one in planned.passed:
            assert trigger.next_after(last_ms) == one.first_ms <= one.last_ms
            assert one.number == trigger.count_between(one.first_ms - 1, one.last_ms)
            outcomes[one.why] += one.number
            last_ms = one.last_ms
        if planned.fire_ms is not None:
            assert trigger.next_after(last_ms) == planned.fire_ms
            assert due_of(trigger, "a", planned.fire_ms) == planned.due_ms
            assert now_ms - policy.patience_ms <= (planned.due_ms or 0) <= now_ms, "not early, and not too old"
            fired.append(planned.fire_ms)
            last_ms = planned.fire_ms
        assert planned.fire_ms is not None or planned.passed
        assert trigger.next_after(last_ms) == planned.next_ms
        nominal_ms, due_ms = planned.next_ms, planned.next_due_ms

    assert sorted(set(fired)) == fired
    assert len(fired) <= (policy.catch_up_limit if policy.catch_up is ALL else 1)
    assert trigger.count_between(first_ms - 1, last_ms) == len(fired) + sum(outcomes.values())
    allowed = {LATEST: {C, M}, ALL: {M, L}, NONE: {M}}[policy.catch_up]
    assert {why for why, count in outcomes.items() if count} <= allowed


def counted(inner: Trigger) -> Mock:
    """Return *inner* as a trigger that counts its calls."""
    trigger = Mock(wraps=inner)
    trigger.spec = inner.spec
    return trigger


@pytest.mark.parametrize(
    ("policy", "most"),
    [(USUAL, 10), (Policy(NONE), 10), (Policy(ALL), 60), (Policy(ALL, 400 * DAY, 1000), 60), (Policy(ALL, DAY, 1), 60)],
)
@pytest.mark.parametrize("jitter_ms", [0, SECOND])
def test_catching_up_a_year_of_seconds_asks_the_trigger_few_times(policy: Policy, most: int, jitter_ms: int) -> None:
    trigger, year = counted(build(_every(SECOND, jitter_ms=jitter_ms), T0)), 365 * DAY

    planned = plan(trigger, T0 + SECOND, T0 + year, policy, "a")

    seconds = sum(one.number for one in planned.passed)
    fire_ms = (planned.next_ms or 0) - SECOND
    assert (fire_ms - T0) // SECOND == seconds + (planned.fire_ms is not None)
    assert seconds >= year // SECOND - 1001
    assert len(trigger.method_calls) <= most


def test_catching_up_centuries_asks_the_trigger_at_most_ten_times() -> None:
    trigger = counted(build(_every(1), T0))

    planned = plan(trigger, T0 + 1, T0 + 300 * 365 * DAY)

    [passed] = planned.passed
    assert passed.number == (planned.fire_ms or 0) - passed.first_ms
    assert len(trigger.method_calls) <= 10


BACKWARDS: Any = SimpleNamespace(spec=_every(), next_after=lambda ms: ms - 1, last_until=lambda ms: ms)


@pytest.mark.parametrize("catch_up", [LATEST, NONE])
def test_a_trigger_that_goes_back_is_an_error(catch_up: CatchUp) -> None:
    with pytest.raises(TriggerError, match="went back"):
        plan(BACKWARDS, T0, T0, Policy(catch_up))


@given(
    st.builds(
        Policy, st.sampled_from(CatchUp), st.integers(0, 2**41), st.integers(1, 10_000), st.sampled_from(Overlap),
        st.integers(1, 1000),
    )
)  # fmt: skip
def test_policies_survive_conversion_to_text_and_back(policy: Policy) -> None:
    assert policy == read_policy(policy_text(CheckedOptions(policy=policy)))


def test_the_text_of_policies_is_canonical_begins_with_the_flags_and_omits_defaults() -> None:
    assert "" == policy_text(CheckedOptions())
    assert "f" == policy_text(CheckedOptions(at_front=True))
    both = policy_text(CheckedOptions(at_front=True, policy=Policy(overlap=Overlap.QUEUE)))
    assert ("f", Policy(overlap=Overlap.QUEUE)) == (letters_in(both), read_policy(both))
    text = '{"catch_up":"all","overlap":"queue","overlap_limit":"7"}'
    assert text == policy_text(CheckedOptions(policy=Policy(ALL, overlap=Overlap.QUEUE, overlap_limit=7)))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "7",
        "x",
        'fx{"overlap":"queue"}',
        '{"catch_up":"some"}',
        '{"overlap":1}',
        '{"colour":"red"}',
        '{"overlap_limit":0}',
    ],
)
def test_a_policy_text_that_zsched_did_not_write_is_refused(text: str) -> None:
    with pytest.raises(UNREADABLE):
        read_policy(text)


def test_a_note_of_excluded_occurrences_is_read_as_it_was_written() -> None:
    notes = "calendar kr: 추석, 100%: 25% off", "Sat,Sun; 22:00-07:00", "%20", ""
    passed = tuple(Passed("excluded", 1, 2, 3, note) for note in notes)

    assert " " not in passed_text(passed)
    assert passed == passed_in(passed_text(passed))
