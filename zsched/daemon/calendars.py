"""
Calendars in the leader: read when they change, for its plans; and all schedules that name one are planned anew.

``meta.calendars`` is the entry of the last change, which the leader reads every second; ``meta.planned_calendars`` is
the one by which all schedules are planned (``replanning``). A waiting occurrence that is still to come moves to the
first open time after now: to an earlier one if a time was opened. One whose time has come stays: the plan of its tick
records it as excluded, if it is by then. So nothing fires twice, or on a day that is excluded.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from zsched.core.entry import text
from zsched.core.occurrences.planning import Move, reopened
from zsched.core.record import Record
from zsched.core.triggers.calendars import NO_CALENDARS, Calendars
from zsched.core.triggers.exclusions import is_name
from zsched.daemon.replanning import Replanning
from zsched.storage.calendars import read_calendars

log = structlog.get_logger(__name__)


class CalendarReplanner(Replanning):
    """Has the ``present`` calendars, and plans by them."""

    field = "planned_calendars"
    refused = "calendars_not_applied"
    look_every_ms = 1000.0
    _present = NO_CALENDARS  # of ``version``, the entry of the last change; None: the namespace never had a calendar

    def present(self, names: Sequence[str] = ()) -> Calendars:
        """Return the calendars of a second ago at most; read anew, if one in *names* was unknown then."""
        if any(name not in self._present for name in names if is_name(name)):
            self.look()
        return self._present

    def look(self) -> None:
        """Read the calendars, if they changed."""
        found = self._wire.execute("HGET", self._keys.meta(), "calendars")
        version = None if found is None else text(found)
        if version != self.version:
            self._present, self.version = read_calendars(self._wire, self._keys), version
            self._term = ""  # compare once more

    def _move_of(self, record: Record, now_ms: int) -> Move | None:
        return reopened(record, self._present, now_ms)

    def _tell(self) -> None:
        log.info("calendars_changed", names=sorted(self._present), moved=self._moved)
