"""Recurrence rules against dateutil, which iterates where zsched computes."""

from datetime import datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from dateutil import tz as dateutil_tz
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.breadth import examples
from tests.unit.core.triggers.oracle import local, ms
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Gap, TriggerSpec
from zsched.core.triggers.trigger import build
from zsched.errors import InvalidSchedule

NEW_YORK = "America/New_York"
WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]


def rrule(text, zone="UTC", anchor="2026-01-01", **bounds):
    expr, count = RRULE.parse(text)
    spec = TriggerSpec(RRULE, expr, zone, count=count, gap=Gap.SHIFT, **bounds)
    return build(spec, ms(anchor, zone))


def after(trigger, at_ms, n):
    found = []
    while len(found) < n and (at_ms := trigger.next_after(at_ms)) is not None:
        found.append(at_ms)
    return found


def by_dateutil(text, start, zone, horizon):
    """Return the instants of a rule by dateutil: naive, then resolved, then without repeats."""
    tz = ZoneInfo(zone)
    naive = takewhile(lambda at: at <= horizon, rrulestr(text, dtstart=start))
    instants = (int(dateutil_tz.resolve_imaginary(at.replace(tzinfo=tz)).timestamp()) * 1000 for at in naive)
    return sorted(set(instants))


def numbers(low, high, size=3):
    values = [number for number in range(low, high + 1) if number or low >= 0]
    return st.lists(st.sampled_from(values), min_size=1, max_size=size, unique=True)


@st.composite
def rules(draw):
    """Draw a rule that both sides read alike: numbered and plain weekdays are not mixed (dateutil intersects them)."""
    freq = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))
    parts = {"FREQ": freq, "INTERVAL": draw(st.sampled_from([1, 1, 1, 2, 3, 5, 13]))}
    choice = {
        "BYMONTH": numbers(1, 12),
        "BYHOUR": numbers(0, 23, 2),
        "BYMINUTE": numbers(0, 59, 2),
        "BYSECOND": numbers(0, 59, 1),
    }
    if freq != "WEEKLY":
        choice["BYMONTHDAY"] = numbers(-31, 31)
    if freq == "YEARLY":
        choice["BYYEARDAY"] = numbers(-366, 366)
    for key in draw(st.sets(st.sampled_from(sorted(choice)), max_size=2)):
        parts[key] = ",".join(map(str, draw(choice[key])))
    days = draw(st.lists(st.sampled_from(WEEKDAYS), max_size=3, unique=True))
    if days:
        if freq == "MONTHLY" or (freq == "YEARLY" and "BYMONTH" in parts):
            prefix = draw(st.sampled_from(["", "1", "-1", "2", "5"]))
        elif freq == "YEARLY":
            prefix = draw(st.sampled_from(["", "1", "-1", "20", "53"]))
            if not prefix and draw(st.booleans()):
                parts["BYWEEKNO"] = ",".join(map(str, draw(numbers(-51, 51))))
        else:
            prefix = ""
        parts["BYDAY"] = ",".join(prefix + day for day in days)
    if len(parts) > 2 and draw(st.booleans()):
        parts["BYSETPOS"] = ",".join(map(str, draw(numbers(-4, 4, 2))))
    if draw(st.booleans()):
        parts["WKST"] = draw(st.sampled_from(WEEKDAYS))
    return ";".join(f"{key}={value}" for key, value in parts.items())


