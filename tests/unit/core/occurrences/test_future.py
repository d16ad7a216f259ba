"""The future of many schedules, in order and counted by spans; compared with the planner, walked step by step."""

import heapq
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.rows.forecast import mixture
from tests.breadth import examples
from tests.builders import schedules
from tests.builders.records import DUE_MS
from zsched.core.model import Schedule
from zsched.core.occurrences import future
from zsched.core.occurrences.future import Future, SpanCounts, Spans, Walk
from zsched.core.occurrences.policy import Policy, plan
from zsched.core.options.choices import CatchUp, Overlap, ScheduleState
from zsched.core.triggers.calendar_definition import Calendar
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.layers import NeverOpen
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Calendars, Fold, Gap, OnExcluded, TriggerSpec
from zsched.core.triggers.trigger import build, due_of
from zsched.errors import InvalidSchedule

NOW_MS = 1_772_323_200_000  # 2026-03-01T00:00Z: the zones change within the 90 days
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
END_MS = NOW_MS + 90 * DAY_MS
MOST = 2000  # occurrences that are compared
ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe", "Europe/Berlin", "Africa/Casablanca", "America/Santiago"]
RULES = [
    *(
        (CRON, expr)
        for expr in ("30 2 * * *", "*/37 * * * *", "15 1,2 * * 0", "0 9 * * 1-5", "0 12 1 * 1", "59 23 L * *")
    ),
    *((EVERY, expr) for expr in ("3600000", "5400001", "86400000")),
    (RRULE, "FREQ=DAILY;BYHOUR=1,2;BYMINUTE=0,30"),
    (RRULE, "FREQ=MONTHLY;BYDAY=MO,SU;BYHOUR=0,1;BYSETPOS=-1,3"),
]
EXCLUDED = [(), ("Sat,Sun",), ("22:00-07:00", "12-25"), ("kr",), ("2026-04-01..2026-05-09", "01:15-02:15")]
CALENDARS = Calendars(kr=Calendar.of("kr", {"dates": ["2026-03-29 A", "2026-04-05..2026-04-20 B"], "windows": ["Wed"]}))
JITTERS = [0, 1, 60_000, HOUR_MS, 2 * DAY_MS]


def recurring(id: str, spec: TriggerSpec, after_ms: int = NOW_MS, **options: object) -> Schedule | None:
    trigger, nominal_ms = build(spec, NOW_MS - HOUR_MS), None
    with suppress(NeverOpen):
        nominal_ms = trigger.next_after(after_ms)
    if nominal_ms is None:
        return None
    times = {"next_ms": due_of(trigger, id, nominal_ms), "nominal_ms": nominal_ms, "anchor_ms": NOW_MS - HOUR_MS}
    return schedules.schedule(id, trigger=spec, tz=spec.tz, **(times | options))


@st.composite
def many(draw: st.DrawFn) -> list[Schedule]:
    found = []
    for number in range(draw(st.integers(1, 6))):
        kind, expr = draw(st.sampled_from(RULES))
        spec = TriggerSpec(
            kind,
            expr,
            draw(st.sampled_from(ZONES)),
            count=draw(st.none() | st.integers(1, 50)),
            ends_ms=draw(st.none() | st.integers(NOW_MS, END_MS + DAY_MS)),
            gap=draw(st.sampled_from(list(Gap))),
            fold=draw(st.sampled_from(list(Fold))),
            jitter_ms=draw(st.sampled_from(JITTERS)),
            exclude=draw(st.sampled_from(EXCLUDED)),
            on_excluded=draw(st.sampled_from(OnExcluded)),
            calendars=CALENDARS,
        )
        two = (recurring(id, spec) for id in (f"s{number}", f"t{number}"))
        found.extend(one for one in two if one is not None)
    return found


