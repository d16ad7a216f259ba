"""EXDATE and RDATE of a recurrence rule, against the rruleset of dateutil."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from dateutil import tz as dateutil_tz
from dateutil.rrule import rruleset, rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.breadth import examples
from tests.unit.core.triggers.oracle import local, ms
from zsched.core.triggers.layers import Trigger
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Gap, TriggerSpec
from zsched.core.triggers.trigger import build, check
from zsched.errors import InvalidSchedule

NEW_YORK = "America/New_York"
RULES = (
    "FREQ=DAILY",
    "FREQ=DAILY;COUNT=9",
    "FREQ=DAILY;BYHOUR=1,2,9;BYMINUTE=30",
    "FREQ=WEEKLY;BYDAY=MO,SU",
    "FREQ=DAILY;INTERVAL=3;UNTIL=20260420T093000",
    "FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=4",
)
ZONES = ("UTC", NEW_YORK, "Asia/Seoul", "Australia/Lord_Howe")
START = datetime(2026, 2, 26, 9, 30)
times = st.builds(
    lambda day, hour: START.replace(hour=0) + timedelta(days=day, hours=hour),
    st.integers(0, 60), st.sampled_from((1, 2, 9)),
)  # fmt: skip


def trigger_of(text: str, zone: str = "UTC", start: datetime = START) -> Trigger:
    expr, count = RRULE.parse(text, zone)
    starts_ms = ms(start.isoformat(), zone)
    return build(TriggerSpec(RRULE, expr, zone, count=count, gap=Gap.SHIFT, starts_ms=starts_ms), starts_ms)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from(RULES),
    st.sampled_from(ZONES),
    st.lists(st.tuples(times, st.sampled_from(("date", "local", "UTC"))), max_size=6),
    st.lists(times, max_size=4),
)
def test_a_rule_with_removed_and_added_times_has_the_occurrences_of_dateutils_rruleset(
    text: str, zone: str, removed: list[tuple[datetime, str]], added: list[datetime]
) -> None:
    place, until = ZoneInfo(zone), START + timedelta(days=70)
    known, texts = rruleset(), []
    rule = rrulestr(text, dtstart=START)
    known.rrule(rule)
    for at in added:
        known.rdate(at)
    for at, form in removed:
        if form == "date":
            texts.append(f"{at:%Y%m%d}")
            day = at.replace(hour=0, minute=0)
            for one in (*rule.between(day, day + timedelta(days=1), inc=True), *added):
                if one.date() == at.date():
                    known.exdate(one)
            continue
        known.exdate(at)
        aware = dateutil_tz.resolve_imaginary(at.replace(tzinfo=place)).astimezone(ZoneInfo("UTC"))
        texts.append(f"{at:%Y%m%dT%H%M%S}" if form == "local" else f"{aware:%Y%m%dT%H%M%SZ}")
    naive = known.between(START, until, inc=True)
    resolved = (dateutil_tz.resolve_imaginary(at.replace(tzinfo=place)) for at in naive)
    expected = sorted({int(at.timestamp()) * 1000 for at in resolved})

    parts = [text, f"EXDATE={','.join(texts)}" if texts else ""]
    parts.append(f"RDATE={','.join(f'{at:%Y%m%dT%H%M%S}' for at in added)}" if added else "")
    trigger = trigger_of(";".join(filter(None, parts)), zone)
    until_ms = ms(until.isoformat(), zone)

    assert expected == list(trigger.between(0, until_ms))
    assert len(expected) == trigger.count_between(0, until_ms)
    assert (expected[-1] if expected else None) == trigger.last_until(until_ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FREQ=DAILY;COUNT=3;EXDATE=20260227", ["02-26T09:30", "02-28T09:30"]),
        ("FREQ=DAILY;COUNT=2;RDATE=20260301", ["02-26T09:30", "02-27T09:30", "03-01T09:30"]),
        ("FREQ=DAILY;COUNT=1;RDATE=20260301T070000,20260226T093000", ["02-26T09:30", "03-01T07:00"]),
        ("FREQ=DAILY;UNTIL=20260227;RDATE=20260302;EXDATE=20260227T143000Z", ["02-26T09:30", "03-02T09:30"]),
        ("FREQ=DAILY;COUNT=1;BYHOUR=8,20;RDATE=20260228", ["02-26T20:30", "02-28T08:30", "02-28T20:30"]),
        ("FREQ=DAILY;COUNT=1;RDATE=20260301;EXDATE=20260301", ["02-26T09:30"]),
    ],
)
def test_count_and_until_are_of_the_rule_without_its_single_times(text: str, expected: list[str]) -> None:
    trigger = trigger_of(text, NEW_YORK)

    assert [f"2026-{at}" for at in expected] == [local(ms, NEW_YORK)[:16] for ms in trigger.between(0, 10**14)]


def test_single_times_are_sorted_in_the_text_and_each_is_once() -> None:
    assert ("FREQ=DAILY;EXDATE=20260102,20260103T090000Z;RDATE=20260401", 3) == RRULE.parse(
        "rrule:freq=daily;rdate=20260401;count=3;exdate=20260103T090000Z,20260102,20260102"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("FREQ=DAILY;EXDATE=tomorrow", "EXDATE=TOMORROW is neither a date nor a time"),
        ("FREQ=DAILY;RDATE=20260230", "RDATE=20260230 is not a date of the calendar"),
        ("FREQ=DAILY;EXDATE=" + ",".join(f"2026{month:02}{day:02}T{hour:02}0000" for month in range(1, 3)
         for day in range(1, 27) for hour in range(10)), "more than 500 times"),
        ("RRULE:FREQ=DAILY\nRDATE;VALUE=DATE:20260101", "write it in the rule, after a ;, as RDATE="),
    ],
)  # fmt: skip
def test_a_bad_single_time_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        RRULE.parse(text)

    assert says in str(caught.value)


def test_a_rule_whose_times_are_all_removed_is_refused() -> None:
    expr, count = RRULE.parse("FREQ=DAILY;COUNT=2;BYHOUR=9;EXDATE=20260301,20260302")

    with pytest.raises(InvalidSchedule, match="EXDATE has all times"):
        check(TriggerSpec(RRULE, expr, count=count), ms("2026-03-01"))
