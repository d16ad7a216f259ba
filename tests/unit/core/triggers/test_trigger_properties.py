"""Properties of every trigger, whatever its kind, zone and bounds."""

import json
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.breadth import examples
from tests.unit.core.triggers.oracle import ms
from zsched.core.clock import LAST_MS
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.layers import Bounded, Instants, nth_after
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Fold, Gap, TriggerSpec
from zsched.core.triggers.trigger import KINDS, build, read_spec, spec_of

GOLDEN = Path(__file__).with_name("golden.json")
DAY_MS = 86_400_000
BEGIN, END = ms("2009-01-01"), ms("2023-01-01")
CRONS = ["30 2 * * *", "*/7 * * * *", "0 0 29 2 *", "15 1,2 * * 0", "*/10 30 1 * * *", "0 12 1 * 1", "0 0 L 2 *"]
CRONS += ["* * * * * *"]
RRULES = [
    "FREQ=DAILY;BYHOUR=1,2;BYMINUTE=0,30",
    "FREQ=WEEKLY;INTERVAL=3;BYDAY=SU;BYHOUR=2;BYMINUTE=15",
    "FREQ=MONTHLY;BYDAY=MO,SU;BYHOUR=0,1;BYSETPOS=-1,3",
    "FREQ=YEARLY;INTERVAL=2;BYMONTH=3,11;BYDAY=1SU;BYHOUR=2",
    "FREQ=DAILY;INTERVAL=5;UNTIL=20200101T000000Z",
    "FREQ=DAILY;BYHOUR=0,2;EXDATE=20191103,20190310T020000,20111230,20111231T100000Z;RDATE=20190311T023000,20191103",
    "FREQ=WEEKLY;UNTIL=20190401;EXDATE=20190101T120000;RDATE=20190505T020000,20100101,20190406T120000Z",
]
ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "America/Santiago"]
instants = st.integers(BEGIN, END)
# Near midnight UTC on days when one of the zones changes, so that gaps and folds are met often.
near_changes = st.builds(
    lambda day, offset: day + offset,
    st.sampled_from(
        [ms(day) for day in ("2011-12-30", "2019-03-10", "2019-11-03", "2019-10-05", "2019-04-06", "2019-05-05")]
    ),
    st.integers(-86_400_000, 86_400_000),
)


@st.composite
def triggers(draw):
    kind = draw(st.sampled_from(KINDS))
    expr = {EVERY: st.integers(1, 10**10).map(str), CRON: st.sampled_from(CRONS), RRULE: st.sampled_from(RRULES)}[kind]
    spec = TriggerSpec(
        kind,
        draw(expr),
        draw(st.sampled_from(ZONES)),
        starts_ms=draw(st.none() | instants),
        ends_ms=draw(st.none() | instants),
        count=draw(st.none() | st.integers(1, 5000)),
        gap=draw(st.sampled_from(list(Gap))),
        fold=draw(st.sampled_from(list(Fold))),
    )
    return build(spec, draw(instants))


@settings(max_examples=examples(400), deadline=None)
@given(triggers(), instants | near_changes)
def test_the_next_occurrence_is_the_same_from_every_instant_between_two(trigger, start):
    here = start
    for _ in range(5):
        there = trigger.next_after(here)
        if there is None:
            break
        assert there > here
        assert there == trigger.last_until(there)
        assert trigger.last_until(there - 1) in (None, trigger.last_until(here))
        assert 1 == trigger.count_between(here, there)
        assert 0 == trigger.count_between(here, there - 1)
        for part in range(1, 8):
            between = here + (there - 1 - here) * part // 7
            assert there == trigger.next_after(between)
            assert trigger.last_until(here) == trigger.last_until(between)
        here = there


@settings(max_examples=examples(300), deadline=None)
@given(triggers(), instants | near_changes, instants | near_changes, instants | near_changes)
def test_counts_of_adjacent_spans_add_up(trigger, a, b, c):
    a, b, c = sorted((a, b, c))

    assert trigger.count_between(a, c) == trigger.count_between(a, b) + trigger.count_between(b, c)
    assert 0 == trigger.count_between(c, a)
    assert (trigger.last_until(c) is not None) == (trigger.count_between(0, c) > 0)
    assert (trigger.next_after(a) is None or trigger.next_after(a) > c) == (trigger.count_between(a, c) == 0)


@settings(max_examples=examples(300), deadline=None)
@given(triggers(), instants | near_changes, st.integers(0, 10**10))
def test_the_occurrences_of_a_span_are_those_of_single_steps(trigger, start, length):
    found = list(islice(trigger.between(start, start + length), 50))

    at, steps = trigger.next_after(start), []
    while at is not None and at <= start + length and len(steps) < 50:
        steps.append(at)
        at = trigger.next_after(at)
    assert steps == found


