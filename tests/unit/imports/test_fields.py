"""Cron strings of crontab(5) and of RQ: accepted texts, their meaning, the times of their fires; scores of RQ."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st
from rq.cron import CronJob

from tests.unit.imports.debian import BOUNDS, MACROS, Line
from zsched.core.clock import from_ms, to_ms
from zsched.core.options.define import define_trigger
from zsched.core.triggers.cron import ALIASES
from zsched.core.triggers.trigger import build
from zsched.imports.crontab import cron_of_fields
from zsched.imports.rqcron import _item, cron_of_croniter
from zsched.imports.rqjobs import not_before, score_of
from zsched.storage.rqversion import IS_CRON_LOCAL

TIMES = [
    *MACROS, "17 * * * *", "25 6 * * *", "47 6 * * 7", "52 6 1 * *", "5-55/10 * * * *", "09,39 * * * *",
    "30 7-23 * * *", "18 */3 * * *", "0 */12 * * *", "30 2 * * *", "0,30 2 * * *", "30 1 * * sun",
    "30 1,2,3 * * SAT-7", "15 2 */2 * mon-fri", "15 2 1-7 * 1", "0 2 13 mar,Oct,nov 0-7", "59-59 23 * * 0",
    "0-3/10 1 * * *", "*/59 */23 * * *", "*/1 1 */1 * 1", "*,5 2 5,* * 2",
]  # fmt: skip

WINDOWS = [  # days with a change of the zone, and the turn of a year
    ("Europe/Berlin", "2026-03-28T12:00", 1),
    ("Europe/Berlin", "2026-10-24T12:00", 1),
    ("America/New_York", "2027-03-13T12:00", 1),
    ("America/New_York", "2027-11-06T12:00", 1),
    ("Australia/Lord_Howe", "2026-04-04T12:00", 1),
    ("Australia/Lord_Howe", "2026-10-03T12:00", 1),
    ("UTC", "2027-12-29T00:00", 5),
]
NEW_YEAR = ("UTC", "2026-12-31T23:59")
# What entry.c and the loop of cron.c (Debian's cron 3.0pl1-162), run minute by minute without sleeping, made of these
# lines: the first times after an instant, all in UTC.
BY_CRON = [
    ("30 1 * * *", "Europe/London", "2027-03-27T23:00", "2027-03-28T01:00"),
    ("30 1 * * *", "Europe/London", "2027-10-30T23:00", "2027-10-31T00:30"),
    ("0,30 1-2 * * *", "Europe/London", "2027-03-27T23:00", "2027-03-28T01:00 01:30"),
    ("0,30 1-2 * * *", "Europe/London", "2027-10-30T23:00", "2027-10-31T00:00 00:30 02:00 02:30"),
    ("*/30 1 * * *", "Europe/London", "2027-03-27T23:00", ""),
    ("*/30 1 * * *", "Europe/London", "2027-10-30T23:00", "2027-10-31T00:00 00:30 01:00 01:30"),
    ("10,50 * * * *", "Europe/London", "2027-10-30T23:00", "2027-10-30T23:10 23:50 2027-10-31T00:10 00:50 01:10 01:50"),
    ("@hourly", "Europe/London", "2027-03-27T23:00", "2027-03-28T00:00 01:00 02:00 03:00 04:00 05:00"),
    ("@daily", "Europe/London", "2027-03-27T23:00", "2027-03-28T00:00"),
    ("30 2 * * *", "America/New_York", "2027-03-14T05:00", "2027-03-14T07:00"),
    ("30 1 * * *", "America/New_York", "2027-11-07T04:00", "2027-11-07T05:30"),
    ("15 1-3 * * *", "America/New_York", "2027-03-14T05:00", "2027-03-14T06:15 07:00 07:15"),
    ("15 1-3 * * *", "America/New_York", "2027-11-07T04:00", "2027-11-07T05:15 07:15 08:15"),
    ("30 */2 * * *", "America/New_York", "2027-03-14T05:00", "2027-03-14T05:30 08:30"),
    ("0 2 14 */2 7", "America/New_York", "2027-03-14T05:00", "2027-03-14T07:00"),
    ("*,30 1 * * *", "America/New_York", "2027-11-07T04:00", "2027-11-07T05:00 05:01 05:02 05:03 05:04 05:05"),
    ("0 2,3 * * *", "America/New_York", "2027-03-14T05:00", "2027-03-14T07:00"),
    ("15 2 * * *", "Australia/Lord_Howe", "2027-10-02T13:30", "2027-10-02T15:30"),
    ("45 1 * * *", "Australia/Lord_Howe", "2027-04-03T13:00", "2027-04-03T14:45"),
    ("15,45 * * * *", "Australia/Lord_Howe", "2027-04-03T13:00", "2027-04-03T13:15 13:45 14:15 14:45 15:15 15:45"),
    ("10-50/20 1-2 * * *", "Australia/Lord_Howe", "2027-10-02T13:30", "2027-10-02T14:40 15:00 15:20 15:30 15:50"),
    ("0 2 * * Sun", "Australia/Lord_Howe", "2027-10-02T13:30", "2027-10-02T15:30"),
    ("0 2 1-31/2 * */2", *NEW_YEAR, "2027-01-03T02:00 2027-01-05T02:00 2027-01-07T02:00 2027-01-09T02:00"),
    ("0 2 */2 * */2", *NEW_YEAR, "2027-01-03T02:00 2027-01-05T02:00 2027-01-07T02:00 2027-01-09T02:00"),
    ("0 2 */2 * 0,1", *NEW_YEAR, "2027-01-03T02:00 2027-01-11T02:00 2027-01-17T02:00 2027-01-25T02:00"),
    ("0 2 13 * fri", *NEW_YEAR, "2027-01-01T02:00 2027-01-08T02:00 2027-01-13T02:00 2027-01-15T02:00"),
    ("0 2 13,* * fri", *NEW_YEAR, "2027-01-01T02:00 2027-01-02T02:00 2027-01-03T02:00 2027-01-04T02:00"),
    ("0 2 *,13 * fri", *NEW_YEAR, "2027-01-01T02:00 2027-01-08T02:00 2027-01-15T02:00 2027-01-22T02:00"),
    ("0 2 * * */7", *NEW_YEAR, "2027-01-03T02:00 2027-01-10T02:00 2027-01-17T02:00 2027-01-24T02:00"),
    ("0 2 * * 0-7/7", *NEW_YEAR, "2027-01-03T02:00 2027-01-10T02:00 2027-01-17T02:00 2027-01-24T02:00"),
    ("0 2 * * Sat-7", *NEW_YEAR, "2027-01-02T02:00 2027-01-03T02:00 2027-01-09T02:00 2027-01-10T02:00"),
    ("02 001 01 JAN-mar *", *NEW_YEAR, "2027-01-01T01:02 2027-02-01T01:02 2027-03-01T01:02 2028-01-01T01:02"),
    ("0 2 29 feb *", *NEW_YEAR, "2028-02-29T02:00"),
    ("0 2 31 */2 5", *NEW_YEAR, "2027-01-01T02:00 2027-01-08T02:00 2027-01-15T02:00 2027-01-22T02:00"),
    ("0 2 5-5/9 3 *", *NEW_YEAR, "2027-03-05T02:00 2028-03-05T02:00"),
    ("@weekly", *NEW_YEAR, "2027-01-03T00:00 2027-01-10T00:00 2027-01-17T00:00 2027-01-24T00:00"),
    ("@monthly", *NEW_YEAR, "2027-01-01T00:00 2027-02-01T00:00 2027-03-01T00:00 2027-04-01T00:00"),
    ("@yearly", *NEW_YEAR, "2027-01-01T00:00 2028-01-01T00:00"),
]


def fires(cron: str, zone: str, start: datetime, minutes: int, **more: str) -> list[datetime]:
    spec = define_trigger({"cron": cron, "tz": zone, **more})
    end_ms, found = to_ms(start) + minutes * 60_000, []
    at_ms = build(spec, 0).next_after(to_ms(start) - 1)
    while at_ms is not None and at_ms < end_ms:
        found.append(from_ms(at_ms))
        at_ms = build(spec, 0).next_after(at_ms)
    return found


@pytest.mark.parametrize(("zone", "begin", "days"), WINDOWS)
@pytest.mark.parametrize("times", TIMES)
def test_a_line_fires_when_debians_cron_runs_it(times: str, zone: str, begin: str, days: int) -> None:
    start = datetime.fromisoformat(begin).replace(tzinfo=ZoneInfo(zone)).astimezone(ZoneInfo("UTC"))
    cron = ALIASES.get(times) or cron_of_fields(times.split())

    assert Line(times).runs(zone, start, days * 1440) == fires(cron, zone, start, days * 1440)


@pytest.mark.parametrize(("times", "zone", "after", "expected"), BY_CRON)
def test_a_line_fires_at_the_times_recorded_from_cron_itself(times: str, zone: str, after: str, expected: str) -> None:
    trigger = build(define_trigger({"cron": ALIASES.get(times) or cron_of_fields(times.split()), "tz": zone}), 0)
    at, found, told = datetime.fromisoformat(f"{after}Z"), [], expected.split()

    for _ in told:
        day, at = at.date(), from_ms(trigger.next_after(to_ms(at)) or 0)
        found.append(at.strftime("%H:%M" if found and at.date() == day else "%Y-%m-%dT%H:%M"))

    assert told == found


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Lines that crontab(5) allows."""
    written = []
    for low, high in BOUNDS:
        items = []
        for _ in range(draw(st.integers(1, 2))):
            first = draw(st.integers(low, high))
            last = draw(st.integers(first, high))
            step = draw(st.integers(1, max(high - low, 1)))
            items.append(
                draw(st.sampled_from(["*", f"*/{step}", f"{first}", f"{first}-{last}", f"{first}-{last}/{step}"]))
            )
        written.append(",".join(items))
    return " ".join(written)