@settings(max_examples=examples(150), deadline=None)
@given(
    rules(),
    st.datetimes(datetime(1995, 1, 1), datetime(2024, 12, 31)).map(lambda at: at.replace(microsecond=0)),
    st.sampled_from(["UTC", NEW_YORK, "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_a_rule_has_the_same_occurrences_as_in_dateutil(text, start, zone):
    if "WEEKLY" in text and "BYSETPOS" in text:  # dateutil's first week has no days before the start to choose from
        week_start = WEEKDAYS.index(text.partition("WKST=")[2] or "MO")
        start -= timedelta(days=(start.weekday() - week_start) % 7)
    assume(dateutil_tz.datetime_exists(start.replace(tzinfo=ZoneInfo(zone))))
    horizon = start + timedelta(days=365 * (8 if "YEARLY" in text else 2))
    starts_ms = int(start.replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000
    until_ms = int(horizon.replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000
    trigger = rrule(text, zone, starts_ms=starts_ms)

    following = trigger.next_after(until_ms)  # dateutil looks for impossible dates until the year 9999
    assume(following is not None and following < ms("2040-01-01"))
    everything = by_dateutil(text, start, zone, horizon + timedelta(days=2))
    expected = [at_ms for at_ms in everything if starts_ms <= at_ms <= until_ms]

    assert expected[:60] == [at_ms for at_ms in after(trigger, 0, 60) if at_ms <= until_ms][: len(expected[:60])]
    assert len(expected) == trigger.count_between(0, until_ms)
    assert (expected[-1] if expected else None) == trigger.last_until(until_ms)


@pytest.mark.parametrize(
    ("text", "zone", "anchor", "expected"),
    [
        ("FREQ=DAILY", "UTC", "2026-01-01T10:00", ["2026-01-02T00:00", "2026-01-03T00:00"]),
        ("FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=9", "UTC", "2026-01-01", ["2026-01-02T09:00", "2026-01-05T09:00"]),
        ("FREQ=MONTHLY;BYMONTHDAY=31", "UTC", "2026-01-31T12:00", ["2026-03-31T00:00", "2026-05-31T00:00"]),
        ("FREQ=MONTHLY;INTERVAL=2", "UTC", "2026-01-31T12:00", ["2026-03-31T00:00", "2026-05-31T00:00"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", "UTC", "2028-02-01", ["2028-02-29T00:00", "2028-03-31T00:00"]),
        ("FREQ=MONTHLY;BYDAY=-1FR", "UTC", "2026-01-01", ["2026-01-30T00:00", "2026-02-27T00:00"]),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "UTC",
            "2026-01-01",
            ["2026-01-30T00:00", "2026-02-27T00:00"],
        ),
        ("FREQ=MONTHLY;BYDAY=1MO,FR;BYHOUR=8", "UTC", "2026-01-01", ["2026-01-02T08:00", "2026-01-05T08:00"]),
        ("FREQ=YEARLY", "UTC", "2025-12-15T12:00", ["2026-12-15T00:00", "2027-12-15T00:00"]),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "UTC", "2096-03-01", ["2104-02-29T00:00", "2108-02-29T00:00"]),
        ("FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO", "UTC", "2021-01-01", ["2026-12-28T00:00", "2032-12-27T00:00"]),
        ("FREQ=YEARLY;BYWEEKNO=-53;BYDAY=MO", "UTC", "2021-01-01", ["2025-12-29T00:00", "2031-12-29T00:00"]),
        ("FREQ=WEEKLY;BYDAY=SA,SU;BYSETPOS=1;WKST=SU", "UTC", "2026-01-01", ["2026-01-04T00:00", "2026-01-11T00:00"]),
        ("FREQ=DAILY;COUNT=2", "UTC", "2026-01-01", ["2026-01-02T00:00", "2026-01-03T00:00"]),
        ("FREQ=DAILY;UNTIL=20260102T000000Z", "UTC", "2026-01-01", ["2026-01-02T00:00"]),
        ("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", NEW_YORK, "2026-03-08", ["2026-03-08T03:30", "2026-03-09T02:30"]),
        ("FREQ=DAILY;BYHOUR=2,3;BYMINUTE=30", NEW_YORK, "2026-03-08", ["2026-03-08T03:30", "2026-03-09T02:30"]),
        ("FREQ=DAILY;BYHOUR=1;BYMINUTE=30", NEW_YORK, "2026-11-01", ["2026-11-01T01:30", "2026-11-02T01:30"]),
        ("FREQ=DAILY;BYHOUR=9", "Pacific/Apia", "2011-12-29", ["2011-12-29T09:00", "2011-12-31T09:00"]),
    ],
)
def test_a_rule_fires_at_the_times_of_rfc_5545(text, zone, anchor, expected):
    trigger = rrule(text, zone, anchor)

    found = after(trigger, ms(anchor, zone), 3)

    assert expected == [local(at_ms, zone)[:16] for at_ms in islice(found, len(expected))]
    if "COUNT" in text or "UNTIL" in text:
        assert len(expected) == len(found)


def test_interval_is_counted_from_the_start_decades_back():
    trigger = rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", starts_ms=ms("1990-01-02T08:30"))
    expected = ms("1990-01-02T08:30") + 14 * 86_400_000 * 939

    assert expected == trigger.next_after(expected - 1)
    assert expected == trigger.last_until(expected)
    assert 940 == trigger.count_between(0, expected)


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("FREQ=YEARLY;INTERVAL=100;BYMONTH=2;BYMONTHDAY=29", "2000-02-29", "2400-02-29"),
        ("FREQ=MONTHLY;INTERVAL=11;BYMONTH=2;BYMONTHDAY=29;BYDAY=FR", "1980-02-29", "2464-02-29"),
    ],
)
def test_a_rule_that_matches_once_in_400_years_or_more_is_found_from_anywhere_in_between(text, first, second):
    trigger = rrule(text, starts_ms=ms(first))

    assert ms(second) == trigger.next_after(ms(first))
    assert ms(first) == trigger.last_until(ms(second) - 1)


def test_a_start_between_two_seconds_counts_from_the_next_whole_second():
    trigger = rrule("FREQ=DAILY", starts_ms=ms("2026-01-01T10:00") + 1)

    assert ms("2026-01-01T10:00:01") == trigger.next_after(0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FREQ=DAILY", ("FREQ=DAILY", None)),
        ("rrule:freq=weekly;byday=we,mo;interval=1;count=5", ("FREQ=WEEKLY;BYDAY=MO,WE", 5)),
        ("BYMONTHDAY=-1,15,15;FREQ=MONTHLY;WKST=MO", ("FREQ=MONTHLY;BYMONTHDAY=-1,15", None)),
        ("FREQ=MONTHLY;BYDAY=+1MO,-1FR,TU;BYSETPOS=2", ("FREQ=MONTHLY;BYDAY=TU,-1FR,1MO;BYSETPOS=2", None)),
        ("FREQ=DAILY;UNTIL=20301231T235959Z;INTERVAL=2;", ("FREQ=DAILY;INTERVAL=2;UNTIL=20301231T235959Z", None)),
    ],
)
def test_equal_rules_have_the_same_text(text, expected):
    assert expected == RRULE.parse(text)
    assert expected[0] == RRULE.parse(expected[0])[0]


@pytest.mark.parametrize(
    ("until", "zone", "stored"),
    [  # the whole last day, in the zone of the rule: what calendars mean
        ("20240219", "UTC", "20240219T235959Z"),
        ("20240219", "Asia/Seoul", "20240219T145959Z"),
        ("20240219", NEW_YORK, "20240220T045959Z"),
        ("20241103", NEW_YORK, "20241104T045959Z"),  # a day of 25 hours
        ("20111230", "Pacific/Apia", "20111231T095959Z"),  # a day that the zone skipped
        ("20240219T090000", "Asia/Seoul", "20240219T000000Z"),
        ("20240219t090000z", "Asia/Seoul", "20240219T090000Z"),
        ("20241103T013000", NEW_YORK, "20241103T053000Z"),  # the first pass: RFC 5545 section 3.3.5
        ("20241026", "Asia/Beirut", "20241026T215959Z"),  # the second pass: 24:00 becomes 23:00
        ("20240310T023000", NEW_YORK, "20240310T073000Z"),  # skipped: it moves as its occurrence does
        ("99991231", NEW_YORK, "99991231T235959Z"),  # for ever
        ("99991231T235959", NEW_YORK, "99991231T235959Z"),
        ("99991231", "Asia/Seoul", "99991231T145959Z"),
        ("00010101T000000", "Asia/Seoul", "00010101T000000Z"),
    ],
)
def test_an_until_is_stored_in_utc_and_a_date_is_its_whole_day_in_the_zone(until, zone, stored):
    text, _ = RRULE.parse(f"FREQ=DAILY;UNTIL={until}", tz=zone)

    assert f"FREQ=DAILY;UNTIL={stored}" == text
    assert text == RRULE.parse(text, tz=zone)[0]


@pytest.mark.parametrize("zone", ["UTC", NEW_YORK, "Asia/Seoul", "Pacific/Apia", "Pacific/Chatham"])
def test_the_occurrences_of_the_day_in_until_are_the_last_ones(zone):
    expr, _ = RRULE.parse("FREQ=DAILY;BYHOUR=0,9,23;BYMINUTE=59;BYSECOND=59;UNTIL=20240219", tz=zone)

    found = after(rrule(expr, zone, "2024-02-18"), ms("2024-02-18", zone), 9)

    days = ["2024-02-18", "2024-02-19"]
    assert [f"{day}T{hour}:59" for day in days for hour in ("00", "09", "23")] == [local(at, zone)[:16] for at in found]


ZONES = st.sampled_from(["UTC", NEW_YORK, "Asia/Seoul", "Pacific/Apia", "Pacific/Chatham", "Asia/Beirut"])
DAYS = st.datetimes(datetime(2009, 1, 1), datetime(2028, 1, 1)).map(lambda at: at.replace(microsecond=0))


@settings(max_examples=examples(100))
@given(DAYS, ZONES, st.integers(0, 23), st.integers(0, 59), st.booleans())
def test_an_until_without_z_includes_what_a_calendar_of_its_zone_includes(until, zone, hour, minute, is_date):
    start, text = until.replace(hour=0, minute=0, second=0) - timedelta(days=3), f"{until:%Y%m%dT%H%M%S}"
    rule = f"FREQ=DAILY;BYHOUR={hour};BYMINUTE={minute}"
    last = until.replace(hour=23, minute=59, second=59) if is_date else until

    offsets = {at.replace(tzinfo=ZoneInfo(zone), fold=1).utcoffset() for at in (until.replace(hour=0), last)}
    assume(len(offsets) == 1)  # beside a gap, dateutil compares local times, not instants

    expr, _ = RRULE.parse(f"{rule};UNTIL={text[:8] if is_date else text}", tz=zone)

    found = after(rrule(expr, zone, starts_ms=ms(start.isoformat(), zone)), 0, 9)
    assert by_dateutil(rule, start, zone, last) == found


def problem(text, zone):
    """Return the error of *text*; None: it is a rule, and its stored text is one."""
    try:
        expr, _ = RRULE.parse(text, tz=zone)
        RRULE.parse(expr)
    except InvalidSchedule as refusal:
        return refusal
    return None


@given(st.text(st.sampled_from("FREQ=DAILYWKUNTBMOSU;,: 0129TZ-+\t\n–é"), max_size=40), ZONES)
def test_any_text_is_a_rule_or_an_error_with_a_remedy(text, zone):
    refusals = [problem(start + text, zone) for start in ("", "FREQ=DAILY;UNTIL=", "FREQ=WEEKLY;BYDAY=")]

    assert all(each is None or (each.field == "rrule" and each.remedy) for each in refusals)
