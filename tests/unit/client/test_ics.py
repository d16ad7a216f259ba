"""Files of calendar programs: what they exclude, against recurring-ical-events, which shares no rules with zsched."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import icalendar
import pytest
import recurring_ical_events
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.breadth import examples
from zsched.client.ics import calendar_of, read_ics
from zsched.core.triggers.calendar_definition import Calendar
from zsched.core.triggers.exclusions import Exclusions
from zsched.errors import InvalidSchedule

BEGIN, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC)
ZONE = "Asia/Seoul"  # of the schedule
Spans = list[tuple[datetime, datetime]]


def event(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VEVENT", *lines, "END:VEVENT", ""])


def file_of(*events: str) -> str:
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{''.join(events)}END:VCALENDAR\r\n"


def spans(calendar: Calendar) -> Spans:
    """Return the excluded times of 2026 in the schedule's zone, joined."""
    closed = Exclusions(calendar.closures, ZoneInfo(ZONE)).between(
        *(int(at.timestamp()) * 1000 for at in (BEGIN, UNTIL))
    )
    return [(datetime.fromtimestamp(a / 1000, UTC), datetime.fromtimestamp(b / 1000, UTC)) for a, b, _ in closed]


def independently(content: str) -> Spans:
    """Return the same by the other reader."""
    query = recurring_ical_events.of(icalendar.Calendar.from_ical(content))
    found = query.between(BEGIN - timedelta(days=40), UNTIL + timedelta(days=40))
    joined: Spans = []
    for start, end in sorted((instant(one["DTSTART"].dt), instant(one["DTEND"].dt)) for one in found):
        if joined and start <= joined[-1][1]:
            first, last = joined.pop()
            joined.append((first, max(last, end)))
        else:
            joined.append((start, end))
    return [(start, end) for start, end in joined if end > BEGIN and start < UNTIL]


def instant(at: date) -> datetime:
    at = at if isinstance(at, datetime) else datetime.combine(at, time())
    return at.replace(tzinfo=at.tzinfo or ZoneInfo(ZONE)).astimezone(UTC)


def stamp(at: datetime, form: str) -> str:
    if form == "date":
        return f";VALUE=DATE:{at:%Y%m%d}"
    return f":{at:%Y%m%dT%H%M%S}" if form == "floating" else f";TZID={form}:{at:%Y%m%dT%H%M%S}"


@st.composite
def events(draw: st.DrawFn) -> str:
    """
    Draw an event, and perhaps a changed occurrence of it. None lasts through a change of clocks: there the other reader
    lengthens it, against RFC 5545.
    """
    form = draw(st.sampled_from(("date", "floating", "Europe/Berlin", "America/New_York")))
    start = datetime(2025, 11, 3, draw(st.sampled_from((4, 9, 15)))) + timedelta(days=draw(st.integers(0, 400)))
    rule, step = draw(st.sampled_from((("", 7), ("FREQ=DAILY;COUNT=9", 1), ("FREQ=WEEKLY", 7))))
    days, hours = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    if form == "date":
        end, duration = start + timedelta(days=days), f"DURATION:P{days}D"
    else:
        end, duration = start + timedelta(hours=hours), f"DURATION:PT{hours}H"
    lines = [f"UID:{draw(st.uuids())}", f"DTSTART{stamp(start, form)}", "SUMMARY:x"]
    lines.append(draw(st.sampled_from((f"DTEND{stamp(end, form)}", duration))))
    if not rule:
        return event(*lines)
    again = [start + timedelta(days=step * n) for n in range(1, 20)]
    removed = draw(st.lists(st.sampled_from(again), max_size=3, unique=True))
    lines += [f"RRULE:{rule}", *(f"EXDATE{stamp(at, form)}" for at in removed)]
    lines += [f"RDATE{stamp(start + timedelta(days=3), form)}"] if draw(st.booleans()) else []
    moved = draw(st.sampled_from([None, *(at for at in again[:7] if at not in removed)]))
    if moved is None:
        return event(*lines)
    there = f"DTSTART{stamp(moved + timedelta(hours=30), form)}"
    return event(*lines) + event(lines[0], f"RECURRENCE-ID{stamp(moved, form)}", there, duration, "SUMMARY:moved")


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(events(), min_size=1, max_size=3))
def test_a_calendar_of_a_file_excludes_what_another_reader_finds(drawn: Sequence[str]) -> None:
    content = file_of(*drawn)

    calendar = calendar_of("kr", {}, ics=content)

    assert independently(content) == spans(calendar)
    assert spans(calendar) == spans(Calendar.of_text("kr", calendar.text))


