"""
Files of calendar programs (.ics, RFC 5545), read as ``dates`` and ``events`` of a calendar of zsched. icalendar, of the
extra ics, parses them.

An event's times are those of its start, RRULE, EXDATE and RDATE, without the ones that have an event of their own
(RECURRENCE-ID). An event that is cancelled or has no length, and any other component, is left out, and named.
A part that would change the times, and that a rule of ours cannot have, is refused with the event's name. All-day
events and those without a zone are on the clock of each schedule; the others are instants.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple

from zsched.core.pages import grouped
from zsched.core.triggers.calendar_definition import LONGEST_WORD, Calendar
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.zones import zone
from zsched.core.wording import duration_text, in_a_line
from zsched.errors import InvalidSchedule

_ONCE: Final = "FREQ=DAILY;COUNT=1"


class Ics(NamedTuple):
    """The texts of ``dates`` and ``events`` in a file; and what was left out, for people."""

    dates: list[str]
    events: list[str]
    left_out: tuple[str, ...]


def calendar_of(name: str, given: Mapping[str, Any], owner: str | None = None, ics: str = "") -> Calendar:
    """Return ``Calendar.of``, with the excluded times in *ics*, the content of a file. Raises InvalidSchedule."""
    found = Calendar.of(name, given, owner)
    if not ics:
        return found
    read = read_ics(ics)
    parts = {"dates": [*given.get("dates", ()), *read.dates], "events": [*given.get("events", ()), *read.events]}
    return replace(Calendar.of(name, {**given, **parts}, owner), left_out=read.left_out)


def read_ics(content: str) -> Ics:
    """Return the excluded times in the *content* of a file. Raises InvalidSchedule, with the event."""
    try:
        import icalendar
    except ImportError:
        raise InvalidSchedule("ics", content[:20], "this needs icalendar", "pip install 'zsched[ics]'") from None
    name, read = "the file", Ics([], [], ())
    try:
        calendar = icalendar.Calendar.from_ical(content)
        events = calendar.walk("VEVENT")
        left_out = Counter(one.name for one in calendar.subcomponents if one.name not in ("VEVENT", "VTIMEZONE"))
        moved = grouped((str(one.get("UID")), at.dt) for one in events if (at := one.get("RECURRENCE-ID")))
        for event in events:
            name = str(event.get("SUMMARY") or event.get("UID"))
            part, text = _read(event, () if "RECURRENCE-ID" in event else moved.get(str(event.get("UID")), ()))
            if text:
                getattr(read, part).append(text)
            else:
                left_out[part] += 1
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        remedy = "change it in the file, or leave it out"
        raise InvalidSchedule("ics", in_a_line(name), f"not readable: {error}", remedy) from error
    return read._replace(left_out=tuple(f"{number} × {name}" for name, number in left_out.items()))


def _read(event: Any, moved: Iterable[date]) -> tuple[str, str]:
    """Return a part of a calendar, and the text for it; "" with the reason to leave it out. Raises ValueError."""
    start = event["DTSTART"]
    begin, length, word = start.dt, event.duration, in_a_line(str(event.get("SUMMARY", "")), LONGEST_WORD)
    tz = str(begin.tzinfo) if isinstance(begin, datetime) and begin.tzinfo is not None else None
    if str(event.get("STATUS")).upper() == "CANCELLED":
        return "cancelled event", ""
    if length <= timedelta():
        return "event without length", ""
    zone(start.params.get("TZID") if tz is None and "TZID" in start.params else tz or "UTC")
    is_range = "RANGE" in getattr(event.get("RECURRENCE-ID"), "params", ())
    if "EXRULE" in event or len(event.rrules) > 1 or is_range or any(end is not None for _, end in event.rdates):
        raise ValueError("EXRULE, a second RRULE, RANGE, and periods in RDATE are unknown here")
    rule = b"".join(one.to_ical() for one in event.rrules).decode() or _ONCE
    for key, times in (("EXDATE", [*event.exdates, *moved]), ("RDATE", [at for at, _ in event.rdates])):
        rule += f";{key}={','.join(_time(at, begin) for at in times)}" if times else ""
    if rule == _ONCE and not isinstance(begin, datetime):
        return "dates", f"{begin}..{begin + length - timedelta(days=1)} {word}"
    expr, count = RRULE.parse(rule, tz or "UTC")
    expr += "" if count is None else f";COUNT={count}"
    at = begin.isoformat()[:19]
    return "events", f"{at}/{duration_text(length // timedelta(milliseconds=1))}{f'[{tz}]' if tz else ''} {expr} {word}"


def _time(at: date, begin: date) -> str:
    """Return a time of EXDATE or RDATE for a rule on the clock of *begin*; of an all-day event as a day."""
    if not isinstance(at, datetime) or not isinstance(begin, datetime):
        return f"{at:%Y%m%d}"
    return f"{at.astimezone(begin.tzinfo) if at.tzinfo and begin.tzinfo else at:%Y%m%dT%H%M%S}"
