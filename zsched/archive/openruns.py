"""
Which runs an archive has as open: fired, and not known to be over. Read beside its writer.

An index over them would cost a tenth of the archiving speed (measured: every fire puts a row into it, every end
takes one out). There are two ways without: what was pushed stands in the history, in order (``pushed_behind``); and
the state can be looked through a part at a time (``open_among``), waiting schedules and all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zsched.archive import body
from zsched.archive.file import converted
from zsched.archive.history import History
from zsched.archive.live import OPEN
from zsched.core.changes import Change, What

Run = tuple[str, str]  # schedule id, and what follows it in the run id

_PUSHES: Final = (What.FIRED, What.ENQUEUED, What.PUSHED_AGAIN)
_PUSHED_BEHIND: Final = (
    f"SELECT {body.COLUMNS} FROM entry WHERE n > ?1 AND n <= ?1 + ?2"
    " AND kind IN ('fire', 'advance', 'enqueue', 'run_now', 'restore', 'scan') ORDER BY n"
)
_IS_OPEN: Final = "SELECT 1 FROM live WHERE life = ? AND id = ? AND run = ? AND place = 'open'"
_PART: Final = "FROM live WHERE life = ? AND (id, run) > (?, ?) ORDER BY id, run LIMIT"
_OPEN_AMONG: Final = f"SELECT id, run FROM (SELECT id, run, place {_PART} ?) WHERE place = 'open' LIMIT ?"
_END_OF_PART: Final = f"SELECT id, run {_PART} 1 OFFSET ?"


class OpenRuns(History):
    """
    The archive at *path*, read-only and as of one moment, inside the block.

    ``life``: which state it is; None while another one is being read from Redis. ``last_n``: its last entry's number.

    Raises:
        ArchiveCorrupt, ArchiveFailed.
    """

    def __enter__(self) -> OpenRuns:
        super().__enter__()
        query = "SELECT name, value FROM fact WHERE name IN ('life', 'boot_n')"
        with converted(self._path):
            facts = dict(self._db.execute(query).fetchall())
        self.life: int | None = None if "boot_n" in facts else int(facts.get("life", 1))
        self.last_n = self._last_n
        return self

    def pushed_behind(self, n: int, limit: int, looked_at: int) -> tuple[list[Run], int]:
        """
        Runs that were pushed behind the entry number *n*, in order: of *looked_at* entries, or fewer when they are
        *limit* runs or more. And the number of the last entry looked at.
        """
        found: list[Run] = []
        with converted(self._path):
            for row in self._db.execute(_PUSHED_BEHIND, (n, looked_at)):
                found += [run for change in self._changes(body.entry_of(row)) if (run := _pushed(change)) is not None]
                if len(found) >= limit:
                    return found, int(row[0])
        return found, min(n + looked_at, self.last_n)

    def open_of(self, runs: Iterable[Run]) -> list[Run]:
        """Those of *runs* that are open."""
        with converted(self._path):
            return [run for run in runs if self._db.execute(_IS_OPEN, (self.life, *run)).fetchone()]

    def open_among(self, after: Run | None, looked_at: int, limit: int) -> tuple[list[Run], Run | None]:
        """
        At most *limit* open runs among the *looked_at* rows of the state behind *after*, by id; and where to go on,
        None when it was looked through.
        """
        start = after or ("", "")
        with converted(self._path):
            found: list[Run] = self._db.execute(_OPEN_AMONG, (self.life, *start, looked_at, limit)).fetchall()
            if len(found) == limit:
                return found, found[-1]
            return found, self._db.execute(_END_OF_PART, (self.life, *start, looked_at - 1)).fetchone()


def _pushed(change: Change) -> Run | None:
    """The run that a change says was pushed."""
    is_one = change.what in _PUSHES or (change.what is What.FOUND and change.why == OPEN)
    return (change.id, change.run_id[len(change.id) + 1 :]) if is_one and change.run_id is not None else None
