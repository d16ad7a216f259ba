"""
Suppressed occurrences: ``advance`` did not push them because a job of their run existed, and this history never pushed
that run. Another program made that job. They are searched for over a connection beside the archive's writer.

A run whose time is before the beginning of the archive's history is never reported. Not guaranteed: that a run is told
apart which a lost history pushed and no archive knows, or which ``run_now`` pushed more than a minute before its time;
nor that occurrences are found from a time to which the server's clock was set back later.
"""

from __future__ import annotations

from typing import Final

from zsched.archive import body
from zsched.archive.file import converted
from zsched.archive.history import ENTRY
from zsched.archive.ran import Ran
from zsched.archive.retention import first_since
from zsched.core.changes import Change, What
from zsched.core.log.fires import AdvanceEntry
from zsched.core.lookback import is_push

_LOOKED_AT: Final = 100_000  # entries of any kind in one look
_MOST: Final = 200  # occurrences in one look
_EARLY_US: Final = 60_000_000  # how long before its time a run's push is looked for: run_now pushes a one-shot early


class Suppressed(Ran):
    """A reader of the archive at *path*, like ``Ran``."""

    def __enter__(self) -> Suppressed:
        super().__enter__()
        return self

    @property
    def last_n(self) -> int:
        """The number of the newest entry."""
        return int(self._last_n)

    def before(self, t_us: int) -> int:
        """The number of the last entry before *t_us*."""
        with converted(self._path):
            return first_since(self._db, t_us, self._last_n) - 1

    def look(self, behind_n: int) -> tuple[list[Change], int]:
        """Return the suppressed occurrences behind entry number *behind_n*, and the number of the last entry read."""
        until_n, found, asked = min(behind_n + _LOOKED_AT, self.last_n), [], 0
        query = f"{ENTRY} WHERE n > ? AND n <= ? AND kind = '{AdvanceEntry.kind}' AND instr(body, ?) ORDER BY n"
        with converted(self._path):
            rows = self._db.execute(query, (behind_n, until_n, AdvanceEntry.DUPLICATE)).fetchall()
            for row in rows:
                for change in self._changes(body.entry_of(row)):
                    if change.what is What.DUPLICATE and asked < _MOST:
                        asked += 1
                        found += [change] if self._is_suppressed(change) else []
        return found, until_n

    def _is_suppressed(self, duplicate: Change) -> bool:
        nominal_us = (duplicate.nominal_ms or 0) * 1000
        if self.complete_since is None or (self.complete_since != "start" and int(self.complete_since) > nominal_us):
            return False
        behind_n = first_since(self._db, nominal_us - _EARLY_US, self._last_n) - 1
        told = (change for _, entry in self._entries(duplicate.id, behind_n) for change in self._changes(entry))
        return not any(is_push(change) and change.run_id == duplicate.run_id for change in told)
