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

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain, pairwise
from operator import attrgetter
from typing import Final
from zoneinfo import ZoneInfo

from zsched.core.triggers.cron import CronRule, cron_rule
from zsched.core.triggers.layers import Instants
from zsched.core.triggers.projection import Projection
from zsched.core.triggers.spec import Calendars, Closed, Closure, Fold, Gap
from zsched.core.triggers.wall_clock import EPOCH_ORDINAL, FIRST_YEAR, LAST_YEAR, shape, year_of
from zsched.core.triggers.zones import DAY_S, FLOOR_S, HORIZON_S, offset_changes, offset_s, zone
from zsched.errors import InvalidSchedule

MOST: Final = 50  # texts of a schedule
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
REMEDY: Final = 'give for instance "Sat,Sun", "22:00-07:00", "2026-12-24..2027-01-01", or the name of a calendar'
_DAY_NAMES: Final = {name.lower() for name in DAYS}
_WEEKLY: Final = re.compile(r"([A-Za-z]{3}(?:[,-][A-Za-z]{3})*)? ?(?:(\d\d):(\d\d)-(\d\d):(\d\d))?", re.ASCII)
_DATES: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.\.(\d{4}-\d\d-\d\d))?", re.ASCII)
_YEARLY: Final = re.compile(r"(\d\d)-(\d\d)", re.ASCII)
_FARTHEST: Final = 100  # years to which an excluded time is joined
_DAY_MS: Final = DAY_S * 1000
_END: Final = attrgetter("end_ms")
_BLANKS: Final = re.compile(r" ?(,|-|\.\.) ?")  # around separators
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}", re.ASCII)


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
    return _NAME.fullmatch(text) is not None and not {*text.split("-")} <= _DAY_NAMES


def closure_of(field: str, text: str, word: str = "") -> Closure:
    """
    Return what *text* excludes, which names no calendar. *word*: why, for people; default the text.

    Raises:
        InvalidSchedule: it has another form, or no such day exists.
    """
    weekly, dates, yearly = _WEEKLY.fullmatch(text), _DATES.fullmatch(text), _YEARLY.fullmatch(text)
    found = None
    try:
        if dates is not None:
            first, last = (date.fromisoformat(day).toordinal() for day in (dates[1], dates[2] or dates[1]))
            starts = Instants(((first - EPOCH_ORDINAL) * _DAY_MS,))
            found = Closure(word or text, starts, (last + 1 - first) * _DAY_MS)
        elif yearly is not None:
            day = date(2000, int(yearly[1]), int(yearly[2]))
            found = Closure(word or text, _on_clock(cron_rule(f"0 0 {day.day} {day.month} *")), _DAY_MS)
        elif weekly is not None and text:
            found = _weekly(text, word, weekly)
    except ValueError:
        raise InvalidSchedule(field, text, "no such day or time", REMEDY) from None
    if found is None:
        raise InvalidSchedule(field, text, "not an exclusion", REMEDY)
    if found.length_ms <= 0:
        raise InvalidSchedule(field, text, "ends before it begins", "swap the two days")
    return found


def _canonical(field: str, text: str) -> str:
    tidy = _BLANKS.sub(r"\1", " ".join(text.split()))
    return tidy if is_name(tidy) else closure_of(field, tidy).why


def _weekly(text: str, word: str, found: re.Match[str]) -> Closure:
    """Return the weekly window of a text that matched. Raises ValueError."""
    names, hour, minute, end_hour, end_minute = found.groups()
    starts = cron_rule(f"{minute or 0} {hour or 0} * * {names or '*'}")
    shown = ",".join(DAYS[day] for day in starts.days.weekdays) if names else ""
    if hour is None:
        return Closure(word or shown, _on_clock(starts), _DAY_MS)
    start_s, end_s = int(hour) * 3600 + int(minute) * 60, int(end_hour) * 3600 + int(end_minute) * 60
    if int(end_minute) > 59 or end_s > DAY_S or start_s == end_s:
        raise ValueError(text)
    window = f"{hour}:{minute}-{end_hour}:{end_minute}"
    return Closure(word or f"{shown} {window}".strip(), _on_clock(starts), ((end_s - start_s) % DAY_S or DAY_S) * 1000)


def _on_clock(rule: CronRule) -> Projection:
    """Return the times of *rule* as if in UTC."""
    return Projection(rule, ZoneInfo("UTC"), Gap.SKIP, Fold.BOTH)


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
        if (found := self._years.get(year)) is None:
            found = self._years[year] = _joined(sorted(self._parts(year)))
        return found

    def _parts(self, year: int) -> Iterator[Closed]:
        """Yield what is excluded in *year*, in parts that may overlap."""
        if not FIRST_YEAR < year < LAST_YEAR:
            return
        start_s, end_s = (shape(number).first * DAY_S for number in (year, year + 1))
        changes = [change.at_s for change in offset_changes(self._tz, start_s, end_s) if change.at_s < end_s]
        for left_s, right_s in pairwise([start_s, *changes, end_s]):
            left_ms, right_ms, offset_ms = (each * 1000 for each in (left_s, right_s, offset_s(self._tz, left_s)))
            for closure in self._closures:
                for one in closure.spans(left_ms, right_ms, offset_ms):
                    yield Closed(max(one.start_ms, left_ms), min(one.end_ms, right_ms), one.why)


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
    closures = (calendars[text].closures if is_name(text) else [closure_of("exclude", text)] for text in exclude)
    return Exclusions([*chain(*closures)], zone(tz))


def exclusions_at(times: tuple[int, ...]) -> Exclusions:
    """Return the instants *times* as excluded ones."""
    return Exclusions([Closure("", Instants(times), 1, is_on_clock=False)], zone("UTC"))
