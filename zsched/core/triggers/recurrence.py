"""
Recurrence rules (RFC 5545 section 3.3.10): their parts with the one text for them, and a year at a time by set algebra.

``rrule`` parses texts into ``Parts``. A rule and its start (DTSTART) become a ``Recurrence``: the BY parts as filters,
INTERVAL as a phase. Years are independent of each other: nothing is iterated from the start, so a rule that began
decades ago costs no more than a new one. Phases are reduced: the same rule with different starts is often the same
value, and shares its cached years.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from math import gcd
from typing import Final, NamedTuple

from zsched.core.triggers.wall_clock import (
    CYCLE_YEARS,
    FIRST_YEAR,
    LAST_YEAR,
    Layer,
    Times,
    WallRule,
    Year,
    bits_of,
    comb,
    shape,
    year_of,
)
from zsched.core.triggers.zones import DAY_S

WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class Frequency(Enum):
    """The unit of repetition: its largest INTERVAL, about 100 years; and its number in a cycle of the calendar."""

    DAILY = 36_525, 146_097
    WEEKLY = 5_218, 20_871
    MONTHLY = 1_200, CYCLE_YEARS * 12
    YEARLY = 100, CYCLE_YEARS

    def __init__(self, most: int, in_cycle: int) -> None:
        self.most, self.in_cycle = most, in_cycle


class Parts(NamedTuple):
    """
    A rule without COUNT. Lists are ascending and without repeats, empty when the part is absent.

    ``days`` holds (n, weekday) with n = 0 for every one of them; weekdays are 0 = Monday.
    """

    freq: Frequency
    interval: int = 1
    until_ms: int | None = field(default=None, compare=False)  # a bound, not a part of the calendar
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    days: tuple[tuple[int, int], ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    week_start: int = 0
    removed: tuple[str, ...] = ()  # EXDATE and RDATE, as texts
    added: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return the canonical RRULE value: equal rules have equal texts. INTERVAL=1 and WKST=MO are left out."""
        found = [f"FREQ={self.freq.name}"]
        if self.interval != 1:
            found.append(f"INTERVAL={self.interval}")
        if self.until_ms is not None:
            until = datetime.fromtimestamp(self.until_ms // 1000, UTC)
            found.append(f"UNTIL={until.year:04}{until:%m%dT%H%M%SZ}")
        for key, (name, *_) in LISTS.items():
            values: tuple[int, ...] = getattr(self, name)
            if values:
                found.append(f"{key}={','.join(map(str, values))}")
            if key == "BYMONTHDAY" and self.days:
                found.append("BYDAY=" + ",".join(f"{n or ''}{WEEKDAYS[day]}" for n, day in self.days))
        if self.week_start:
            found.append(f"WKST={WEEKDAYS[self.week_start]}")
        found += [f"{key}={','.join(each)}" for key, each in (("EXDATE", self.removed), ("RDATE", self.added)) if each]
        return ";".join(found)


# The parts that are lists of numbers, in canonical order; BYDAY comes after BYMONTHDAY. Each with its attribute, and
# its least and greatest number; where the least is negative, 0 is not a number of it.
LISTS: Final = {
    "BYMONTH": ("months", 1, 12),
    "BYWEEKNO": ("week_numbers", -53, 53),
    "BYYEARDAY": ("year_days", -366, 366),
    "BYMONTHDAY": ("month_days", -31, 31),
    "BYHOUR": ("hours", 0, 23),
    "BYMINUTE": ("minutes", 0, 59),
    "BYSECOND": ("seconds", 0, 59),
    "BYSETPOS": ("positions", -366, 366),
}


@dataclass(frozen=True, slots=True)
class Recurrence(WallRule):
    """
    A rule with the values from its start: its ``parts``, with the default day; its times of day; and ``phase``.

    ``phase`` is the period of the start (a day, week, month or year, numbered from the epoch) modulo the
    interval. Wall seconds before the start are not excluded here; the bounds do that.
    """

    parts: Parts
    phase: int
    times: Times

    @property
    def cycle_years(self) -> int:
        """The years after which the calendar repeats in step with INTERVAL."""
        return CYCLE_YEARS * self.parts.interval // gcd(self.parts.interval, self.parts.freq.in_cycle)

    def layers(self, year: Year) -> tuple[Layer, ...]:
        """Return one layer; with BYSETPOS one per chosen time of day."""
        return _layers(self, year.number)


def recurrence(parts: Parts, start_wall_s: int) -> Recurrence:
    """Return the rule of *parts* with its start at the wall second *start_wall_s*."""
    day_number, second = divmod(start_wall_s, DAY_S)
    year = shape(year_of(start_wall_s))
    month = next(number for number in range(12, 0, -1) if year.months[number - 1][0] <= day_number - year.first)
    month_day = day_number - year.first - year.months[month - 1][0] + 1

    if not (parts.month_days or parts.days or parts.week_numbers or parts.year_days):
        if parts.freq is Frequency.YEARLY:
            parts = parts._replace(months=parts.months or (month,), month_days=(month_day,))
        elif parts.freq is Frequency.MONTHLY:
            parts = parts._replace(month_days=(month_day,))
        elif parts.freq is Frequency.WEEKLY:
            parts = parts._replace(days=((0, (day_number + 3) % 7),))

    period = {
        Frequency.DAILY: day_number,
        Frequency.WEEKLY: _week_number(day_number, parts.week_start),
        Frequency.MONTHLY: year.number * 12 + month - 1,
        Frequency.YEARLY: year.number,
    }[parts.freq]
    times = Times(
        parts.hours or (second // 3600,), parts.minutes or (second // 60 % 60,), parts.seconds or (second % 60,)
    )
    return Recurrence(parts, period % parts.interval, times)


@lru_cache(maxsize=8192)
def _layers(rule: Recurrence, number: int) -> tuple[Layer, ...]:
    """The layers of the year *number*."""
    year = shape(number)
    if not rule.parts.positions:
        return ((_matching_days(rule, year), rule.times),)
    chosen: dict[int, int] = {}  # time of day -> days
    for position in rule.parts.positions:
        # The set of a period is days × times of day, in order; its n-th element is one time of one day.
        nth_day, nth_time = divmod(position - 1 if position > 0 else position, rule.times.count)
        time = rule.times.at(nth_time)
        chosen[time] = chosen.get(time, 0) | _nth_days(rule, year, nth_day)
    return tuple((mask, Times((time // 3600,), (time // 60 % 60,), (time % 60,))) for time, mask in chosen.items())


def _nth_days(rule: Recurrence, year: Year, n: int) -> int:
    """The day with index *n* (from the end if negative) of those that match in each period, for BYSETPOS."""
    freq, mask = rule.parts.freq, _matching_days(rule, year)
    if freq is Frequency.DAILY:
        return mask if n in (0, -1) else 0
    if freq is Frequency.YEARLY:
        return _pick(mask, n)
    if freq is Frequency.MONTHLY:
        return sum(_pick(mask & year.month_mask(month), n) for month in range(1, 13))
    # Weeks cross both ends of the year: include one more week on each side.
    if year.number > FIRST_YEAR:
        before = shape(year.number - 1)
        mask = mask << 7 | _matching_days(rule, before) >> before.length - 7
    else:
        mask <<= 7
    if year.number < LAST_YEAR:
        mask |= (_matching_days(rule, shape(year.number + 1)) & 0x7F) << 7 + year.length
    first_week = 7 - (year.weekday - rule.parts.week_start) % 7
    chosen = sum(_pick(mask & 0x7F << bit, n) for bit in range(first_week, 7 + year.length, 7))
    return chosen >> 7 & year.mask


def _pick(mask: int, n: int) -> int:
    """The set bit of *mask* with index *n*, counted from the highest if negative; 0 if there is none."""
    bits = list(bits_of(mask))
    return 1 << bits[n] if -len(bits) <= n < len(bits) else 0


def _matching_days(rule: Recurrence, year: Year) -> int:
    """The days of *year* that INTERVAL and every BY part but BYSETPOS allow."""
    parts, mask = rule.parts, _in_interval(rule, year)
    if not mask:
        return 0
    if parts.months:
        mask &= sum(year.month_mask(month) for month in parts.months)
    if parts.month_days:
        mask &= sum(_numbered(parts.month_days, start, length) for start, length in year.months)
    if parts.year_days:
        mask &= _numbered(parts.year_days, 0, year.length)
    if parts.week_numbers:
        mask &= _in_weeks(parts, year)
    if parts.days:
        mask &= _on_weekdays(parts, year)
    return mask


def _in_interval(rule: Recurrence, year: Year) -> int:
    """The days of *year* that lie in a period which INTERVAL does not skip."""
    freq, interval, week_start = rule.parts.freq, rule.parts.interval, rule.parts.week_start
    if freq is Frequency.YEARLY:
        return year.mask if year.number % interval == rule.phase else 0
    if interval == 1:
        return year.mask
    if freq is Frequency.DAILY:
        return comb(interval) << (rule.phase - year.first) % interval & year.mask
    if freq is Frequency.MONTHLY:
        base = year.number * 12 - 1
        return sum(year.month_mask(month) for month in range(1, 13) if (base + month) % interval == rule.phase)
    weeks_on = (rule.phase - _week_number(year.first, week_start)) % interval
    overhang = (year.weekday - week_start) % 7  # days of the first week that are last year's
    return 0x7F * comb(7 * interval) << 7 * weeks_on >> overhang & year.mask


def _numbered(numbers: tuple[int, ...], start: int, length: int) -> int:
    """The days with these numbers, from 1 or from -1 backwards, among the *length* days from bit *start*."""
    mask = 0
    for number in numbers:
        index = number - 1 if number > 0 else length + number
        if 0 <= index < length:
            mask |= 1 << start + index
    return mask


def _in_weeks(parts: Parts, year: Year) -> int:
    """
    The days of *year* whose week has one of the numbers of BYWEEKNO.

    Week 1 is the first with at least four days in its year. A day near New Year may lie in a week of the
    year before or after, and has its number.
    """
    mask = 0
    for number in (year.number - 1, year.number, year.number + 1):
        if not FIRST_YEAR <= number < LAST_YEAR:
            continue
        start = _first_week(number, parts.week_start)
        weeks = (_first_week(number + 1, parts.week_start) - start) // 7
        for week in parts.week_numbers:
            index = week - 1 if week > 0 else weeks + week
            if 0 <= index < weeks:
                bit = start + 7 * index - year.first
                if -7 < bit < year.length:
                    mask |= 0x7F << bit if bit >= 0 else 0x7F >> -bit
    return mask & year.mask


def _first_week(number: int, week_start: int) -> int:
    """The day number on which week 1 of the year *number* starts."""
    year = shape(number)
    overhang = (year.weekday - week_start) % 7
    return year.first - overhang + (7 if overhang > 3 else 0)


def _on_weekdays(parts: Parts, year: Year) -> int:
    """The days of BYDAY. A number counts within the month (MONTHLY, or YEARLY with BYMONTH), else within the year."""
    spans = year.months if parts.freq is Frequency.MONTHLY or parts.months else ((0, year.length),)
    mask = 0
    for n, weekday in parts.days:
        if n:
            mask |= sum(year.nth(n, weekday, start, length) for start, length in spans)
        else:
            mask |= year.on(weekday)
    return mask


def _week_number(day_number: int, week_start: int) -> int:
    """Weeks since the epoch, for weeks that start on *week_start*."""
    return (day_number + 3 - week_start) // 7  # 1970-01-01 was a Thursday
