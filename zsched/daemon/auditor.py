"""
The auditor: once a minute, the leader searches for schedules that should have fired and did not, or that never will.

It does not trust the code that fires. The expected state is the archive's, folded from the log. A pass looks at:

- the oldest schedules that are overdue by the archive;
- the schedules that are missing in Redis, or whose hash, template or job is missing: of the next 10,000 by id, so of
  all schedules within a minute for every 10,000 of them;
- the schedules in quarantine: what they lacked may be in the archive, or the cause may be over.

These are compared with their history (``Inspection``), and restored (reason: audit) if they differ. So an
occurrence fires late, and all of this is recorded. All other differences are found on demand: ``zsched doctor --deep``.

An overdue schedule that is in its place is an alarm if it is overdue at two passes. So is an occurrence that was not
pushed because RQ already had a job of its run, which this history never pushed (``archive.lookups``): for an hour.
During a hold, or while an archive restores, nothing is checked.

Not guaranteed: a Redis command by another writer may do harm before it is noticed. An archive with entries that this
version cannot read proves nothing, since these entries may have changed its state.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from zsched.archive import History
from zsched.archive.lookups import find_suppressed
from zsched.archive.recall import Recall, recalling_beside
from zsched.core.entry import Entry, Position, UnknownEntry, text
from zsched.core.log.kinds import touches
from zsched.core.pages import pages_of
from zsched.core.record import Record
from zsched.core.recovery import audit
from zsched.core.recovery.audit import GRACE_MS, Alarm
from zsched.core.recovery.difference import Recalled
from zsched.daemon.reconciler import HistoryChanged, Reconciler
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log
from zsched.storage.meta import is_held, server_now_ms
from zsched.storage.records import PAGE, Scanner
from zsched.storage.restoring import Restoring

if TYPE_CHECKING:  # doctor --deep needs none
    from zsched.daemon.archiver import Archiver

log = structlog.get_logger(__name__)

_TRIES: Final = 3  # attempts to repair while the log grows
# The cause of a quarantine that can end: a key, with the wrong type that it had then.
_WRONG_TYPE: Final = re.compile(r"wrong type at (\S+) \((\w+)\)$")


class Inspection:
    """
    The comparison of schedules with their history, for the auditor and for ``zsched doctor --deep``.

    The expected state is the archive's, folded from the log, as of one entry, P. It is compared with the schedules in
    Redis, and with the log from P to the moment of that read, all of one history. A schedule that an entry after P
    touched is not judged. The others must be equal in archive and Redis, whatever clients and daemons do meanwhile. A
    difference comes from another writer, or from a bug (``core.recovery.audit``).

    A comparison of *recall*, which is as of *position*, with the Redis at *wire*. ``alarms`` by schedule id; ``well``:
    the schedules in Redis without a fault.
    """

    def __init__(self, wire: Wire, keys: Keys, recall: Recall, position: Position) -> None:
        self._recall, self._run_suffix = recall, keys.run_suffix
        self._type_of = cache(lambda key: text(wire.execute("TYPE", key)))
        restoring = Restoring(wire, keys, recall.archive, "audit", 0)
        self._reconciler = Reconciler(Log(wire, keys), Scanner(wire, keys), restoring, self, position)
        self._now_ms = server_now_ms(wire, keys)
        self._touched, self._repaired = set[str](), set[str]()
        self.alarms: dict[str, Alarm] = {}
        self.well: list[Record] = []

    def compare(self, page: Sequence[Recalled]) -> None:
        """Add the faults of *page*. Raises HistoryChanged, UnknownEntry: nothing can be concluded."""
        self._reconciler.compare(page)

    def repair(self, ids: Iterable[str]) -> set[str]:
        """
        Restore those of *ids* that differ. Return the ids of the repaired ones: Redis refuses a restore if the log grew
        meanwhile, so it is tried a few times.
        """
        rows = [alarm.row for id in ids if (alarm := self.alarms.get(id)) is not None and alarm.row is not None]
        with suppress(HistoryChanged, UnknownEntry):
            for _ in islice(self._reconciler.put_back(rows), _TRIES):
                pass
        return self._repaired

    # -- the policy ---------------------------------------------------------------------------------

    def add_entry(self, entry: Entry) -> set[str]:
        """Return the schedules that *entry* touched. Raises UnknownEntry."""
        touched = {id for (id, _), _ in touches(entry, self._run_suffix)}
        self._touched |= touched
        return touched

    def judge(self, page: Sequence[Recalled], held: Mapping[str, Record]) -> list[Record]:
        """Find the faults; ``repair`` decides which of them are repaired."""
        for one in page:
            here = held.get(one.id)
            if one.id in self._touched:
                continue
            if (alarm := self._alarm(one.id, one.schedule, here)) is not None:
                self.alarms[one.id] = alarm
            elif here is not None:
                self.well.append(here)
        return []

    def record_restored(self, rows: Sequence[Record]) -> None:
        """Record the restored *rows*."""
        self._repaired |= {row.id for row in rows}

    def _alarm(self, id: str, known: Record | None, here: Record | None) -> Alarm | None:
        """Return the fault of one schedule."""
        if known is None:
            return None if here is None else audit.unknown_schedule(here)
        alarm, known_ms = audit.misplaced(known, here, is_released=self._is_over(known.note)), known.t_us // 1000
        if alarm is None and audit.may_be_left_out(known, known_ms, self._now_ms) is not None:
            missing_ms = audit.may_be_left_out(known, max(known_ms, self._recall.told_ms(id)), self._now_ms)
            alarm = audit.left_out(known, missing_ms) if missing_ms is not None else None
        return alarm

    def _is_over(self, reason: str | None) -> bool:
        """Return True if the cause of a quarantine that *reason* names is over: its key is gone, or of another type."""
        found = _WRONG_TYPE.search(reason or "")
        return found is not None and self._type_of(found[1]) != found[2]


_EVERY_MS: Final = 60_000.0  # from the end of a pass to the next
_AGAIN_MS: Final = 5_000.0  # before another pass if nothing could be concluded
_ROUND: Final = 10_000  # schedules that a pass looks for: 22 ms of the server (measured)
_OLDEST: Final = 400  # overdue schedules in a pass
_IN_QUARANTINE: Final = 2_600  # schedules in a pass
_MOST_LOGGED: Final = 50  # alarms logged one by one in a pass
_LASTS_MS: Final = 3_600_000  # how long a suppressed run counts as an alarm; it cannot be repaired


class Auditor:
    """Makes passes over the latest wire. ``name``, ``every_ms`` and ``step`` are for the ``ChoreThread``."""

    name = "auditor"

    def __init__(self, archiver: Archiver, keys: Keys) -> None:
        self._archiver, self._keys = archiver, keys
        self.every_ms = _EVERY_MS
        self._term = ""
        self._cursor = ""  # the last id that was looked for
        self._suppressed = SuppressedRuns()
        self._state: tuple[int, Position] | None = None  # the state of the archive that has this first due time
        self._first_due_ms: int | None = None

    def over(self, wire: Wire) -> Auditor:
        """Use *wire* from now on."""
        self._wire, self._scanner = wire, Scanner(wire, self._keys)
        self._overdue = set[str]()  # overdue schedules in their place, in the last pass
        self._said = set[tuple[str, str]]()  # lasting faults, in the last pass
        return self

    def step(self, term: Term) -> bool:
        """
        Make a pass; in a new term, wait for a minute before it.

        Raises:
            RedisUnavailable, RedisRefused, ArchiveError.
        """
        is_new, self._term = self._term != term.token, term.token
        self.every_ms = _EVERY_MS if is_new or self._audit() else _AGAIN_MS
        return False

    def _audit(self) -> bool:
        """Make a pass. Return False if nothing can be concluded now."""
        path, now_ms = self._archiver.path, server_now_ms(self._wire, self._keys)
        reports = Archivers(self._wire, self._keys).reports()
        is_lost = any(each.state is ArchiveState.LOST and each.is_recent(now_ms) for each in reports)
        if path is None or is_lost or is_held(self._wire, self._keys, now_ms):  # an archive is about to restore it
            self._overdue.clear()
            return False
        with recalling_beside(path) as (recall, position):
            if position is None:
                return False
            looked_for = recall.next_schedules(self._cursor, _ROUND)
            self._cursor = looked_for[-1][0] if len(looked_for) == _ROUND else ""  # after the last one, the first ones
            suspects = set(self._overdue_ids(recall, position, now_ms - GRACE_MS))
            suspects.update(*map(self._scanner.missing, pages_of(looked_for, PAGE)))
            suspects.update(*islice(self._scanner.ids_in_quarantine(), _IN_QUARANTINE // PAGE))
            inspection = Inspection(self._wire, self._keys, recall, position)
            try:
                inspection.compare(list(recall.known(suspects)))
            except (HistoryChanged, UnknownEntry):
                return False
            repaired = inspection.repair(suspects)
        alarms = [*inspection.alarms.values(), *self._late(inspection, now_ms)]
        suppressed, number = self._suppressed.read_new(path, now_ms)
        self._say([*alarms, *suppressed], repaired)
        self._archiver.audit = {
            "at": now_ms, "checked": len(suspects.union(id for id, _ in looked_for)),
            "alarms": len(alarms) + len(suppressed) + number, "repaired": len(repaired),
        }  # fmt: skip
        return True

    def _overdue_ids(self, recall: Recall, position: Position, before_ms: int) -> list[str]:
        """Return the oldest schedules due before *before_ms*. A state without one is searched only once."""
        if self._state != (recall.life, position):
            self._state, self._first_due_ms = (recall.life, position), recall.first_due_ms()
        first_ms = self._first_due_ms
        return recall.overdue(before_ms, _OLDEST)[1] if first_ms is not None and first_ms < before_ms else []

    def _late(self, inspection: Inspection, now_ms: int) -> list[Alarm]:
        """Return the alarm for schedules that were overdue in their place at the last pass, and still are."""
        found = {each.id: each for each in inspection.well if audit.is_overdue(each, now_ms)}
        lasting = [each for id, each in found.items() if id in self._overdue]
        self._overdue = set(found)
        return [audit.late(lasting)] if lasting else []

    def _say(self, alarms: Sequence[Alarm], repaired: Collection[str]) -> None:
        """Log the alarms, each lasting fault only once."""
        lasting = {(alarm.event.value, alarm.id) for alarm in alarms if alarm.id not in repaired}
        new = [alarm for alarm in alarms if (alarm.event.value, alarm.id) not in lasting & self._said]
        self._said = lasting
        for alarm in new[:_MOST_LOGGED]:
            is_repaired = alarm.id in repaired
            words = {"schedule_id": alarm.id, "expected": alarm.expected, "found": alarm.found}
            log.error(alarm.event.value, **words, repaired=is_repaired)
        if len(new) > _MOST_LOGGED:
            log.error("audit_found_more", alarms=len(new) - _MOST_LOGGED)


class SuppressedRuns:
    """
    Alarms for occurrences whose run was not pushed, because another program had a job of it; of one archive, read as
    its history grows. The first look goes back an hour.
    """

    def __init__(self) -> None:
        self._read_to: int | None = None
        self._at_ms = deque[int]()

    def read_new(self, path: Path, now_ms: int) -> tuple[list[Alarm], int]:
        """Return the new alarms, and the number of earlier ones of the last hour. Raises ArchiveError."""
        while self._at_ms and self._at_ms[0] < now_ms - _LASTS_MS:
            self._at_ms.popleft()
        others = len(self._at_ms)
        with History(path) as history:
            changes, self._read_to = find_suppressed(history, (now_ms - _LASTS_MS) * 1000, self._read_to)
        alarms = [audit.suppressed(one.id, one.run_id or "", one.nominal_ms) for one in changes]
        self._at_ms.extend([now_ms] * len(alarms))
        return alarms, others
