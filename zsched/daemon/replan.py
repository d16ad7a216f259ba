"""
Planning anew: after a change of what times follow from, read all recurring schedules, and move those with another time.

A field of meta has the *version* by which all schedules are planned. A term begins with a comparison. If this process
has another version, all recurring schedules are read, a page at a time. A schedule is moved if its next occurrence
differs. The log records the old and the new time::

    asking ──► the version is ours ──► settled: nothing to do
       └─────► another, or none ─────► moving: a page in every pass that has the time ──► settled: it is ours now

The firing thread does this. It is not a chore, because it must not wait for an archive. A page takes a few ms. No page
begins when a schedule is due within that time; if that is always so, pages get a tenth of the time. So due schedules do
not wait, however many there are.

If a term ends too early, the version stays, and the next term begins again; nothing moves twice.

There are two causes: other rules of zones, and other calendars.

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

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import ClassVar, Final

import structlog

from zsched.core.clock import Clock
from zsched.core.entry import text
from zsched.core.occurrences.planning import Move, move_of, reopened
from zsched.core.pages import pages_of
from zsched.core.record import Record
from zsched.core.triggers.exclusions import is_name
from zsched.core.triggers.spec import NO_CALENDARS, Calendars
from zsched.core.triggers.trigger import spec_of
from zsched.daemon.tick import Tick
from zsched.errors import RedisRefused
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch, FireResult
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.named_texts import read_calendars
from zsched.storage.records import Scanner, read_records
from zsched.storage.scripts import Scripts
from zsched.zone_rules import ZoneRules, installed

log = structlog.get_logger(__name__)

_PAGE: Final = 50  # schedules read and planned at a time: some 3 ms (measured), most of it here
_AT_ONCE: Final = 100  # moves per script
_SHARE: Final = 10  # one part in this many of the time, while schedules are always due
_RETRY_MS: Final = 5_000.0  # after a refusal


class Replanning(ABC):
    """One cause of planning anew. One per connection; the leader's loop calls ``step_if_free`` in each pass."""

    field: ClassVar[str]  # of meta, with the version by which all schedules are planned
    refused: ClassVar[str]  # the event of a refusal
    look_every_ms: ClassVar[float]

    def __init__(self, wire: Wire, keys: Keys, clock: Clock, version: str | None = None) -> None:
        self._wire, self._keys, self._clock = wire, keys, clock
        self._dispatch, self._scanner, self._scripts = Dispatch(wire, keys), Scanner(wire, keys), Scripts(wire, keys)
        self.version = version  # by which schedules are to be planned; None: it is unknown, and nothing moves
        self._term = ""  # the term for which the following holds
        self._is_settled = False
        self._before = ""  # the version by which all schedules were planned
        self._pages: Iterator[list[str]] = iter(())  # of ids
        self._moved = 0
        self._next_ms = self._takes_ms = 0.0  # monotonic: when a page may take firing time; how long the last one took
        self._look_ms = clock.monotonic_ms() + self.look_every_ms
        self._refusal: str | None = None

    @abstractmethod
    def look(self) -> None:
        """Look for another version."""

    @abstractmethod
    def _move_of(self, record: Record, now_ms: int) -> Move | None:
        """Return the move of *record*, read at *now_ms* of the server; None if it stays. May raise anything."""

    @abstractmethod
    def _tell(self) -> None:
        """Log that all schedules are planned by ``version`` now."""

    def _ids(self) -> Iterable[list[str]]:
        """Return the ids of the schedules to look at; some may come twice."""
        return self._scanner.ids_of_rules()

    def _move_once(self, moves: Sequence[Move]) -> int:
        """Move one-shots, and return the number of moved ones."""
        return 0

    def is_settled(self, term: Term) -> bool:
        """Return True if all schedules are planned by our version. Asks when *term* is new."""
        if self._term != term.token:
            self._begin(term)
        return self._is_settled

    def step_if_free(self, term: Term, tick: Tick) -> bool:
        """
        Move a page of schedules, if some are left and there is time for it after *tick*. Return True if it was done.

        A refusal by Redis is logged once, and tried again. Raises Stale, ServerChanged, RedisUnavailable.
        """
        if (began_ms := self._clock.monotonic_ms()) >= self._look_ms:
            self._look_ms = began_ms + self.look_every_ms
            self.look()
        if tick.wait_ms is not None or self.is_settled(term):  # during a hold: restored schedules are moved afterwards
            return False
        began_ms = self._clock.monotonic_ms()
        if began_ms < self._next_ms and (self._refusal is not None or self._is_something_due(tick, began_ms)):
            return False
        try:
            self._step(term)
        except RedisRefused as error:  # firing goes on
            self._begin_again(str(error))
            return False
        ended_ms = self._clock.monotonic_ms()
        self._refusal, self._takes_ms = None, ended_ms - began_ms
        self._next_ms = ended_ms + (_SHARE - 1) * (ended_ms - began_ms)
        return True

    def move(self, term: Term, ids: Sequence[str]) -> tuple[set[str], list[str]]:
        """
        Move the schedules of *ids* that have another time by our version. Return the moved ids of recurring ones, and
        the ids of those changed meanwhile.
        """
        found = list[Move]()
        for page_read in read_records(self._scripts, self._keys, dict.fromkeys(ids)):  # each once
            for record in page_read.records:
                with suppress(Exception):  # a stored rule can make Python raise any; it is quarantined when it is due
                    if (move := self._move_of(record, page_read.now_ms)) is not None:
                        found.append(move)
        self._moved += self._move_once([move for move in found if move.record.run])
        moves, moved = [move for move in found if not move.record.run], set[str]()
        for page in pages_of(moves, _AT_ONCE):
            done = self._dispatch.replan(term, self.field, self.version or "", page)
            moved |= {move.record.id for move in done.moved}
        self._moved += len(moved)
        return moved, [move.record.id for move in moves if move.record.id not in moved]

    def _begin(self, term: Term) -> None:
        if self.version is None:
            self._is_settled = True
        else:
            self._before = self._dispatch.replan(term, self.field, self.version).before
            self._is_settled = self._before == self.version
        self._restart()
        self._moved, self._term = 0, term.token

    def _restart(self) -> None:
        self._pages = pages_of(chain.from_iterable(self._ids()), _PAGE)

    def _step(self, term: Term) -> None:
        if (page := next(self._pages, None)) is not None:
            _, changed = self.move(term, page)
            if changed:  # a client was quicker: read once more
                self.move(term, changed)
            return
        self._dispatch.replan(term, self.field, self.version or "", is_done=True)
        self._is_settled = True
        self._tell()

    def _begin_again(self, reason: str) -> None:
        if self._refusal is None:
            log.warning(self.refused, version=self.version, reason=reason)
        self._refusal = reason
        self._restart()
        self._next_ms = self._clock.monotonic_ms() + _RETRY_MS

    def _is_something_due(self, tick: Tick, now_ms: float) -> bool:
        """Return True if something is due, or will be before a page is done."""
        if tick.has_more or tick.next_ms is None:
            return tick.has_more
        return tick.next_ms - tick.server_offset_ms - now_ms <= self._takes_ms


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
        if (now := installed()) not in (self._noticed, self._rules):
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
    with suppress(Exception):  # a stored rule can make Python raise any
        return spec_of(trigger).is_of_zone
    return False
