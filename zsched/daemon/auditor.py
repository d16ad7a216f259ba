"""
The auditor: the leader looks for what should have fired and did not, and for what will not.

Nothing of it trusts what fires. What should be is known from elsewhere: the archive's state, which is folded from the
log, and the rules in it. A *pass* looks at a part of that, a *round* of passes at all of it::

    a minute after the term began, and after every pass:
    begin ──► pages of 100 schedules, a pause after each ──► end: the summary
      │          of every pass: the oldest that should have fired by now; what was not put right last time;
      │          the next 2,500 of the round; what Redis holds and the state does not, among its next 2,500
      └── a hold, an archive that is putting back: nothing is looked at, soon again

So what should have fired is found two minutes later however many schedules there are, the rest within a round: a minute
for every 2,500 of them. A page is the archive's state as of one entry, P; what Redis holds of the page's schedules,
read together with the log's tail; and the log from P to its end. The log must have P and that tail, so all of it is of
one history; and of what an entry behind P touched nothing is said. Then state and Redis must say the same, whatever
clients and daemons do meanwhile: what differs was done by another writer, or is a bug (``core.audit``).

An occurrence that was not pushed, because RQ had a job of its run already, is wrong too when the history never pushed
that run (``archive.suppressed``). Nothing puts that right: it counts for an hour.

What is wrong is said, with what was expected and what was found, and put right by a ``restore`` (reason: audit), which
Redis refuses when the log went on meanwhile; then a few times again, and in the next pass. It fires late then, and all
of it is recorded. What the log never had is left where it is: ``fire`` quarantines it.

Not guaranteed: that a Redis command of another writer is noticed before it has done harm; anything by an archive with
entries that this version cannot read, since these may have changed what it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import structlog

from zsched.archive.recall import Recall, recalling_beside
from zsched.core.audit import GRACE_MS, Alarm, Event, is_overdue, left_out, may_be_left_out, misplaced, unknown
from zsched.core.clock import Clock
from zsched.core.held import Held
from zsched.core.log import Position, UnknownEntry, touches
from zsched.core.log.recovery import Restored
from zsched.core.model import iso
from zsched.core.recovery import Known
from zsched.daemon.archiver import Archiver
from zsched.daemon.suppressed import SuppressedRuns
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.audit import Audit, Look
from zsched.storage.census import Census
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log
from zsched.storage.restoring import Restoring, portions

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 60_000.0  # from the end of a pass to the next
_PAUSE_MS: Final = 50.0  # between pages: others' turn, here and in Redis
_AGAIN_MS: Final = 5_000.0  # before a pass that could not be made is tried again
_PAGE: Final = 100  # schedules: 1.5 ms of the server (measured)
_ROUND: Final = 2_500  # schedules in one pass, of the round through all of them
_OLDEST: Final = 400  # that should have fired, which every pass looks at
_SCANNED: Final = 13  # replies in which Redis names what it holds, of one pass: 2,600 members
_STRANGERS: Final = 200  # of them unknown to the state, in one pass
_READ: Final = 25  # log entries in one read
_BEHIND: Final = 5_000  # log entries behind the archive: if there are more, it has to catch up first
_TRIES: Final = 3  # to put right what is wrong while the log goes on
_SAID: Final = 50  # alarms of one pass that are said one by one
_REMEMBERED: Final = 10_000  # alarms that are not said again while they last
_JUMP_MS: Final = 2_000.0  # of the server's clock against the monotonic one
_START: Final = (-1, -1)


@dataclass(slots=True)
class Pass:
    """One pass: the pages that are left, and what was found until now."""

    pages: deque[list[str]]
    due: int  # how many should have fired, by the archive
    now_ms: int
    checked: int = 0
    alarms: int = 0
    repaired: int = 0
    said: int = 0
    overdue: list[tuple[int, str]] = field(default_factory=list)  # that should have fired, and wait; due ms, id
    aside: int = 0  # that wait for room in their queues, which is no alarm


class Auditor:
    """Passes over the wire that it was given last; ``name``, ``every_ms`` and ``step`` are for the ``ChoreThread``."""

    name: Final = "auditor"

    def __init__(self, archiver: Archiver, keys: Keys, clock: Clock) -> None:
        self._archiver, self._keys, self._clock = archiver, keys, clock
        self.every_ms = _EVERY_MS
        self._cursor = _START  # of the round
        self._again: list[str] = []  # what could not be put right
        self._told: dict[str, tuple[Event, str]] = {}  # what was said and lasts, by id
        self._overdue: str | None = None  # the oldest that was said to be
        self._term = ""  # in which the following is so
        self._steady: tuple[int, float] | None = None  # TIME and the monotonic clock at the last look
        self._since_ms = 0  # things fire since then, without a break
        self._suppressed = SuppressedRuns()

    def over(self, wire: Wire) -> Auditor:
        """The same, over *wire* from now on."""
        self._wire, self._log = wire, Log(wire, self._keys)
        self._audit, self._census = Audit(wire, self._keys), Census(wire, self._keys)
        self._members = self._audit.ids()
        self._pass: Pass | None = None
        return self

    def step(self, term: Term) -> bool:
        """
        Begin a pass and look at a page, or look at the next one; in a new term, only look at the clock.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused, ArchiveError.
        """
        if self._term != term.token:
            self._term, self._pass, self._steady = term.token, None, None
            self._note_clock(self._audit.look(term, []))
            self.every_ms = _EVERY_MS
            return False
        going = self._pass or self._begin(term)
        self._pass, self.every_ms = None, _AGAIN_MS
        if going is None:
            return False
        page = going.pages.popleft() if going.pages else []
        if page and not self._look_at(going, term, page):
            going.pages.appendleft(page)
            self._pass = going
        elif going.pages:
            self._pass, self.every_ms = going, _PAUSE_MS
        else:
            self._end(going)
            self.every_ms = _EVERY_MS
        return False

    # -- a pass -----------------------------------------------------------------------------------

    def _begin(self, term: Term) -> Pass | None:
        """Choose what to look at; None when nothing can be concluded now."""
        path, look = self._archiver.path, self._audit.look(term, [])
        self._note_clock(look, is_held=look.is_held())
        if path is None or look.is_held() or self._is_something_lost(look):
            return None
        with recalling_beside(path) as (recall, position):
            if position is None:
                return None
            due, oldest = recall.overdue(look.now_ms - GRACE_MS, _OLDEST)
            next = recall.next_ids(self._cursor, _ROUND)
            self._cursor = next[-1][1] if len(next) == _ROUND else _START
            strangers = list(islice(self._strangers(recall), _STRANGERS))
        again, self._again = self._again, []
        ids = list(dict.fromkeys([*oldest, *again, *(id for id, _ in next), *strangers]))
        pages = deque(ids[first : first + _PAGE] for first in range(0, len(ids), _PAGE))
        going = Pass(pages, due, look.now_ms)
        suppressed, going.alarms = self._suppressed.look(path, look.now_ms)
        for alarm in suppressed:
            self._say(going, alarm, is_repaired=False)
        return going

    def _note_clock(self, look: Look, *, is_held: bool = False) -> None:
        """Since when things fire: a clock that was set makes much due at once."""
        elapsed_ms = self._clock.monotonic_ms()
        if (
            is_held
            or self._steady is None
            or abs(look.now_ms - self._steady[0] - (elapsed_ms - self._steady[1])) > _JUMP_MS
        ):
            self._since_ms = look.now_ms
        self._steady = look.now_ms, elapsed_ms

    def _is_something_lost(self, look: Look) -> bool:
        """Whether an archive has what Redis lost, and is about to put it back."""
        reports = Archivers(self._wire, self._keys).reports()
        return any(each.state is ArchiveState.LOST and each.is_recent(look.now_ms) for each in reports)

    def _strangers(self, recall: Recall) -> Iterator[str]:
        """What Redis holds and the state does not, among the next that Redis names."""
        for _ in range(_SCANNED):
            members = next(self._members, None)
            if members is None:
                self._members = self._audit.ids()
                return
            yield from recall.absent(members) if members else ()

    def _end(self, done: Pass) -> None:
        if done.overdue:
            due_ms, id = min(done.overdue)
            done.alarms += 1
            if self._overdue != id:
                is_backlog = done.due > _OLDEST and not done.aside  # then it is all that the archive has
                count = done.due if is_backlog else len(done.overdue)
                expected, found = f"fired {iso(due_ms)}", "waiting"
                log.error(Event.OVERDUE.value, schedule_id=id, expected=expected, found=found, overdue=count)
            self._overdue = id
        else:
            self._overdue = None
        if done.said > _SAID:
            log.error("audit_found_more", alarms=done.said - _SAID)
        self._archiver.audit = {
            "at": done.now_ms, "checked": done.checked, "alarms": done.alarms, "repaired": done.repaired,
        }  # fmt: skip

    # -- a page -----------------------------------------------------------------------------------

    def _look_at(self, going: Pass, term: Term, ids: Sequence[str]) -> bool:
        """Compare *ids* with Redis, say what is wrong, put it right; False when nothing can be concluded now."""
        path = self._archiver.path
        assert path is not None  # the pass began with it
        with recalling_beside(path) as (recall, position):
            if position is None:
                return False
            known = {mine.id: mine.schedule for mine in recall.known(ids)}
            there = {held.id: held for _, page in self._census.schedules(ids) for held in page}
            runs = [(id, one.held.run if (one := known[id]) is not None else "") for id in ids]
            look = self._audit.look(term, runs)
            self._note_clock(look, is_held=look.is_held())
            read = self._read_on(position, look.tail)
            if look.is_held() or read is None:
                return False
            touched, end = read
            quiet = [id for id in ids if id not in touched]
            alarms = [
                alarm for id in quiet if (alarm := self._judge(recall, id, known[id], there.get(id), look)) is not None
            ]
            restoring = Restoring(self._wire, self._keys, recall.archive, "audit", 0)
        wrong = {alarm.id for alarm in alarms}
        waiting = [one.held for id in quiet if id not in wrong and (one := known[id]) is not None]
        going.aside += sum(look.is_aside(held.id) for held in waiting)
        going.overdue += [
            (held.due_ms or 0, held.id)
            for held in waiting
            if is_overdue(held, self._since_ms, look.now_ms) and not look.is_aside(held.id)
        ]
        going.checked, going.now_ms = going.checked + len(ids), look.now_ms
        for id in quiet:
            if id not in wrong:
                self._told.pop(id, None)
        self._put_right(going, term, restoring, alarms, look, end)
        return True

    @staticmethod
    def _judge(recall: Recall, id: str, known: Known | None, there: Held | None, look: Look) -> Alarm | None:
        """What is wrong with one schedule."""
        if known is None:
            return unknown(id, look.places[id]) if look.places[id] else None
        alarm = misplaced(known, there, look.places[id], look.statuses[id])
        told_ms = known.t_us // 1000
        if alarm is None and may_be_left_out(known, told_ms, look.now_ms) is not None:
            missing_ms = may_be_left_out(known, max(told_ms, recall.told_ms(id)), look.now_ms)
            alarm = left_out(known, missing_ms) if missing_ms is not None else None
        return alarm

    def _read_on(self, position: Position, tail: Position | None) -> tuple[set[str], Position] | None:
        """
        The schedules that the log touched behind *position*, and its end; None when it lacks *position* or *tail*, or
        an entry cannot be read, or they are too many.
        """
        touched, last, is_there = set[str](), position, tail == position
        for _ in range(_BEHIND // _READ):
            entries = self._log.read(last.id, _READ)
            if not entries or entries[0].position != last:
                return None
            for entry in entries[1:]:
                if entry.position.seq != last.seq + 1:
                    return None
                try:
                    touched.update(touch.key[0] for touch in touches(entry, self._keys.run_suffix))
                except UnknownEntry:
                    return None
                last = entry.position
                is_there = is_there or last == tail
            if len(entries) < _READ:
                return (touched, last) if is_there else None
        return None

    # -- putting right ----------------------------------------------------------------------------

    def _put_right(
        self, going: Pass, term: Term, restoring: Restoring, alarms: Iterable[Alarm], look: Look, end: Position
    ) -> None:
        """Say each alarm, and put right what is for us; *end* is the log's, up to which they are true."""
        by_id = {alarm.id: alarm for alarm in alarms}
        scattered = {id for id in by_id if len(look.places[id]) > 1}
        repaired, touched = set[str](), set[str]()
        for portion in portions(alarm.row for alarm in by_id.values() if alarm.row is not None):
            rows, end = self._restore(restoring, portion, end, touched)
            stays = [(row.id, _place_of(row)) for row in rows if row.id in scattered]
            is_cleared = not stays or self._audit.clear(term, end, stays)
            repaired |= {row.id for row in rows if is_cleared or row.id not in scattered}
        for alarm in by_id.values():
            self._say(going, alarm, is_repaired=alarm.id in repaired)
            if alarm.row is not None and alarm.id not in repaired and len(self._again) < _ROUND:
                self._again.append(alarm.id)
        going.repaired += len(repaired)

    def _restore(
        self, restoring: Restoring, portion: list[Restored], end: Position, touched: set[str]
    ) -> tuple[list[Restored], Position]:
        """
        Put back *portion*, but for what the log *touched* behind the alarms, which grows as it goes on behind *end*.
        Those that were put back, and the log's end.
        """
        for _ in range(_TRIES):
            rows = [row for row in portion if row.id not in touched]
            if rows and (written := restoring.restore(rows, end, lambda: None)) is not None:
                if written.entry.seq == end.seq + 1:
                    return rows, written.entry
                came = self._read_on(end, end)  # others wrote, of other schedules
                touched |= came[0] if came is not None else {row.id for row in portion}
                return rows, came[1] if came is not None else end
            read = self._read_on(end, end) if rows else None
            if read is None:
                break
            touched |= read[0]
            end = read[1]
        return [], end

    def _say(self, going: Pass, alarm: Alarm, *, is_repaired: bool) -> None:
        """Say what is wrong; what lasts, once."""
        going.alarms += 1
        if self._told.get(alarm.id) == (alarm.event, alarm.found):
            if is_repaired:
                self._told.pop(alarm.id)
            return
        if is_repaired:
            self._told.pop(alarm.id, None)
        elif len(self._told) < _REMEMBERED:
            self._told[alarm.id] = alarm.event, alarm.found
        going.said += 1
        if going.said <= _SAID:
            log.error(
                alarm.event.value,
                schedule_id=alarm.id,
                expected=alarm.expected,
                found=alarm.found,
                repaired=is_repaired,
            )


def _place_of(row: Restored) -> str:
    """Where *row* is to be, in the words of clear.lua."""
    if row.place == "due":
        return row.lane
    return "-" if row.place == "ended" else row.place