def planned(given: list[Schedule]) -> list[tuple[int, str, int]]:
    """Walk the planner as the daemon does: at each due time it decides, and computes the next one."""
    waiting = [(one.next_ms, one.id, one.nominal_ms, one) for one in given]
    heapq.heapify(waiting)
    found = []
    while waiting and len(found) < MOST:
        due_ms, id, nominal_ms, one = heapq.heappop(waiting)
        if due_ms >= END_MS:
            break
        decided = plan(build(one.trigger, one.anchor_ms), nominal_ms, due_ms, one.policy, id)
        assert (nominal_ms, due_ms) == decided[:2]
        assert {one.why for one in decided.passed} <= {"excluded"}
        found.append((due_ms, id, nominal_ms))
        if decided.next_ms is not None:
            heapq.heappush(waiting, (decided.next_due_ms, id, decided.next_ms, one))
    return found


def times(found: Future, most: int | None = MOST) -> list[tuple[int, str, int]]:
    return [one[:3] for one in islice(found.occurrences(), most)]


@settings(max_examples=examples(300), deadline=None)
@given(many())
def test_the_future_of_90_days_equals_the_planners_decisions_one_by_one(given: list[Schedule]) -> None:
    assert planned(given) == times(Future(given, NOW_MS, NOW_MS, END_MS))


@settings(max_examples=examples(200), deadline=None)
@given(many(), st.integers(NOW_MS, END_MS - 1), st.integers(1, 5 * DAY_MS), st.sampled_from([60_000, 977_777, DAY_MS]))
def test_counts_of_any_span_equal_its_occurrences_one_by_one(
    given: list[Schedule], start_ms: int, length_ms: int, step_ms: int
) -> None:
    spans = Spans.of(start_ms, start_ms + length_ms, step_ms)
    found = Future(given, NOW_MS, start_ms, spans.bounds[-1])

    each, later = SpanCounts(spans), SpanCounts(spans)
    for due_ms, id, nominal_ms, one in found.occurrences():
        each.add(id, (due_ms - start_ms) // step_ms)
        if nominal_ms != one.nominal_ms:
            later.add(id, (due_ms - start_ms) // step_ms)

    assert [one for one in times(Future(given, NOW_MS, NOW_MS, END_MS + 6 * DAY_MS), None) if start_ms <= one[0]][
        : sum(each.totals())
    ] == times(found, None)
    assert each.rows == {id: row for id, row in found.counts(spans, lambda one: one.id).rows.items() if any(row)}
    alone = found.counts(spans, lambda one: one.id, has_next=False).rows
    assert later.rows == {id: row for id, row in alone.items() if any(row)}


@pytest.mark.parametrize(("expr", "per_hour"), [("1000", 3600), ("1", 3_600_000)])
def test_a_dense_rule_is_counted_for_a_year_and_never_expanded(expr: str, per_hour: int) -> None:
    one = recurring("dense", TriggerSpec(EVERY, expr))
    spans = Spans.of(NOW_MS, NOW_MS + 365 * DAY_MS, HOUR_MS)

    counts = Future([one] * 1000, NOW_MS, NOW_MS, spans.bounds[-1]).counts(spans).totals()

    assert {per_hour * 1000} == set(counts[1:])


def test_a_dense_calendar_rule_is_counted_exactly_across_a_change_of_its_zone() -> None:
    one = recurring("dense", TriggerSpec(CRON, "* * 2 * * *", "America/New_York", gap=Gap.SKIP))
    spans = Spans.of(NOW_MS, NOW_MS + 14 * DAY_MS, DAY_MS)

    found = Future([one], NOW_MS, NOW_MS, spans.bounds[-1]).counts(spans)

    assert [3600] * 7 + [0] + [3600] * 6 == found.totals()  # 8 March has no hour of 2
    assert 0 == found.moved_ms


def test_counts_say_how_far_jitter_may_move_an_occurrence_that_was_not_expanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = TriggerSpec(CRON, "*/10 * * * *", jitter_ms=60_000)
    given = [one for n in range(20) if (one := recurring(f"s{n}", spec)) is not None]
    spans = Spans.of(NOW_MS, NOW_MS + DAY_MS, 300_000)
    future_of = Future(given, NOW_MS, NOW_MS, spans.bounds[-1])
    exact = future_of.counts(spans)
    monkeypatch.setattr(future, "_MOST_DELAYED", 100)

    counted = future_of.counts(spans)

    assert (0, 60_000) == (exact.moved_ms, counted.moved_ms)
    assert abs(sum(exact.totals()) - sum(counted.totals())) <= len(given)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(), [2]),
        (Policy(catch_up=CatchUp.NONE), []),
        (Policy(catch_up=CatchUp.ALL, overlap=Overlap.ALLOW), [0, 1, 2]),
        (Policy(catch_up=CatchUp.ALL, overlap=Overlap.ALLOW, catch_up_limit=2), [1, 2]),
    ],
    ids=["latest", "none", "all", "all, at most two"],
)
def test_overdue_occurrences_fire_now_by_their_catch_up_policy(policy: Policy, expected: list[int]) -> None:
    began_ms = NOW_MS - 2 * HOUR_MS - 60_000
    one = recurring("late", TriggerSpec(EVERY, str(HOUR_MS), starts_ms=began_ms), began_ms - 1, policy=policy)

    found = times(Future([one], NOW_MS, NOW_MS, NOW_MS + HOUR_MS))

    caught_up = [(NOW_MS, "late", began_ms + n * HOUR_MS) for n in expected]
    assert [*caught_up, (NOW_MS + HOUR_MS - 60_000, "late", NOW_MS + HOUR_MS - 60_000)] == found


