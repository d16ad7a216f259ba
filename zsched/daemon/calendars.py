"""
Calendars in the leader: read when they change, for its plans; and all schedules that name one are planned anew.

``meta.calendars`` is the entry of the last change, which the leader reads every second; ``meta.planned_calendars`` is
the one by which all schedules are planned (``replanning``). A waiting occurrence that is still to come moves to the
first open time after now: to an earlier one if a time was opened. One whose time has come stays: the plan of its tick
records it as excluded, if it is by then. So nothing fires twice, or on a day that is excluded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import structlog

from zsched.core.clock import Clock
from zsched.core.entry import text
from zsched.core.occurrences.planning import Move, reopened
from zsched.core.record import Record
from zsched.core.triggers.calendars import NO_CALENDARS, Calendars
from zsched.core.triggers.exclusions import is_name
from zsched.daemon.replanning import Replanning
from zsched.storage.calendars import read_calendars
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms

log = structlog.get_logger(__name__)

_LOOK_MS: Final = 1000.0


class CalendarReplanner(Replanning):
    """Has the ``present`` calendars, and plans by them."""

    field = "planned_calendars"
    refused = "calendars_not_applied"

    def __init__(self, wire: Wire, keys: Keys, clock: Clock) -> None:
        super().__init__(wire, keys, clock)
        self._present = NO_CALENDARS
        self._now_ms = 0  # of the server, when the page was read
        self._version: str | None = None
        self._look_ms = 0.0

    @property
    def version(self) -> str | None:
        """The entry of the last change; None: the namespace never had a calendar."""
        return self._version

    def present(self, names: Sequence[str] = ()) -> Calendars:
        """Return the calendars of a second ago at most; read anew, if one in *names* was unknown then."""
        if any(name not in self._present for name in names if is_name(name)):
            self.look()
        return self._present

    def look(self) -> None:
        """Read the calendars, if they changed."""
        found = self._wire.execute("HGET", self._keys.meta(), "calendars")
        version = None if found is None else text(found)
        if version != self._version:
            self._present, self._version = read_calendars(self._wire, self._keys), version
            self._term = ""  # compare once more
        self._look_ms = self._clock.monotonic_ms() + _LOOK_MS

    def _look_if_due(self) -> None:
        if self._clock.monotonic_ms() >= self._look_ms:
            self.look()

    def _moves(self, ids: Sequence[str]) -> Iterator[Move]:
        self._now_ms = server_now_ms(self._wire, self._keys)
        return super()._moves(ids)

    def _move_of(self, record: Record) -> Move | None:
        try:
            return reopened(record, self._present, self._now_ms)
        except Exception:  # a stored rule can make Python raise any exception
            return None

    def _tell(self) -> None:
        log.info("calendars_changed", names=sorted(self._present), moved=self._moved)
