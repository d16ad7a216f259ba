"""
Rules on the wall clock: sets of local times, before any zone.

A wall second is a local time counted as if the zone were UTC: 1970-01-02 00:00 local is 86,400 wherever
it is. A rule says which days of a year match and at which times of day; ``projection`` makes instants of it.

The days of a year are the bits of an integer: bit 0 is 1 January. Rules about days become set algebra: "Fridays in
March" is ``year.on(4) & year.month_mask(3)``; the next day is the lowest bit, a count is a ``bit_count``. No step
iterates over days, so a rule without matches costs as much as a rule that always matches. Weekdays are 0 =
Monday to 6 = Sunday. Times of day are a set, too: every combination of some hours, minutes and seconds.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from heapq import merge
from typing import Final, NamedTuple

from zsched.core.triggers.zones import DAY_S


@dataclass(frozen=True, slots=True)
class Times:
    """
    The seconds of a day (0 to 86,399) whose hour, minute and second are each in a set.

    The tuples are ascending, without repeats and not empty. Every method costs the same for one time
    of day and for 86,400.
    """

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of times in a day."""
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    @property
    def first(self) -> int:
        """The earliest time."""
        return self.hours[0] * 3600 + self.minutes[0] * 60 + self.seconds[0]

    @property
    def last(self) -> int:
        """The latest time."""
        return self.hours[-1] * 3600 + self.minutes[-1] * 60 + self.seconds[-1]

    def at(self, index: int) -> int:
        """The time number *index*, from 0 in ascending order."""
        index, second = divmod(index, len(self.seconds))
        hour, minute = divmod(index, len(self.minutes))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]

    def before(self, second_of_day: int) -> int:
        """Count the times before *second_of_day* (0 to 86,400); thus also the index of the next one."""
        hour, rest = divmod(second_of_day, 3600)
        minute, second = divmod(rest, 60)
        h = bisect_left(self.hours, hour)
        if h == len(self.hours) or self.hours[h] != hour:
            return h * len(self.minutes) * len(self.seconds)
        m = bisect_left(self.minutes, minute)
        if m == len(self.minutes) or self.minutes[m] != minute:
            return (h * len(self.minutes) + m) * len(self.seconds)
        return (h * len(self.minutes) + m) * len(self.seconds) + bisect_left(self.seconds, second)

    def mask(self) -> int:
        """The times as the bits of an integer: bit n is second n of the day."""
        minute = sum(1 << second for second in self.seconds)
        hour = sum(minute << 60 * number for number in self.minutes)
        return sum(hour << 3600 * number for number in self.hours)


EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
FIRST_YEAR: Final = date.min.year
LAST_YEAR: Final = date.max.year

CYCLE_YEARS: Final = 400  # the Gregorian calendar repeats: 146,097 days, which are whole weeks

_ROOM: Final = 366 + 7  # bits of a comb: a year, and a week across its end


class Year(NamedTuple):
    """
    The shape of one year.

    ``first`` is the day number (days since 1970-01-01) of 1 January, ``weekday`` its weekday,
    ``months[m - 1]`` the bit of the first day of month m and its number of days, ``mask`` all days.
    """

    number: int
    first: int
    length: int
    weekday: int
    months: tuple[tuple[int, int], ...]
    mask: int

    def month_mask(self, month: int) -> int:
        """The days of *month* (1 to 12)."""
        start, length = self.months[month - 1]
        return ((1 << length) - 1) << start

    def on(self, weekday: int) -> int:
        """All days that are a *weekday*."""
        return (comb(7) << (weekday - self.weekday) % 7) & self.mask

    def nth(self, n: int, weekday: int, start: int, length: int) -> int:
        """The *n*-th *weekday* of the *length* days from bit *start*; from the end if n < 0; 0 if there is none."""
        if n > 0:
            bit = start + (weekday - self.weekday - start) % 7 + 7 * (n - 1)
        else:
            end = start + length - 1
            bit = end - (self.weekday + end - weekday) % 7 + 7 * (n + 1)
        return 1 << bit if start <= bit < start + length else 0


@lru_cache(maxsize=2048)
def shape(year: int) -> Year:
    """The shape of *year*, FIRST_YEAR to LAST_YEAR."""
    lengths = [monthrange(year, month)[1] for month in range(1, 13)]
    starts = [sum(lengths[:index]) for index in range(12)]
    first = date(year, 1, 1).toordinal() - EPOCH_ORDINAL
    length = sum(lengths)
    months = tuple(zip(starts, lengths, strict=True))
    return Year(year, first, length, (first + 3) % 7, months, (1 << length) - 1)  # 1970-01-01 was a Thursday


@lru_cache(maxsize=1024)
def comb(step: int) -> int:
    """Bits 0, step, 2 · step, … as far as a year and a week reach."""
    return sum(1 << bit for bit in range(0, _ROOM, step))