@given(expressions())
def test_any_line_of_crontab5_fires_on_the_days_and_minutes_of_cron(times: str) -> None:
    start = datetime(2028, 2, 27, tzinfo=ZoneInfo("UTC"))

    assert Line(times).runs("UTC", start, 4 * 1440) == fires(cron_of_fields(times.split()), "UTC", start, 4 * 1440)


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ("60 * * * *", "minute '60': '60' is not a valid minute; write 0-59"),
        ("* 24 * * *", "hour '24': '24' is not a valid hour; write 0-23"),
        ("* * 0 * *", "day of month '0': '0' is not a valid day of month; write 1-31"),
        ("* * * 13 *", "month '13': '13' is not a valid month; write 1-12 or jan-dec"),
        ("* * * * 8", "day of week '8': '8' is not a valid day of week; write 0-7 or sun-sat"),
        ("* * * * monday", "day of week 'monday': 'monday' is not a valid day of week; write 0-7 or sun-sat"),
        ("jan * * * *", "minute 'jan': 'jan' is not a valid minute; write 0-59"),
        ("5/15 * * * *", "minute '5/15': a step needs a range or *, and Debian's cron refuses this one"),
        ("* 22-4 * * *", "hour '22-4': the range '22-4' ends before it begins; write two ranges, with a comma between"),
        ("* * * * fri-sun", "day of week 'fri-sun': the range 'fri-sun' ends before it begins; write fri-7"),
        ("* * * * fri-sun/2", "day of week 'fri-sun/2': the range 'fri-sun/2' ends before it begins; write fri-7/2"),
        ("*/0 * * * *", "minute '*/0': a step of 0 is not valid; write 1 or more"),
        ("*/60 * * * *", "minute '*/60': a step of 60 selects only 0; write 0"),
        (
            "* * */31 * *",
            "day of month '*/31': a step of 31 selects only 1; write 1 if the day of week is *, else let the "
            "command look at the date",
        ),
        ("* * * * */8", "day of week '*/8': a step of 8 selects only 0; write */7"),
        ("* * L * *", "day of month 'L': 'L' is not a valid day of month"),
        ("* * ? * *", "day of month '?': '?' is not in the syntax of crontab(5); write 1-31, *, a-b, a-b/n or */n"),
        ("* * * * 5#2", "day of week '5#2': '5#2' is not in the syntax of crontab(5)"),
        ("H * * * *", "minute 'H': 'H' is not a valid minute"),
        ("1,,2 * * * *", "minute '1,,2': '' is not in the syntax of crontab(5)"),
        ("1-9/2/3 * * * *", "minute '1-9/2/3': '1-9/2/3' is not in the syntax of crontab(5)"),
    ],
)
def test_fields_that_cron_refuses_or_misreads_are_refused_with_a_remedy(times: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}"):
        cron_of_fields(times.split())


