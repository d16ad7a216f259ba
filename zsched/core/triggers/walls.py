"""
Rules on the wall clock: sets of local times, before any zone.

A wall second is a local time counted as if the zone were UTC: 1970-01-02 00:00 local is 86,400 wherever
it is. A rule says which days of a year match and at which times of day; ``projection`` makes instants of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from zsched.core.triggers.days import FIRST_YEAR, LAST_YEAR, Year, shape, year_of
from zsched.core.triggers.times import Times
from zsched.core.triggers.zones import DAY_S

Layer = tuple[int, Times]
"""Days of a year as bits, and the times of day that each of them has."""


class WallRule(ABC):
    """A set of wall seconds, given year by year; empty beyond the years 1 to 9999."""

    @property
    @abstractmethod
    def cycle_years(self) -> int:
        """After how many years at most the rule repeats itself: if so many have no match, none has."""

    @abstractmethod
    def layers(self, year: Year) -> tuple[Layer, ...]:
        """The matching days of *year*. Layers share no wall second; almost every rule has one layer."""

    def next_wall(self, wall_s: int) -> int | None:
        """The first match at or after *wall_s*, or None."""
        this_year = year_of(wall_s)
        for number in range(this_year, min(this_year + self.cycle_years, LAST_YEAR) + 1):
            year = shape(number)
            start = year.first * DAY_S
            layers = self.layers(year)
            found = [hit for mask, times in layers if (hit := _first(mask, times, wall_s - start)) is not None]
            if found:
                return start + min(found)
        return None

    def last_wall(self, wall_s: int) -> int | None:
        """The last match at or before *wall_s*, or None."""
        this_year = year_of(wall_s)
        for number in range(this_year, max(this_year - self.cycle_years, FIRST_YEAR) - 1, -1):
            year = shape(number)
            start = year.first * DAY_S
            layers = self.layers(year)
            found = [hit for mask, times in layers if (hit := _last(mask, times, wall_s - start)) is not None]
            if found:
                return start + max(found)
        return None

    def count_walls(self, start_s: int, end_s: int) -> int:
        """Count the matches in [start_s, end_s). The cost grows with the years, not with the matches."""
        total = 0
        for number in range(year_of(start_s), year_of(end_s) + 1):
            year = shape(number)
            begin = max(start_s - year.first * DAY_S, 0)
            end = min(end_s - year.first * DAY_S, year.length * DAY_S)
            total += sum(_count(mask, times, begin, end) for mask, times in self.layers(year))
        return total

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
            index = times.before(time)
            if index < times.count:
                return day * DAY_S + times.at(index)
            mask ^= 1
        mask <<= day
    return ((mask & -mask).bit_length() - 1) * DAY_S + times.first if mask else None


def _last(mask: int, times: Times, second: int) -> int | None:
    """The last match at or before *second*, both counted from the start of the year."""
    day, time = divmod(second, DAY_S)
    if mask >> day & 1:
        index = times.before(time + 1)
        if index:
            return day * DAY_S + times.at(index - 1)
    mask &= (1 << day) - 1
    return (mask.bit_length() - 1) * DAY_S + times.last if mask else None


def _count(mask: int, times: Times, start: int, end: int) -> int:
    """Count the matches in [start, end), both counted from the start of the year."""
    return _before(mask, times, end) - _before(mask, times, start)


def _before(mask: int, times: Times, second: int) -> int:
    day, time = divmod(second, DAY_S)
    whole = (mask & (1 << day) - 1).bit_count() * times.count
    return whole + (times.before(time) if mask >> day & 1 else 0)
