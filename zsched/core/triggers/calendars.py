"""
Calendars as a value: the named sets of excluded times that a namespace has once, for all its schedules.

``calendar_definition`` makes them from texts; ``exclusions`` joins them with a schedule's own texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from zsched.core.wording import alternatives
from zsched.errors import UnknownCalendar

if TYPE_CHECKING:
    from zsched.core.triggers.calendar_definition import Calendar


class ClosedSpan(NamedTuple):
    """[start_s, end_s) of excluded instants, and the word that says why. As a ``Closure``, the same on every clock."""

    start_s: int
    end_s: int
    word: str

    def spans(self, start_s: int, end_s: int, offset_s: int) -> Iterable[ClosedSpan]:
        """Return itself."""
        return (self,)


class Closure(Protocol):
    """The excluded times of one text, or of a calendar."""

    def spans(self, start_s: int, end_s: int, offset_s: int) -> Iterable[ClosedSpan]:
        """Yield the spans that overlap [start_s, end_s), in which the zone has the offset *offset_s*."""
        ...


class Calendars(dict[str, "Calendar"]):
    """The calendars of a namespace by name, read at one time: a value by identity, which is never changed."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # a key of caches
    __eq__ = object.__eq__

    def __missing__(self, name: str) -> Calendar:
        known = f"name {alternatives([*self])}, or put it first" if self else "put it first: this namespace has none"
        raise UnknownCalendar("exclude", name, "no calendar of this namespace", known)


NO_CALENDARS: Final = Calendars()