def bits_of(mask: int) -> Iterator[int]:
    """The positions of the set bits of *mask*, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def year_of(wall_s: int) -> int:
    """The year of a wall-clock second. Raises ValueError or OverflowError outside years 1 to 9999."""
    return date.fromordinal(wall_s // DAY_S + EPOCH_ORDINAL).year


Layer = tuple[int, Times]  # days of a year as bits, and the times of day that each of them has


class WallRule(ABC):
    """A set of wall seconds, given year by year; empty beyond the years 1 to 9999."""

    @property
    def cycle_years(self) -> int:
        """The years after which the rule repeats at the latest. If so many years have no match, no year has."""
        return CYCLE_YEARS

    @abstractmethod
    def layers(self, year: Year) -> tuple[Layer, ...]:
        """The matching days of *year*. Layers share no wall second; almost every rule has one layer."""

    def next_wall(self, wall_s: int) -> int | None:
        """The first match at or after *wall_s*, or None."""
        this_year = year_of(wall_s)
        return self._nearest(wall_s, range(this_year, min(this_year + self.cycle_years, LAST_YEAR) + 1), _first, min)

    def last_wall(self, wall_s: int) -> int | None:
        """The last match at or before *wall_s*, or None."""
        this_year = year_of(wall_s)
        return self._nearest(
            wall_s, range(this_year, max(this_year - self.cycle_years, FIRST_YEAR) - 1, -1), _last, max
        )

    def _nearest(
        self, wall_s: int, years: range, hit_in: Callable[..., int | None], best: Callable[[list[int]], int]
    ) -> int | None:
        for year in map(shape, years):
            start = year.first * DAY_S
            hits = (hit_in(mask, times, wall_s - start) for mask, times in self.layers(year))
            if found := [hit for hit in hits if hit is not None]:
                return start + best(found)
        return None

    def count_wall_times(self, start_s: int, end_s: int) -> int:
        """Count the matches in [start_s, end_s). The cost grows with the years, not with the matches."""
        total = 0
        for number in range(year_of(start_s), year_of(end_s) + 1):
            year = shape(number)
            begin = max(start_s - year.first * DAY_S, 0)
            end = min(end_s - year.first * DAY_S, year.length * DAY_S)
            layers = self.layers(year)
            total += sum(_before(mask, times, end) - _before(mask, times, begin) for mask, times in layers)
        return total

    def wall_times(self, start_s: int, end_s: int) -> Iterator[int]:
        """Yield the matches in [start_s, end_s), ascending."""
        for number in range(year_of(start_s), year_of(end_s) + 1):
            year = shape(number)
            first = year.first * DAY_S
            begin, end = max(start_s - first, 0), min(end_s - first, year.length * DAY_S)
            found = [_between(mask, times, begin, end) for mask, times in self.layers(year)]
            for second in found[0] if len(found) == 1 else merge(*found):
                yield first + second

    def wall_mask(self, start_s: int, end_s: int) -> int:
        """The matches in [start_s, end_s) as bits, bit 0 for start_s. For windows of a few days."""
        mask = 0
        for day in range(start_s // DAY_S, (end_s - 1) // DAY_S + 1):
            year = shape(year_of(day * DAY_S))
            for days, times in self.layers(year):
                if days >> day - year.first & 1:
                    mask |= times.mask() << DAY_S * (day - start_s // DAY_S)
        return mask >> start_s % DAY_S & (1 << end_s - start_s) - 1


def _first(mask: int, times: Times, second: int) -> int | None:
    """The first match at or after *second*, both counted from the start of the year."""
    if second > 0:
        day, time = divmod(second, DAY_S)
        mask >>= day
        if mask & 1:
            if (index := times.before(time)) < times.count:
                return day * DAY_S + times.at(index)
            mask ^= 1
        mask <<= day
    return ((mask & -mask).bit_length() - 1) * DAY_S + times.first if mask else None


def _last(mask: int, times: Times, second: int) -> int | None:
    """The last match at or before *second*, both counted from the start of the year."""
    day, time = divmod(second, DAY_S)
    if mask >> day & 1 and (index := times.before(time + 1)):
        return day * DAY_S + times.at(index - 1)
    mask &= (1 << day) - 1
    return (mask.bit_length() - 1) * DAY_S + times.last if mask else None


def _between(mask: int, times: Times, start: int, end: int) -> Iterator[int]:
    """Yield the matches in [start, end), all counted from the start of the year."""
    for day in bits_of(mask >> start // DAY_S << start // DAY_S & (1 << -(-end // DAY_S)) - 1):
        at = day * DAY_S
        if start <= at and at + DAY_S <= end:
            yield from (at + h * 3600 + m * 60 + s for h in times.hours for m in times.minutes for s in times.seconds)
        else:
            part = range(times.before(max(start - at, 0)), times.before(min(end - at, DAY_S)))
            yield from (at + times.at(index) for index in part)


def _before(mask: int, times: Times, second: int) -> int:
    """Count the matches before *second*, counted from the start of the year."""
    day, time = divmod(second, DAY_S)
    whole = (mask & (1 << day) - 1).bit_count() * times.count
    return whole + (times.before(time) if mask >> day & 1 else 0)
