"""
The auditor: the leader searches for occurrences that should have fired and did not, or that never will.

It does not trust the code that fires. The expected state comes from elsewhere: the archive's state, folded from the
log, and the rules in it. A *pass* checks a part of it, and a *round* of passes checks all of it::

    a minute after the term began, and after every pass:
    begin ──► pages of 100 schedules, a pause after each ──► end: the summary
      │          of every pass: the oldest that should have fired by now; faults that were not repaired last time;
      │          those in quarantine; the next 2,500 of the round; schedules only in Redis, among its next 2,500
      └── a hold, an archive that is restoring: nothing is checked, soon again

So an overdue schedule is found within two minutes, however many schedules there are. All others are found within a
round: a minute per 2,500 schedules. The reconciler (``daemon.reconciler``) compares a page. It takes the archive's
state as of one entry, P; the page's schedules in Redis; and the log from P to the moment of that read, all of one
history. A schedule that an entry after P touched is not judged. The other schedules must be equal in state and Redis,
whatever clients and daemons do meanwhile. A difference comes from another writer, or from a bug
(``core.recovery.audit``).

An occurrence that was not pushed, because RQ already had a job of its run, is also a fault if the history never pushed
that run (``archive.ran``). It cannot be repaired: it counts as an alarm for an hour.

A fault is logged with the expected and the found state. It is repaired by a ``restore`` (reason: audit). Redis refuses
the restore if the log grew meanwhile; then it is repeated a few times, and in the next pass. The occurrence then fires
late, and all of this is recorded. A schedule that the log never had is left alone: ``fire`` quarantines it.

``fire`` also quarantines a schedule whose hash or template is gone when it is due. So each second the auditor looks for
new schedules in quarantine, and examines them at once: what the archive knows is back within two seconds.

Not guaranteed: a Redis command by another writer may do harm before it is noticed. An archive with entries that this
version cannot read proves nothing, since these entries may have changed its state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import structlog

from zsched.archive.recall import Recall, recalling_beside
from zsched.core.clock import Clock
from zsched.core.log import Entry, Position, UnknownEntry, touches
from zsched.core.model import iso
from zsched.core.pages import pages_of
from zsched.core.record import Record
from zsched.core.recovery.audit import (
    GRACE_MS,
    Alarm,
    Event,
    is_overdue,
    left_out,
    may_be_left_out,
    misplaced,
    unknown_schedule,
)
from zsched.core.recovery.difference import Recalled
from zsched.daemon.archiver import Archiver
from zsched.daemon.causes import Causes
from zsched.daemon.reconciler import HistoryChanged, Reconciler
from zsched.daemon.suppressed import SuppressedRuns
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log
from zsched.storage.restoring import Restoring
from zsched.storage.scanner import Placement, Scanner

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 60_000.0  # from the end of a pass to the next
_PAUSE_MS: Final = 50.0  # between pages, for other threads and other clients
_AGAIN_MS: Final = 5_000.0  # before a failed pass is tried again
_LOOK_MS: Final = 1_000.0  # between looks for new schedules in quarantine
_PAGE: Final = 100  # schedules: 1.5 ms of the server (measured)
_ROUND: Final = 2_500  # schedules in one pass, of the round through all of them
_CHOSEN: Final = 10  # passes whose schedules are chosen at once: 0.3 s for the state of a million (measured)
_OLDEST: Final = 400  # overdue schedules that every pass checks
_SCANNED: Final = 13  # replies with ids that Redis holds, or that are in quarantine, in one pass: 2,600 members
_STRANGERS: Final = 200  # ids unknown to the state, in one pass
_BEHIND: Final = 5_000  # log entries behind the archive: if there are more, it has to catch up first
_TRIES: Final = 3  # attempts to repair a fault while the log grows
_MOST_LOGGED: Final = 50  # alarms logged one by one in a pass
_REMEMBERED: Final = 10_000  # lasting alarms that are not logged again
_JUMP_MS: Final = 2_000.0  # of the server's clock against the monotonic one
_START: Final = (-1, -1)


@dataclass(slots=True)
class Pass:
    """One pass: the remaining pages, and the results so far. ``is_whole``: not only of new ones in quarantine."""

    pages: deque[list[str]]
    is_whole: bool
    due: int = 0  # number of overdue schedules, by the archive
    now_ms: int = 0
    checked: int = 0
    alarms: int = 0
    repaired: int = 0
    logged: int = 0
    overdue: list[tuple[int, str]] = field(default_factory=list)  # waiting schedules that should have fired; due ms, id
    throttled: int = 0  # throttled schedules, which are no alarm


class Inspection:
    """
    The policy of one page: schedules by *recall*, and their places found by the *look*. Schedules that other writers
    touched since the archive's last entry are not judged. ``well``: schedules in their right place.
    """

    def __init__(self, recall: Recall, look: Placement, run_suffix: str, causes: Causes) -> None:
        self._recall, self._look, self._run_suffix, self._causes = recall, look, run_suffix, causes
        self.touched = set[str]()
        self.judged, self.repaired = set[str](), set[str]()
        self.alarms: dict[str, Alarm] = {}
        self.well: list[Record] = []

    def add_entry(self, entry: Entry) -> set[str]:
        """Return the schedules that *entry* touched. Raises UnknownEntry."""
        touched = {id for (id, _), _ in touches(entry, self._run_suffix)}
        self.touched |= touched
        return touched

    def judge(self, page: Sequence[Recalled], held: Mapping[str, Record]) -> list[Record]:
        """Find the faults; return the rows that repair them."""
        for one in page:
            if one.id in self.touched:
                continue
            self.judged.add(one.id)
            alarm = self._alarm(one.id, one.schedule, held.get(one.id))
            if alarm is not None:
                self.alarms[one.id] = alarm
            elif one.schedule is not None:
                self.well.append(one.schedule)
        return [alarm.row for alarm in self.alarms.values() if alarm.row is not None]

    def record_restored(self, rows: Sequence[Record]) -> None:
        """Note that *rows* were put back."""
        self.repaired |= {row.id for row in rows}

    def _alarm(self, id: str, known: Record | None, here: Record | None) -> Alarm | None:
        """Return the faults of one schedule."""
        look = self._look
        if known is None:
            return unknown_schedule(id, look.places[id]) if look.places[id] else None
        is_released = known.place == "quarantine" and self._causes.is_over(known.note)
        alarm = misplaced(known, here, look.places[id], look.statuses[id], is_released=is_released)
        known_ms = known.t_us // 1000
        if alarm is None and may_be_left_out(known, known_ms, look.now_ms) is not None:
            missing_ms = may_be_left_out(known, max(known_ms, self._recall.told_ms(id)), look.now_ms)
            alarm = left_out(known, missing_ms) if missing_ms is not None else None
        return alarm


class Auditor:
    """Makes passes over the latest wire. ``name``, ``every_ms`` and ``step`` are for the ``ChoreThread``."""

    name: Final = "auditor"

    def __init__(self, archiver: Archiver, keys: Keys, clock: Clock) -> None:
        self._archiver, self._keys, self._clock = archiver, keys, clock
        self.every_ms = _LOOK_MS
        self._next_ms = 0.0  # monotonic: when the next whole pass begins
        self._examined = set[str]()  # schedules in quarantine that were looked at in this term
        self._cursor = _START  # of the round
        self._chosen = deque[str]()  # the next schedules of the round
        self._again: list[str] = []  # faults that could not be repaired
        self._lasting: dict[str, tuple[Event, str]] = {}  # logged faults that last, by id
        self._overdue: str | None = None  # the oldest logged overdue schedule
        # The first due time of a state: an archive, its life, and its last entry.
        self._first_due: tuple[tuple[str, int, Position], int | None] | None = None
        self._term = ""  # the term for which the following holds
        self._steady: tuple[int, float] | None = None  # TIME and the monotonic clock at the last look
        self._since_ms = 0  # firing without a break since then
        self._suppressed = SuppressedRuns()

    def over(self, wire: Wire) -> Auditor:
        """Use *wire* from now on."""
        self._wire, self._log = wire, Log(wire, self._keys)
        self._scanner = Scanner(wire, self._keys)
        self._members = self._scanner.ids_in_places()
        self._pass: Pass | None = None
        return self

    def step(self, term: Term) -> bool:
        """
        Begin a pass and check a page, or check the next one. In a new term, only read the clock.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused, ArchiveError.
        """
        now_ms = self._clock.monotonic_ms()
        self.every_ms = _LOOK_MS
        if self._term != term.token:
            self._term, self._pass, self._steady = term.token, None, None
            self._note_clock(self._scanner.places(term, []))
            self._next_ms, self._examined = now_ms + _EVERY_MS, set()
            return False
        going = self._pass
        if going is None and now_ms >= self._next_ms:
            going, self._next_ms = self._begin(term), now_ms + _AGAIN_MS
        elif going is None and (new := self._in_quarantine() - self._examined):
            going = Pass(deque(pages_of(sorted(new), _PAGE)), is_whole=False)
        self._pass = None
        if going is None:
            return False
        page = going.pages.popleft() if going.pages else []
        if page and not self._look_at(going, term, page):
            going.pages.appendleft(page)
            self._pass, self.every_ms = going, _AGAIN_MS if going.is_whole else _LOOK_MS
        elif going.pages:
            self._pass, self.every_ms = going, _PAUSE_MS
        elif going.is_whole:
            self._end(going)
            self._next_ms = self._clock.monotonic_ms() + _EVERY_MS
        return False

    # -- a pass -----------------------------------------------------------------------------------

    def _begin(self, term: Term) -> Pass | None:
        """Choose the pages of a pass; None if nothing can be concluded now."""
        path, look = self._archiver.path, self._scanner.places(term, [])
        self._note_clock(look, is_held=look.is_held())
        if path is None or look.is_held() or self._is_something_lost(look):
            return None
        with recalling_beside(path) as (recall, position):
            if position is None:
                return None
            due, oldest = self._overdue_in(recall, position, look.now_ms - GRACE_MS)
            next = self._next_of_round(recall)
            strangers = list(islice(self._strangers(recall), _STRANGERS))
        again, self._again = self._again, []
        ids = list(dict.fromkeys([*oldest, *again, *self._in_quarantine(), *next, *strangers]))
        pages = deque(pages_of(ids, _PAGE))
        going = Pass(pages, is_whole=True, due=due, now_ms=look.now_ms)
        suppressed, going.alarms = self._suppressed.read_new(path, look.now_ms)
        for alarm in suppressed:
            self._say(going, alarm, is_repaired=False)
        return going

    def _overdue_in(self, recall: Recall, position: Position, before_ms: int) -> tuple[int, list[str]]:
        """
        Return the number of schedules due before *before_ms*, and the oldest of them. While nothing is logged, the
        first due time stays as it is, so the rows need not be read again.
        """
        state = recall.archive, recall.life, position
        if self._first_due is None or self._first_due[0] != state:
            self._first_due = state, recall.first_due_ms()
        first_ms = self._first_due[1]
        return (0, []) if first_ms is None or first_ms >= before_ms else recall.overdue(before_ms, _OLDEST)

    def _next_of_round(self, recall: Recall) -> list[str]:
        """
        Return the schedules of the round for one pass. They are chosen for some passes at once, only by id: each pass
        reads their data again. A schedule that is put meanwhile comes later in the round, or in the next one.
        """
        if not self._chosen:
            limit = _CHOSEN * _ROUND
            found = recall.next_ids(self._cursor, limit)
            self._cursor = found[-1][1] if len(found) == limit else _START
            self._chosen.extend(id for id, _ in found)
        return [self._chosen.popleft() for _ in range(min(_ROUND, len(self._chosen)))]

    def _note_clock(self, look: Placement, *, is_held: bool = False) -> None:
        """Return the time since when firing works: setting the clock makes many schedules due at once."""
        elapsed_ms = self._clock.monotonic_ms()
        if (
            is_held
            or self._steady is None
            or abs(look.now_ms - self._steady[0] - (elapsed_ms - self._steady[1])) > _JUMP_MS
        ):
            self._since_ms = look.now_ms
        self._steady = look.now_ms, elapsed_ms

    def _is_something_lost(self, look: Placement) -> bool:
        """Return True if an archive has data that Redis lost, and is about to put it back."""
        reports = Archivers(self._wire, self._keys).reports()
        return any(each.state is ArchiveState.LOST and each.is_recent(look.now_ms) for each in reports)

    def _in_quarantine(self) -> set[str]:
        """Return the schedules in quarantine, at most some thousands."""
        found = self._scanner.ids_in_quarantine()
        ids = {id for page in islice(found, _SCANNED) for id in page}
        self._examined &= ids  # one that comes back is new
        return ids

    def _strangers(self, recall: Recall) -> Iterator[str]:
        """Yield ids that Redis holds and the state does not, among the next that Redis names."""
        for _ in range(_SCANNED):
            members = next(self._members, None)
            if members is None:
                self._members = self._scanner.ids_in_places()
                return
            yield from recall.absent(members) if members else ()

    def _end(self, done: Pass) -> None:
        if done.overdue:
            due_ms, id = min(done.overdue)
            done.alarms += 1
            if self._overdue != id:
                is_backlog = done.due > _OLDEST and not done.throttled  # then these are all that the archive has
                count = done.due if is_backlog else len(done.overdue)
                expected, found = f"fired {iso(due_ms)}", "waiting"
                log.error(Event.OVERDUE.value, schedule_id=id, expected=expected, found=found, overdue=count)
            self._overdue = id
        else:
            self._overdue = None
        if done.logged > _MOST_LOGGED:
            log.error("audit_found_more", alarms=done.logged - _MOST_LOGGED)
        self._archiver.audit = {
            "at": done.now_ms, "checked": done.checked, "alarms": done.alarms, "repaired": done.repaired,
        }  # fmt: skip

    # -- a page -----------------------------------------------------------------------------------

    def _look_at(self, going: Pass, term: Term, ids: Sequence[str]) -> bool:
        """Compare *ids* with Redis, log and repair the faults. Return False if nothing can be concluded now."""
        path = self._archiver.path
        assert path is not None  # the pass began with it
        with recalling_beside(path) as (recall, position):
            if position is None:
                return False
            page = list(recall.known(ids))
            look = self._scanner.places(term, [(one.id, one.schedule.run if one.schedule else "") for one in page])
            self._note_clock(look, is_held=look.is_held())
            if look.is_held() or look.tail is None or look.tail.seq - position.seq > _BEHIND:
                return False
            inspection = Inspection(recall, look, self._keys.run_suffix, Causes(self._wire))
            restoring = Restoring(self._wire, self._keys, recall.archive, "audit", 0)
            reconciler = Reconciler(self._log, self._scanner, restoring, inspection, position)
            try:
                reconciler.read_to(look.tail)
                rows = reconciler.compare(page)
            except (HistoryChanged, UnknownEntry):
                return False
        going.checked, going.now_ms = going.checked + len(ids), look.now_ms
        for held in inspection.well:
            if look.is_throttled(held.id):
                going.throttled += 1
            elif is_overdue(held, self._since_ms, look.now_ms):
                going.overdue.append((held.due_ms or 0, held.id))
        for id in inspection.judged - inspection.alarms.keys():
            self._lasting.pop(id, None)
        with suppress(HistoryChanged, UnknownEntry):
            for _ in islice(reconciler.put_back(rows), _TRIES):  # while the log goes on
                pass
        left = {id for id, alarm in inspection.alarms.items() if alarm.row is not None} - inspection.repaired
        self._examined |= {id for id in ids if "quarantine" in look.places[id]} - inspection.touched - left
        self._say_all(going, inspection)
        return True

    # -- alarms -----------------------------------------------------------------------------------

    def _say_all(self, going: Pass, inspection: Inspection) -> None:
        """Log each alarm, and note the unrepaired ones: they are compared again in the next pass."""
        repaired = inspection.repaired
        for alarm in inspection.alarms.values():
            self._say(going, alarm, is_repaired=alarm.id in repaired)
            if alarm.row is not None and alarm.id not in repaired and len(self._again) < _ROUND:
                self._again.append(alarm.id)
        going.repaired += len(repaired)

    def _say(self, going: Pass, alarm: Alarm, *, is_repaired: bool) -> None:
        """Log a fault; a lasting fault only once."""
        going.alarms += 1
        if self._lasting.get(alarm.id) == (alarm.event, alarm.found):
            if is_repaired:
                self._lasting.pop(alarm.id)
            return
        if is_repaired:
            self._lasting.pop(alarm.id, None)
        elif len(self._lasting) < _REMEMBERED:
            self._lasting[alarm.id] = alarm.event, alarm.found
        going.logged += 1
        if going.logged <= _MOST_LOGGED:
            log.error(
                alarm.event.value,
                schedule_id=alarm.id,
                expected=alarm.expected,
                found=alarm.found,
                repaired=is_repaired,
            )