@pytest.mark.parametrize("minutes", ["1," * 252 + "1", "0" * 5000 + "1"])
def test_too_long_fields_are_refused_with_a_short_message(minutes: str) -> None:
    with pytest.raises(ValueError, match=r"^the time fields are longer than 512 characters; use ranges and steps$"):
        cron_of_fields([minutes, "*", "*", "*", "*"])


def test_the_text_of_fields_is_kept_unchanged() -> None:
    assert "09,39 */2 1-7 JAN,feb mon-fri" == cron_of_fields("09,39 */2 1-7 JAN,feb mon-fri".split())
    assert "5-5 0-3/10 * * 7-7" == cron_of_fields("5-5 0-3/10 * * 7-7".split())


# -- cron strings and scores of RQ -------------------------------------------------------------------


START = datetime(2028, 2, 20, tzinfo=UTC)  # before a leap day
DAYS = 90
STARTS = [datetime(2028, month, day, tzinfo=UTC) for month, day in ((3, 9), (3, 23), (10, 26), (11, 2), (9, 28))]


@pytest.mark.parametrize(
    "text",
    [
        "0 9 * * 1-5", "0 0 13 * 5", "0 0 */2 * mon", "0 0 */2 * */3", "0 0 */2 * *", "0 0 */1 * mon", "0 0 1-31 * mon",
        "0 0 1 * 0-6", "0 0 1 * 0-7", "0 0 ? * fri", "5/20 1 L * *", "5/20 1 L * 3", "0 0 * * L5",
        "0 12 * * 5#2,1#1", "30 2 13 * 5 15", "0 */6 * 2,3 * */30", "@weekly",
    ],
)  # fmt: skip
def test_a_cron_string_fires_when_rq_enqueues_it(text: str) -> None:
    theirs, expected = croniter(text, START - timedelta(seconds=1)), []
    while (at := theirs.get_next(datetime)) < START + timedelta(days=DAYS):
        expected.append(at)

    assert expected == fires(cron_of_croniter(text), "UTC", START, DAYS * 1440)