def test_an_occurrence_during_a_change_of_clocks_is_as_long_as_the_others() -> None:
    start = "DTSTART;TZID=America/New_York:20261030T220000"
    calendar = calendar_of("kr", {}, ics=file_of(event(start, "DURATION:PT16H", "RRULE:FREQ=DAILY;COUNT=3")))

    assert {timedelta(hours=16)} == {until - since for since, until in spans(calendar)}


def test_days_without_a_rule_are_dates_and_the_summary_is_their_word() -> None:
    folded = ("SUMMARY:Chuseok\\, three", "  days")
    chuseok = event("UID:1", "DTSTART;VALUE=DATE:20260924", "DTEND;VALUE=DATE:20260927", *folded)
    zoned = "DTSTART;TZID=W. Europe Standard Time:20260107T090000"
    launch = event("UID:2", zoned, "DURATION:PT1H30M", "SUMMARY:Launch")

    read = read_ics(file_of(chuseok, launch))

    assert ["2026-09-24..2026-09-26 Chuseok, three days"] == read.dates
    assert ["2026-01-07T09:00:00/1h30m[Europe/Berlin] FREQ=DAILY;COUNT=1 Launch"] == read.events
    exclusions = Exclusions(calendar_of("kr", {}, ics=file_of(chuseok)).closures, ZoneInfo(ZONE))
    closed = exclusions.at(int(datetime(2026, 9, 25, tzinfo=UTC).timestamp()) * 1000)
    assert closed is not None
    assert "calendar kr: Chuseok, three days" == closed.why


def test_events_that_exclude_nothing_are_left_out_and_named() -> None:
    moment = event("UID:1", "DTSTART:20260107T090000Z", "SUMMARY:a moment")
    cancelled = event("UID:2", "DTSTART:20260107T090000Z", "DURATION:PT1H", "STATUS:CANCELLED")
    todo = "BEGIN:VTODO\r\nUID:3\r\nEND:VTODO\r\n"

    read = read_ics(file_of(moment, cancelled, todo, todo))

    assert ([], []) == (read.dates, read.events)
    assert ("2 × VTODO", "1 × event without length", "1 × cancelled event") == read.left_out


START = "DTSTART:20260107T090000Z"
LENGTH = "DURATION:PT1H"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("DTSTART:soon", LENGTH), "ics='sale': not readable"),
        ((LENGTH,), "ics='sale': not readable: 'DTSTART'"),
        ((START, LENGTH, "RRULE:FREQ=HOURLY"), "FREQ=HOURLY is ill-defined"),
        ((START, LENGTH, "EXRULE:FREQ=DAILY"), "EXRULE, a second RRULE"),
        ((START, LENGTH, "RDATE;VALUE=PERIOD:20260107T090000Z/PT2H"), "periods in RDATE"),
        (("DTSTART;TZID=Moon/Base:20260107T090000", LENGTH), "Moon/Base"),
        ((START, LENGTH, "RECURRENCE-ID;RANGE=THISANDFUTURE:20260107T090000Z"), "RANGE"),
    ],
)
def test_a_part_that_would_change_the_times_is_refused_with_its_event(lines: Sequence[str], says: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        read_ics(file_of(event("SUMMARY:sale", *lines)))

    assert says in str(caught.value)


def test_a_text_that_is_not_a_calendar_file_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="ics='the file': not readable"):
        read_ics("hello")
