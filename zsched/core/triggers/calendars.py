"""
Calendars as a value: the named sets of excluded times that a namespace has once, for all its schedules.

``calendar_definition`` makes them from texts; ``exclusions`` joins their closures with a schedule's own texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from zsched.core.wording import alternatives
from zsched.errors import UnknownCalendar

if TYPE_CHECKING:
    from zsched.core.triggers.calendar_definition import Calendar
    from zsched.core.triggers.spec import Rule


class Closed(NamedTuple):
    """[start_ms, end_ms) of excluded instants, and why: words, joined by semicolons."""

    start_ms: int
    end_ms: int
    why: str


class Closure(NamedTuple):
    """
    The excluded times of one text: *length_ms* from each occurrence of *starts* on; *why*: a word. They are on the
    clock of each zone, where *starts* is read as if it were UTC; otherwise instants.
    """

    why: str
    starts: Rule
    length_ms: int
    is_on_clock: bool = True

    def spans(self, start_ms: int, end_ms: int, offset_ms: int) -> Iterator[Closed]:
        """Yield the times that overlap [start_ms, end_ms), in which the zone has the offset *offset_ms*."""
        ahead_ms = offset_ms if self.is_on_clock else 0
        for at_ms in self.starts.between(start_ms + ahead_ms - self.length_ms, end_ms + ahead_ms - 1):
            yield Closed(at_ms - ahead_ms, at_ms - ahead_ms + self.length_ms, self.why)


class Calendars(dict[str, "Calendar"]):
    """The calendars of a namespace by name, read at one time: a value by identity, which is never changed."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # a key of caches
    __eq__ = object.__eq__

    def __missing__(self, name: str) -> Calendar:
        known = f"name {alternatives([*self])}, or put it first" if self else "put it first: this namespace has none"
        raise UnknownCalendar("exclude", name, "no calendar of this namespace", known)


NO_CALENDARS: Final = Calendars()
