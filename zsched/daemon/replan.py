"""
The two causes of planning anew (``replanning``): other rules of zones, and other calendars.

**Zone rules.** ``meta.tzdata`` is the version of the tz database by which all schedules are planned: the leader's
(``core.occurrences.planning`` has the rules of a move). One-shots that were given as local time follow the recurring
schedules: each is put at its new time, as a client would put it. A signature covers the time, so a signed one keeps its
instant; ``zsched status`` lists it.

Due schedules are checked *before* they fire (``Replanner.keep_back``). If one fired by the old rules, its successor
would be computed by the new ones, and an occurrence could fire twice. If daemons have different data, each one re-plans
when it takes over, and logs that.

Not guaranteed: a one-shot that is due before its page is read fires by the old rules. A client with other rules may put
a schedule later, and that schedule follows the client's rules. New tz data is used only after a restart of the daemon:
the leader checks hourly, and logs ``zone_rules_installed``.

**Calendars.** ``meta.calendars`` is the entry of the last change, which the leader reads every second;
``meta.planned_calendars`` is the one by which all schedules are planned. A waiting occurrence that is still to come
moves to the first open time after now: to an earlier one if a time was opened. One whose time has come stays: the plan
of its tick records it as excluded, if it is by then. So nothing fires twice, or on a day that is excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

import structlog

from zsched.core.clock import Clock
from zsched.core.entry import text
from zsched.core.occurrences.planning import Move, move_of, reopened
from zsched.core.record import Record
from zsched.core.triggers.calendars import NO_CALENDARS, Calendars
from zsched.core.triggers.exclusions import is_name
from zsched.core.triggers.trigger import spec_of
from zsched.daemon.replanning import Replanning
from zsched.storage.calendars import read_calendars
from zsched.storage.connection import Wire
from zsched.storage.dispatch import FireResult
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.zone_rules import ZoneRules, installed

log = structlog.get_logger(__name__)


class Replanner(Replanning):
    """Plans schedules by this process' zone rules: *rules*, read at its start. *calendars*: those that rules name."""

    field = "tzdata"
    refused = "zone_rules_not_applied"
    look_every_ms = 3_600_000.0

    def __init__(
        self,
        wire: Wire,
        keys: Keys,
        rules: ZoneRules,
        clock: Clock,
        calendars: Callable[[], Calendars] = lambda: NO_CALENDARS,
    ) -> None:
        super().__init__(wire, keys, clock, rules.version)
        self._rules = self._noticed = rules
        self._calendars = calendars
        self._kept = 0

    def look(self) -> None:
        """Check for newly installed tz data; log each version once."""
        now = installed()
        if now not in (self._noticed, self._rules):
            remedy = "restart the daemon: until then it plans by the old ones"
            log.warning("zone_rules_installed", old=str(self._rules), new=str(now), remedy=remedy)
        self._noticed = now

    def keep_back(self, term: Term, fired: FireResult) -> FireResult:
        """
        Move the recurring schedules in *fired* that have another time by our rules, before they fire by the old ones.
        Return *fired* without them; they are read again at once. Raises as ``step_if_free``, RedisRefused.
        """
        if not fired.recurring or self.is_settled(term):
            return fired
        moved, _ = self.move(term, [text(due.id) for due in fired.recurring if _is_of_zone(due.trigger)])
        if not moved:
            return fired
        staying = [due for due in fired.recurring if text(due.id) not in moved]
        return replace(fired, recurring=staying, next_ms=fired.now_ms)

    def _move_of(self, record: Record, now_ms: int) -> Move | None:
        return move_of(record, self._calendars())

    def _ids(self) -> Iterable[list[str]]:
        return chain(super()._ids(), self._scanner.ids_in_places())

    def _begin(self, term: Term) -> None:
        if self.version is None:
            log.warning("zone_rules_unknown", source=self._rules.source, remedy="install tzdata with its tzdata.zi")
        super()._begin(term)
        self._kept = 0

    def _move_once(self, moves: Sequence[Move]) -> int:
        """Put one-shots at their times by our rules; note the signed ones."""
        by = f"zone rules {self._before or 'unknown'} → {self.version}"
        for move in (move for move in moves if move.is_signed):  # few are, and few zones change
            times = f"{move.record.due_ms} {move.due_ms}"
            self._wire.execute("HSET", self._keys.kept_local(), move.record.id, times)
            self._kept += 1
        return sum(self._dispatch.move_once([move for move in moves if not move.is_signed], by))

    def _tell(self) -> None:
        source, version = self._rules.source, self.version
        if self._before or self._moved:
            about = {"old": self._before or "unknown", "new": version, "moved": self._moved, "kept": self._kept}
            log.warning("zone_rules_changed", **about, source=source)
        else:
            log.info("zone_rules_noted", version=version, source=source)


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


@lru_cache(maxsize=50_000)  # cached results: computing each by its rule would take twice as long (measured)
def _is_of_zone(trigger: bytes) -> bool:
    try:
        return spec_of(trigger).is_of_zone
    except Exception:  # a stored rule can make Python raise any exception
        return False