@settings(max_examples=examples(200), deadline=None)
@given(triggers(), instants | near_changes, st.integers(0, 10**11))
def test_the_nth_occurrence_equals_n_single_steps(trigger, start, later):
    steps, at_ms = [], start
    while len(steps) < 5 and (at_ms := trigger.next_after(at_ms)) is not None:
        steps.append(at_ms)

    for number, step_ms in enumerate(steps, start=1):
        assert step_ms == nth_after(trigger, start, number, step_ms)
        assert step_ms == nth_after(trigger, start, number, steps[-1] + later)


def test_the_nth_of_fewer_occurrences_is_the_end_of_the_searched_span():
    trigger = build(TriggerSpec(EVERY, "1500"), 10_000)

    assert [13_000, 14_000] == [nth_after(trigger, 10_000, number, 14_000) for number in (2, 3)]


def test_a_count_looks_only_at_the_years_up_to_its_last_occurrence():
    looked_at = []

    class Looking(Instants):
        def count_between(self, after_ms, until_ms):
            looked_at.append(until_ms)
            return super().count_between(after_ms, until_ms)

    days = range(DAY_MS, 9999 * DAY_MS, DAY_MS)
    trigger = Bounded(TriggerSpec(EVERY, str(DAY_MS)), Looking(days), 0, None, 1000)

    assert [*days[:1000]] == [*trigger.between(0, LAST_MS)]
    assert looked_at
    assert max(looked_at) < 3000 * DAY_MS


@settings(max_examples=examples(200), deadline=None)
@given(triggers())
def test_a_rule_survives_conversion_to_stored_text_and_back(trigger):
    stored = trigger.spec.to_text().encode()

    assert trigger.spec == spec_of(stored)


@pytest.mark.parametrize("foreign", [b"", b"none", b"{}", b"[]", b"7", b"\xff", b'{"kind":"lunar","expr":"1"}'])
def test_a_stored_text_of_another_writer_is_refused_each_time(foreign):
    for _ in range(2):
        with pytest.raises((ValueError, KeyError, TypeError)):
            spec_of(foreign)


@pytest.mark.parametrize("kind", KINDS)
def test_the_zone_matters_only_for_cron_and_rrule_outside_utc(kind):
    found = [TriggerSpec(kind, "5", tz).is_of_zone for tz in ("Europe/Berlin", "UTC")]

    assert [kind is not EVERY, False] == found


@settings(max_examples=examples(200), deadline=None)
@given(triggers())
def test_occurrences_stay_within_start_end_and_count(trigger):
    spec = trigger.spec
    first, last = trigger.next_after(0), trigger.last_until(END * 2)

    if first is not None:
        assert spec.starts_ms is None or first >= spec.starts_ms
        assert last >= first
        assert spec.ends_ms is None or last <= spec.ends_ms
        assert spec.count is None or "RDATE" in spec.expr or trigger.count_between(0, END * 2) <= spec.count


@pytest.mark.parametrize("expr", ["30 1 * * *", "*/30 * * * *", "30 2 * * *"])
@pytest.mark.parametrize("start", ["2026-03-08T05:00", "2026-11-01T04:00"])
def test_the_next_occurrence_is_the_same_from_every_second_of_a_gap_and_a_fold(expr, start):
    trigger = build(TriggerSpec(CRON, expr, "America/New_York"), ms("2026-01-01"))
    following = trigger.next_after(ms(start))

    for at_ms in range(ms(start), ms(start) + 4 * 3_600_000, 1000):
        found = trigger.next_after(at_ms)

        if at_ms == following:
            assert found > following
            following = found
        assert following == found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (TriggerSpec(EVERY, "1500"), [11_500, 13_000, 14_500]),
        (TriggerSpec(EVERY, "1500", starts_ms=10_100), [10_100, 11_600, 13_100]),
        (TriggerSpec(EVERY, "1500", starts_ms=9_000, count=2), [9_000, 10_500]),
        (TriggerSpec(EVERY, "1500", ends_ms=13_000), [11_500, 13_000]),
        (TriggerSpec(CRON, "* * * * *", count=2), [60_000, 120_000]),
        (TriggerSpec(CRON, "* * * * *", starts_ms=60_000, count=1), [60_000]),
        (TriggerSpec(RRULE, "FREQ=DAILY", count=1), [86_400_000]),
        (TriggerSpec(RRULE, "FREQ=DAILY", starts_ms=5_000, ends_ms=86_405_000), [5_000, 86_405_000]),
    ],
)
def test_start_end_and_count_bound_the_occurrences(spec, expected):
    trigger = build(spec, 10_000)

    found, at_ms = [], 0
    while len(found) < 3 and (at_ms := trigger.next_after(at_ms)) is not None:
        found.append(at_ms)

    assert expected == found


def test_occurrences_of_rules_agree_with_the_golden_file():
    for case in json.loads(GOLDEN.read_text()):
        trigger = build(read_spec(case["spec"]), ms(case["after"]))

        at_ms, found = ms(case["after"]), []
        for _ in case["expected"]:
            at_ms = trigger.next_after(at_ms)
            found.append(at_ms)

        assert [ms(text) for text in case["expected"]] == found, case["spec"]
