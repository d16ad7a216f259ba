"""Times of day as a set: every combination of some hours, minutes and seconds."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


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