@pytest.mark.parametrize("text", ["0 0 1 1 * 0 2050", "0 0 *,5 * mon"])
def test_a_cron_string_without_a_counterpart_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^cron '.*; (write|schedule)"):
        cron_of_croniter(text)


@pytest.fixture
def as_before() -> Iterator[None]:
    """Reset zone changes of the process after the test: this is set up first, so it ends last."""
    yield
    time.tzset()


@pytest.mark.skipif(not IS_CRON_LOCAL, reason="RQ 2 reads cron strings in UTC")
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize("text", ["30 2 * * *", "0 9 * * 1-5", "0,30 1-3 * * *", "15 0,2 * * *"])
def test_local_times_around_a_clock_change_agree_with_rq(
    as_before: None, zone: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    for start in STARTS:
        job, expected = CronJob("q", func_name="app.task", cron=text), []
        job.latest_enqueue_time = start - timedelta(seconds=1)
        while (at := job.get_next_enqueue_time()) < start + timedelta(days=6):
            expected.append(at)
            job.latest_enqueue_time = at

        options = _item(job, zone, "n", "n").options

        told = {name: options[name] for name in ("gap", "fold")}
        assert expected == fires(options["cron"], options["tz"], start, 6 * 1440, **told)


def test_rq_reads_cron_fields_in_the_machines_zone_since_the_version_that_is_named(
    as_before: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    job = CronJob("q", func_name="app.task", cron="0 9 * * *")
    job.latest_enqueue_time = datetime(2028, 1, 1, 12, tzinfo=UTC)

    hour = job.get_next_enqueue_time().astimezone(UTC).hour

    assert (0 if IS_CRON_LOCAL else 9) == hour


SECOND_MS = 1_800_000_000_000


def test_a_score_of_a_whole_second_is_due_at_its_end() -> None:
    assert from_ms(SECOND_MS + 1000) == not_before(SECOND_MS / 1000)


def test_a_score_of_a_millisecond_is_read_back_unchanged() -> None:
    times_ms = range(SECOND_MS, SECOND_MS + 2001)

    assert list(times_ms) == [to_ms(not_before(score_of(at_ms))) for at_ms in times_ms]


def test_a_score_of_a_millisecond_lies_within_the_millisecond_before() -> None:
    assert all(
        (SECOND_MS + ms) / 1000 - 0.001 < score_of(SECOND_MS + ms) < (SECOND_MS + ms) / 1000 for ms in range(1000)
    )


@pytest.mark.parametrize("score_s", [float("inf"), float("-inf"), float("nan"), 1e300, 1.8e12])
def test_an_invalid_score_is_refused_with_a_remedy(score_s: float) -> None:
    with pytest.raises(ValueError, match="ZADD"):
        not_before(score_s)
