"""
The value of a recurrence rule (RFC 5545 section 3.3.10): its parts, and the one text for them.

``rrule`` reads texts into it, ``recurrence`` evaluates it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class Frequency(Enum):
    """The unit of repetition; the value is the largest INTERVAL, about 100 years."""

    DAILY = 36_525
    WEEKLY = 5_218
    MONTHLY = 1_200
    YEARLY = 100


@dataclass(frozen=True, slots=True)
class Parts:
    """
    A rule without COUNT. Lists are ascending and without repeats, empty when the part is absent.

    ``days`` holds (n, weekday) with n = 0 for every one of them; weekdays are 0 = Monday.
    """

    freq: Frequency
    interval: int = 1
    until_ms: int | None = None
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

    def to_text(self) -> str:
        """The canonical RRULE value: equal rules give equal text. INTERVAL=1 and WKST=MO are left out."""
        found = [f"FREQ={self.freq.name}"]
        if self.interval != 1:
            found.append(f"INTERVAL={self.interval}")
        if self.until_ms is not None:
            until = datetime.fromtimestamp(self.until_ms // 1000, UTC)
            found.append(f"UNTIL={until.year:04}{until:%m%dT%H%M%SZ}")
        for key, name in LISTS.items():
            values: tuple[int, ...] = getattr(self, name)
            if values:
                found.append(f"{key}={','.join(map(str, values))}")
            if key == "BYMONTHDAY" and self.days:
                found.append("BYDAY=" + ",".join(f"{n or ''}{WEEKDAYS[day]}" for n, day in self.days))
        if self.week_start:
            found.append(f"WKST={WEEKDAYS[self.week_start]}")
        return ";".join(found)


LISTS: Final = {
    "BYMONTH": "months",
    "BYWEEKNO": "week_numbers",
    "BYYEARDAY": "year_days",
    "BYMONTHDAY": "month_days",
    "BYHOUR": "hours",
    "BYMINUTE": "minutes",
    "BYSECOND": "seconds",
    "BYSETPOS": "positions",
}
"""The parts that are lists of numbers, in canonical order; BYDAY comes after BYMONTHDAY."""
