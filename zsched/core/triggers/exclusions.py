"""
Exclusions: times at which occurrences of a rule do not happen, such as weekends, nights, holidays.

A schedule's ``exclude`` is a list of texts, all on the clock of its zone::

    "Sat,Sun"   "Mon-Fri 22:00-07:00"   "12:00-13:00"      days of the week, a window of the day, or both
    "2026-12-24"   "2026-12-24..2027-01-01"   "12-25"      days, the last one included; a day of every year
    "kr"                                                   a calendar of the namespace (``calendars``)

A window that ends before it begins ends on the next day. An occurrence is excluded if its nominal time, on the clock,
is in one of them: so both passes of a repeated hour are, and elapsed time does not matter. Jitter may carry the due
time of an occurrence into an excluded time.

``Exclusions`` has these times in one zone, as instants, joined where they touch (``Closed``). They are computed a year
at a time, and shared by all schedules with these texts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from zsched.core.triggers.calendars import Calendars, ClosedSpan, Closure
from zsched.core.triggers.wall_clock import EPOCH_ORDINAL, FIRST_YEAR, LAST_YEAR, year_of
from zsched.core.triggers.zones import DAY_S, FLOOR_S, HORIZON_S, offset_changes, offset_s, zone
from zsched.errors import InvalidSchedule

MOST: Final = 50  # texts of a schedule
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
REMEDY: Final = 'give for instance "Sat,Sun", "22:00-07:00", "2026-12-24..2027-01-01", or the name of a calendar'
_NUMBER_OF: Final = {name.lower(): number for number, name in enumerate(DAYS)}
_WEEKLY: Final = re.compile(r"([A-Za-z]{3}(?:[,-][A-Za-z]{3})*)? ?(?:(\d\d):(\d\d)-(\d\d):(\d\d))?", re.ASCII)
_DATES: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.\.(\d{4}-\d\d-\d\d))?", re.ASCII)
_YEARLY: Final = re.compile(r"(\d\d)-(\d\d)", re.ASCII)
_FARTHEST: Final = 100  # years to which an excluded time is joined
_END: Final = attrgetter("end_ms")
_BLANKS: Final = re.compile(r" ?(,|-|\.\.) ?")  # around separators
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}", re.ASCII)


class Closed(NamedTuple):
    """[start_ms, end_ms) of excluded instants, which no other one touches, and why: words, joined by semicolons."""

    start_ms: int
    end_ms: int
    why: str


class Weekly(NamedTuple):
    """[start_s, end_s) of the days of the week, 0 = Monday, in seconds from midnight; it may end on the next day."""

    word: str
    days: tuple[int, ...]
    start_s: int = 0
    end_s: int = DAY_S

    def spans(self, start_s: int, end_s: int, offset_s: int) -> Iterator[ClosedSpan]:
        """Yield the windows that overlap [start_s, end_s)."""
        for day in range((start_s + offset_s) // DAY_S - 1, (end_s + offset_s) // DAY_S + 1):
            if (day + 3) % 7 in self.days:  # 1970-01-01 was a Thursday
                midnight_s = day * DAY_S - offset_s
                yield ClosedSpan(midnight_s + self.start_s, midnight_s + self.end_s, self.word)


class Dates(NamedTuple):
    """The days *first* to *last*, as days since 1970."""

    word: str
    first: int
    last: int

    def spans(self, start_s: int, end_s: int, offset_s: int) -> Iterator[ClosedSpan]:
        """Yield the days, as one span."""
        yield ClosedSpan(self.first * DAY_S - offset_s, (self.last + 1) * DAY_S - offset_s, self.word)


class Yearly(NamedTuple):
    """A day of every year that has it."""

    word: str
    month: int
    day: int

    def spans(self, start_s: int, end_s: int, offset_s: int) -> Iterator[ClosedSpan]:
        """Yield the days from the year of start_s to the year of end_s."""
        for year in range(year_of(start_s + offset_s), year_of(end_s + offset_s) + 1):
            with suppress(ValueError):  # a 29 February that this year lacks
                midnight_s = _day(date(year, self.month, self.day)) * DAY_S - offset_s
                yield ClosedSpan(midnight_s, midnight_s + DAY_S, self.word)


class _Backwards(ValueError):
    """A range of days ends before it begins."""


def canonical(field: str, value: object) -> tuple[str, ...]:
    """
    Return the checked texts of *value*, a list of them, or one with commas only between days: each once.

    Raises:
        InvalidSchedule: one of them is none of the forms above.
    """
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple | set | frozenset) or not all(isinstance(one, str) for one in given):
        raise InvalidSchedule(field, value, "not a list of texts", REMEDY)
    if len(given) > MOST:
        raise InvalidSchedule(field, f"{len(given)} texts", f"more than {MOST}", "put a calendar, and name that")
    return tuple(dict.fromkeys(_canonical(field, one) for one in given))


def is_name(text: str) -> bool:
    """Return True if *text* can be the name of a calendar; "mon-fri" are days."""
    return _NAME.fullmatch(text) is not None and not _NUMBER_OF.keys() >= {*text.split("-")}


def closure_of(field: str, text: str, word: str = "") -> Closure:
    """
    Return what *text* excludes, which names no calendar. *word*: why, for people; default the text.

    Raises:
        InvalidSchedule: it has another form, or no such day exists.
    """
    weekly, dates, yearly = _WEEKLY.fullmatch(text), _DATES.fullmatch(text), _YEARLY.fullmatch(text)
    try:
        if dates is not None:
            first, last = (_day(date.fromisoformat(day)) for day in (dates[1], dates[2] or dates[1]))
            if last < first:
                raise _Backwards
            return Dates(word or text, first, last)
        if yearly is not None:
            month, day = int(yearly[1]), int(yearly[2])
            date(2000, month, day)
            return Yearly(word or text, month, day)
        if weekly is not None and text:
            return _weekly(text, word, weekly)
    except _Backwards:
        raise InvalidSchedule(field, text, "ends before it begins", "swap the two days") from None
    except ValueError:
        raise InvalidSchedule(field, text, "no such day or time", REMEDY) from None
    raise InvalidSchedule(field, text, "not an exclusion", REMEDY)


def _canonical(field: str, text: str) -> str:
    tidy = _BLANKS.sub(r"\1", " ".join(text.split()))
    found = None if is_name(tidy) else closure_of(field, tidy)
    return found.word if isinstance(found, Weekly) else tidy


def _weekly(text: str, word: str, found: re.Match[str]) -> Weekly:
    """Return the weekly window of a text that matched. Raises ValueError."""
    names, *numbers = found.groups()
    days = tuple(sorted(_days(names))) if names else tuple(range(7))
    shown = ",".join(DAYS[day] for day in days) if names else ""
    if numbers[0] is None:
        return Weekly(word or shown, days)
    hours, minutes = [int(one) for one in numbers[::2]], [int(one) for one in numbers[1::2]]
    start_s, end_s = (hour * 3600 + minute * 60 for hour, minute in zip(hours, minutes, strict=True))
    if max(minutes) > 59 or start_s >= DAY_S or end_s > DAY_S or start_s == end_s:
        raise ValueError(text)
    window = f"{numbers[0]}:{numbers[1]}-{numbers[2]}:{numbers[3]}"
    end_s += DAY_S if end_s < start_s else 0
    return Weekly(word or f"{shown} {window}".strip(), days, start_s, end_s)


def _days(names: str) -> set[int]:
    """Return the days in a text such as Mon-Fri,Sun. Raises ValueError."""
    found = set()
    for part in names.split(","):
        first, *last = [_NUMBER_OF.get(name.lower(), -1) for name in part.split("-")]
        if first < 0 or len(last) > 1 or (last and last[0] < 0):
            raise ValueError(part)
        length = (last[0] - first) % 7 if last else 0
        found |= {(first + n) % 7 for n in range(length + 1)}
    return found


def _day(day: date) -> int:
    return day.toordinal() - EPOCH_ORDINAL


# -- instants -------------------------------------------------------------------------------------


class Exclusions:
    """The excluded instants of *closures*, on the clock of zone *tz*. Threads may share it."""

    def __init__(self, closures: Sequence[Closure], tz: ZoneInfo) -> None:
        self._closures, self._tz = tuple(closures), tz
        self._years: dict[int, list[Closed]] = {}

    def at(self, ms: int) -> Closed | None:
        """Return the excluded time with the instant *ms*; None if that is not excluded."""
        return next(self.between(ms, ms + 1), None)

    def between(self, start_ms: int, end_ms: int) -> Iterator[Closed]:
        """Yield the excluded times that overlap [start_ms, end_ms), in order, each whole."""
        done_ms = start_ms
        for year in range(_year(start_ms), _year(end_ms - 1) + 1):
            found = self._in(year)
            for number in range(bisect_right(found, done_ms, key=_END), len(found)):
                one = found[number]
                if one.start_ms >= end_ms:
                    return
                if one.end_ms > done_ms:
                    whole = self._whole(one, year)
                    yield whole
                    done_ms = whole.end_ms

    def _whole(self, one: Closed, year: int) -> Closed:
        """Return a time of *year*, joined with what touches it in the years around."""
        later = earlier = year
        while later < year + _FARTHEST and (after := self._in(later + 1)) and after[0].start_ms == one.end_ms:
            one, later = _joined([one, after[0]])[0], later + 1
        while earlier > year - _FARTHEST and (before := self._in(earlier - 1)) and before[-1].end_ms == one.start_ms:
            one, earlier = _joined([before[-1], one])[0], earlier - 1
        return one

    def _in(self, year: int) -> list[Closed]:
        """Return what is excluded in *year*, by UTC."""
        found = self._years.get(year)
        if found is None:
            found = self._years[year] = _joined(sorted(self._parts(year)))
        return found

    def _parts(self, year: int) -> Iterator[Closed]:
        """Yield what is excluded in *year*, in parts that may overlap."""
        if not FIRST_YEAR < year < LAST_YEAR:
            return
        start_s, end_s = (_day(date(number, 1, 1)) * DAY_S for number in (year, year + 1))
        changes = [change.at_s for change in offset_changes(self._tz, start_s, end_s) if change.at_s < end_s]
        for left_s, right_s in pairwise([start_s, *changes, end_s]):
            offset = offset_s(self._tz, left_s)
            for closure in self._closures:
                for span in closure.spans(left_s, right_s, offset):
                    part = max(span.start_s, left_s), min(span.end_s, right_s)
                    if part[0] < part[1]:
                        yield Closed(part[0] * 1000, part[1] * 1000, span.word)


def _joined(parts: Iterable[Closed]) -> list[Closed]:
    """Return sorted *parts*, joined where they touch."""
    found: list[Closed] = []
    for part in parts:
        if found and part.start_ms <= found[-1].end_ms:
            last = found.pop()
            words = dict.fromkeys((*last.why.split("; "), *part.why.split("; ")))
            part = Closed(last.start_ms, max(last.end_ms, part.end_ms), "; ".join(words))
        found.append(part)
    return found


def _year(ms: int) -> int:
    return year_of(min(max(ms // 1000, FLOOR_S), HORIZON_S))


@lru_cache(maxsize=10_000)
def exclusions_of(exclude: tuple[str, ...], tz: str, calendars: Calendars) -> Exclusions:
    """
    Return what the checked texts *exclude* in zone *tz*. Equal arguments share one value.

    Raises:
        UnknownCalendar: *calendars* lacks one of them.
    """
    closures = [calendars[text] if is_name(text) else closure_of("exclude", text) for text in exclude]
    return Exclusions(closures, zone(tz))