def test_due_times_around_a_skipped_occurrence_are_those_of_the_planner() -> None:
    skipped = (NOW_MS + 2 * HOUR_MS, NOW_MS + 3 * HOUR_MS)
    spec = TriggerSpec(EVERY, str(HOUR_MS), jitter_ms=HOUR_MS, skipped=skipped)
    trigger = build(spec, NOW_MS)

    found = list(Walk(trigger, NOW_MS, NOW_MS + 5 * HOUR_MS).dues("a"))

    hours = [NOW_MS + hour * HOUR_MS for hour in (1, 4, 5)]
    assert [(at_ms, due_of(trigger, "a", at_ms)) for at_ms in hours] == found


def test_a_one_shot_fires_at_its_due_time_or_now_unless_it_expired() -> None:
    waits = schedules.schedule("waits", next_ms=NOW_MS + 5)
    late = schedules.schedule("late", next_ms=NOW_MS - 5)
    expired = replace(late, id="expired", expires_ms=4)

    found = times(Future([waits, late, expired], NOW_MS, NOW_MS, NOW_MS + HOUR_MS))

    assert [(NOW_MS, "late", NOW_MS - 5), (NOW_MS + 5, "waits", NOW_MS + 5)] == found


def test_schedules_that_do_not_fire_are_counted_by_their_reason() -> None:
    spec = TriggerSpec(CRON, "0 9 * * *")
    given = [
        replace(schedules.schedule("p"), state=ScheduleState.PAUSED),
        replace(schedules.schedule("q"), state=ScheduleState.QUARANTINED),
        schedules.schedule("broken", kind="cron", trigger=None),
        schedules.schedule("elsewhere", trigger=replace(spec, tz="Mars/Olympus"), nominal_ms=DUE_MS),
    ]

    found = Future(given, NOW_MS, NOW_MS, DUE_MS + DAY_MS)

    assert [] == times(found)
    assert {"paused": 1, "quarantined": 1, "unreadable": 2} == found.left_out


def test_the_committed_mixture_has_its_number_of_rules_and_counts_as_its_occurrences() -> None:
    given = mixture(400, 60)
    begin_ms = min(one.next_ms or 0 for one in given) // HOUR_MS * HOUR_MS
    spans = Spans.of(begin_ms, begin_ms + 2 * DAY_MS, HOUR_MS)
    found = Future(given, begin_ms, begin_ms, spans.bounds[-1])

    counts = found.counts(spans, lambda one: one.queue)

    assert 60 == len({one.trigger for one in given})
    assert sum(counts.totals()) == len(times(found, None))


def test_too_many_spans_are_refused_with_the_least_bucket() -> None:
    with pytest.raises(InvalidSchedule, match=r"give 60\.0 seconds or more"):
        Spans.of(0, 600_000_000, 1000)
