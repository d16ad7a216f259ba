"""
The comparison of schedules with their history, for the auditor and for ``zsched doctor --deep``.

The expected state is the archive's, folded from the log, as of one entry, P. It is compared with the schedules in
Redis, and with the log from P to the moment of that read, all of one history. A schedule that an entry after P touched
is not judged. The others must be equal in archive and Redis, whatever clients and daemons do meanwhile. A difference
comes from another writer, or from a bug (``core.recovery.audit``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Final

from zsched.archive.recall import Recall
from zsched.core.entry import Entry, Position, UnknownEntry, text
from zsched.core.log.kinds import touches
from zsched.core.record import Record
from zsched.core.recovery.audit import Alarm, left_out, may_be_left_out, misplaced, unknown_schedule
from zsched.core.recovery.difference import Recalled
from zsched.daemon.reconciler import HistoryChanged, Reconciler
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.meta import server_now_ms
from zsched.storage.restoring import Restoring
from zsched.storage.scanner import Scanner

_TRIES: Final = 3  # attempts to repair while the log grows
# The cause of a quarantine that can end: a key, with the wrong type that it had then.
_WRONG_TYPE: Final = re.compile(r"wrong type at (\S+) \((\w+)\)$")


class Inspection:
    """
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
            alarm = self._alarm(one.id, one.schedule, here)
            if alarm is not None:
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
            return None if here is None else unknown_schedule(here)
        alarm, known_ms = misplaced(known, here, is_released=self._is_over(known.note)), known.t_us // 1000
        if alarm is None and may_be_left_out(known, known_ms, self._now_ms) is not None:
            missing_ms = may_be_left_out(known, max(known_ms, self._recall.told_ms(id)), self._now_ms)
            alarm = left_out(known, missing_ms) if missing_ms is not None else None
        return alarm

    def _is_over(self, reason: str | None) -> bool:
        """Return True if the cause of a quarantine that *reason* names is over: its key is gone, or of another type."""
        found = _WRONG_TYPE.search(reason or "")
        return found is not None and self._type_of(found[1]) != found[2]
