"""
The days of a year as the bits of an integer: bit 0 is 1 January.

Rules about days become set algebra: "Fridays in March" is ``year.on(4) & year.month_mask(3)``; the next
day is the lowest bit, a count is a ``bit_count``. No step looks at one day after the other, so a rule
that matches nothing costs as much as one that matches always. Weekdays are 0 = Monday to 6 = Sunday.
"""

from __future__ import annotations

from calendar import isleap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final

from zsched.core.triggers.zones import DAY_S

EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
FIRST_YEAR: Final = date.min.year
LAST_YEAR: Final = date.max.year

CYCLE_YEARS: Final = 400  # the Gregorian calendar repeats: 146,097 days, which are whole weeks

_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ROOM: Final = 366 + 7  # bits of a comb: a year and the week that hangs over its end


@dataclass(frozen=True, slots=True)
class Year:
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
    lengths = [days + (month == 2 and isleap(year)) for month, days in enumerate(_LENGTHS, start=1)]
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
