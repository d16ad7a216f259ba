"""Cron against a walk of the clock by Debian's rule, and tables of cases that people ask about."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from dateutil import tz as dateutil_tz

from tests.breadth import pairs, some
from tests.unit.core.triggers.oracle import HOUR, ZONES, Crontab, local, ms, wall, windows
from zsched.core.triggers import projection
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.layers import Trigger
from zsched.core.triggers.spec import Fold, Gap, TriggerSpec
from zsched.core.triggers.trigger import build

NEW_YORK = "America/New_York"
LINES = ["30 2 * * *", "30 1 * * *", "0,15,45 0-3 * * *", "0 3 * * *", "0 0 * * *", "59 23 30 12 *", "20 1 1-7 * 0"]
LINES += ["10 2 */2 * 0", "*/30 * * * *", "15 */2 * * *", "* 1 * * *", "0 * * * 0"]


def cron(expr: str, zone: str, gap: Gap = Gap.FIRST_VALID, fold: Fold = Fold.FIRST) -> Trigger:
    return build(TriggerSpec(CRON, expr, zone, gap=gap, fold=fold), ms("1999-01-01"))


def occurrences(trigger: Trigger, after_ms: int, until_ms: int) -> list[int]:
    found = []
    at_ms = trigger.next_after(after_ms)
    while at_ms is not None and at_ms <= until_ms:
        found.append(at_ms)
        at_ms = trigger.next_after(at_ms)
    return found


def locals_after(trigger: Trigger, after_ms: int, zone: str) -> list[str]:
    found = []
    for _ in range(4):
        after_ms = trigger.next_after(after_ms) or 0
        found.append(local(after_ms, zone))
    return found


@pytest.mark.parametrize("zone", some(ZONES, "America/New_York", "Australia/Lord_Howe"))
def test_cron_runs_at_the_times_of_debians_cron_around_every_change_from_2000_to_2037(zone):
    triggers = [(Crontab(line), cron(line, zone)) for line in LINES]
    tz = ZoneInfo(zone)

    for start_s, end_s in windows(zone, 2000, 2037, 3 * HOUR):
        walls = [(at_s, wall(at_s, tz)) for at_s in range(start_s, end_s, 60)]
        for crontab, trigger in triggers:
            expected = [at_s * 1000 for at_s in crontab.walk(walls)]

            assert expected == occurrences(trigger, start_s * 1000 - 1, end_s * 1000 - 1)
            assert len(expected) == trigger.count_between(start_s * 1000 - 1, end_s * 1000 - 1)
            if expected:
                assert expected[-1] == trigger.last_until(end_s * 1000 - 1)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shorten the blocks of found pieces to half an hour, so that a repeated hour spans several blocks."""
    projection._pieces.cache_clear()
    monkeypatch.setattr(projection, "_BLOCK_S", 1800)
    yield
    projection._pieces.cache_clear()


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize(("fold", "expected"), [(Fold.FIRST, ["00:15"]), (Fold.SECOND, ["01:15"])])
def test_a_repeated_hour_that_spans_several_blocks_fires_once(fold: Fold, expected: list[str]) -> None:
    trigger = cron("15 1 * * *", "Europe/London", fold=fold)

    found = occurrences(trigger, ms("2026-10-24T23:00"), ms("2026-10-25T04:00"))

    assert expected == [datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M") for at_ms in found]


@pytest.mark.parametrize(
    ("line", "zone", "gap", "fold"),
    pairs(
        ["30 2 * * *", "15,45 1,2 * * *", "30 0 * * *"],
        ["America/New_York", "Australia/Lord_Howe", "America/Santiago"],
        [Gap.SHIFT, Gap.SKIP],
        list(Fold),
    ),
)
def test_gap_and_fold_choices_agree_with_dateutil(line, zone, gap, fold):
    crontab, tz = Crontab(line), ZoneInfo(zone)
    trigger = cron(line, zone, gap, fold)

    for start_s, end_s in windows(zone, 2014, 2018, 24 * HOUR):
        expected = set()
        for at_s in range(start_s - 26 * HOUR, end_s + 26 * HOUR, 60):
            naive = wall(at_s, ZoneInfo("UTC"))  # every minute that a calendar has, whether the zone has it or not
            if not crontab.matches(naive):
                continue
            aware = naive.replace(tzinfo=tz)
            if not dateutil_tz.datetime_exists(aware):
                passes = [dateutil_tz.resolve_imaginary(aware)] if gap is Gap.SHIFT else []
            elif dateutil_tz.datetime_ambiguous(aware):
                both = [dateutil_tz.enfold(aware, fold=n) for n in (0, 1)]
                passes = {Fold.FIRST: both[:1], Fold.SECOND: both[1:], Fold.BOTH: both}[fold]
            else:
                passes = [aware]
            expected.update(int(at.timestamp()) for at in passes)

        inside = [at_s * 1000 for at_s in sorted(expected) if start_s < at_s <= end_s]
        assert inside == occurrences(trigger, start_s * 1000, end_s * 1000)


@pytest.mark.parametrize(
    ("expr", "zone", "after", "expected"),
    [
        (
            "30 2 * * *",
            NEW_YORK,
            "2026-03-07",
            ["03-07T02:30:00-05:00", "03-08T03:00:00-04:00", "03-09T02:30:00-04:00"],
        ),
        ("0,30 2,3 * * *", NEW_YORK, "2026-03-08", ["03-08T03:00:00-04:00", "03-08T03:30:00-04:00"]),
        ("30 1 * * *", NEW_YORK, "2026-10-31T12:00", ["11-01T01:30:00-04:00", "11-02T01:30:00-05:00"]),
        (
            "*/30 * * * *",
            NEW_YORK,
            "2026-11-01T00:59",
            ["11-01T01:00:00-04:00", "11-01T01:30:00-04:00", "11-01T01:00:00-05:00", "11-01T01:30:00-05:00"],
        ),
        ("15 */2 * * *", NEW_YORK, "2026-03-08T00:10", ["03-08T00:15:00-05:00", "03-08T04:15:00-04:00"]),
        ("0 9 30 12 *", "Pacific/Apia", "2011-12-01", ["12-31T00:00:00+14:00"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2024-10-05T12:00", ["10-06T02:30:00+11:00", "10-07T02:15:00+11:00"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2024-04-06T12:00", ["04-07T01:45:00+11:00", "04-08T01:45:00+10:30"]),
        ("0 0 29 2 *", "UTC", "2096-03-01", ["02-29T00:00:00+00:00"]),
        ("0 0 L * *", "UTC", "2024-02-01", ["02-29T00:00:00+00:00", "03-31T00:00:00+00:00"]),
        ("0 0 * * L5", "UTC", "2026-01-01", ["01-30T00:00:00+00:00", "02-27T00:00:00+00:00"]),
        ("0 0 * * FRI#2", "UTC", "2026-01-01", ["01-09T00:00:00+00:00", "02-13T00:00:00+00:00"]),
        ("0 0 * * 7", "UTC", "2026-01-01", ["01-04T00:00:00+00:00", "01-11T00:00:00+00:00"]),
        ("0 0 13 * 5", "UTC", "2026-01-09T12:00", ["01-13T00:00:00+00:00", "01-16T00:00:00+00:00"]),
        ("0 0 */13 * 5", "UTC", "2026-01-01", ["02-27T00:00:00+00:00", "03-27T00:00:00+00:00"]),
        ("0 0 ? * MON", "UTC", "2026-01-01", ["01-05T00:00:00+00:00", "01-12T00:00:00+00:00"]),
        ("0 22-1 * * *", "UTC", "2026-01-01T00:30", ["01-01T01:00:00+00:00", "01-01T22:00:00+00:00"]),
        ("59/15 * * * *", "UTC", "2026-01-01", ["01-01T00:59:00+00:00", "01-01T01:59:00+00:00"]),
        ("*/20 0 9 * * *", "UTC", "2026-01-01", ["01-01T09:00:00+00:00", "01-01T09:00:20+00:00"]),
        ("0 0 0 1 1 *", "UTC", "2026-01-01", ["01-01T00:00:00+00:00"]),
        ("@hourly", "Asia/Kathmandu", "2026-01-01T00:30", ["01-01T01:00:00+05:45", "01-01T02:00:00+05:45"]),
        ("@weekly", "UTC", "2026-01-01", ["01-04T00:00:00+00:00", "01-11T00:00:00+00:00"]),
    ],
)
def test_a_cron_rule_fires_at_the_times_of_the_manual(expr, zone, after, expected):
    found = locals_after(cron(expr, zone), ms(after, zone), zone)

    assert expected == [text[5:] for text in islice(found, len(expected))]


@pytest.mark.parametrize("number", range(8))  # of cron: Sunday is 0, and 7
@pytest.mark.parametrize("n", range(1, 6))
def test_a_numbered_weekday_fires_only_in_months_that_have_that_day(number: int, n: int) -> None:
    trigger = cron(f"0 0 * * {number}#{n}", "UTC")
    days = [date(2026, 1, 1) + timedelta(days=day) for day in range(3 * 365)]
    expected = [day for day in days if day.isoweekday() % 7 == number % 7 and (day.day + 6) // 7 == n]

    found = occurrences(trigger, ms("2025-12-31"), ms(days[-1].isoformat()))

    assert expected == [datetime.fromtimestamp(at_ms / 1000, UTC).date() for at_ms in found]


def test_gap_and_fold_choices_do_not_apply_to_wildcard_jobs_which_no_star_of_a_seconds_field_makes():
    short = ms("2026-03-08", NEW_YORK), ms("2026-03-09", NEW_YORK)
    long = ms("2026-11-01", NEW_YORK), ms("2026-11-02", NEW_YORK)

    for gap in Gap:
        for fold in Fold:
            trigger = cron("30 * * * *", NEW_YORK, gap, fold)
            assert (23, 25) == (trigger.count_between(*short), trigger.count_between(*long))
    assert 60 == cron("* 30 1 * * *", NEW_YORK).count_between(*long)


@pytest.mark.parametrize(("gap", "expected"), [(Gap.FIRST_VALID, 1), (Gap.SHIFT, 3600), (Gap.SKIP, 0)])
def test_an_hour_of_seconds_in_a_gap_becomes_an_instant_or_an_hour_or_nothing(gap, expected):
    trigger = cron("* 0-59 2 * * *", NEW_YORK, gap)
    span = ms("2026-03-08", NEW_YORK), ms("2026-03-08T12:00", NEW_YORK)

    assert expected == trigger.count_between(*span) == len(occurrences(trigger, *span))


def test_a_year_of_every_second_is_counted():
    trigger = cron("* * * * * *", NEW_YORK)

    assert 365 * 86_400 == trigger.count_between(ms("2025-06-01"), ms("2026-06-01"))


def test_a_leap_day_is_found_across_1900_and_2100():
    assert ms("2104-02-29") == cron("0 0 29 2 *", "UTC").next_after(ms("2096-03-01"))
    assert ms("2096-02-29") == cron("0 0 29 2 *", "UTC").last_until(ms("2104-02-28"))


def test_a_trigger_ends_before_the_year_10000_and_does_not_overflow():
    for zone in ZONES:
        trigger = cron("0 0 * * *", zone)

        assert trigger.next_after(ms("9999-12-31T12:00")) is None
        assert trigger.next_after(10**17) is None
        assert trigger.last_until(10**17) is not None
        assert 0 == trigger.count_between(10**17, 10**18)


def test_a_time_in_the_year_1_is_found_from_both_sides() -> None:
    trigger = build(TriggerSpec(CRON, "0 0 5 1 *", starts_ms=ms("0001-01-03")), 0)

    assert ms("0001-01-05") == trigger.next_after(ms("0001-01-04")) == trigger.last_until(ms("0001-01-06"))
