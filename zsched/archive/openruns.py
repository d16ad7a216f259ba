"""
Open runs of an archive: fired, and not known to be over. Read beside its writer.

An index over them would cost a tenth of the archiving speed (measured: every fire adds a row to it, every end
removes one). There are two ways without an index: ask for runs by id (``among``), or read the whole state in
parts, with waiting schedules (``next``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from zsched.archive import live
from zsched.archive.history import History
from zsched.archive.live import record_in
from zsched.core.entry import UnknownEntry, reading, text
from zsched.core.log.kinds import parse
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.search import run_that_ended
from zsched.core.runs.run import Run, pushed
from zsched.core.runs.run_id import RunKey, run_id_of, run_key
from zsched.core.wording import LONGEST_NAME
from zsched.errors import ArchiveCorrupt

_RUN: Final = "FROM live WHERE life = ? AND id = ? AND run = ? AND place = 'open'"
_IS_OPEN: Final = f"SELECT t, note {_RUN}"
_ROW: Final = f"SELECT {live.COLUMNS} {_RUN}"
_PART: Final = "FROM live WHERE life = ? AND (id, run) > (?, ?) ORDER BY id, run LIMIT"
_OPEN_PART: Final = (
    f"SELECT id, run, t, note FROM (SELECT id, run, t, note, place {_PART} ?) WHERE place = 'open' LIMIT ?"
)
_END_OF_PART: Final = f"SELECT id, run {_PART} 1 OFFSET ?"

_LOOKED_BACK: Final = 200  # entries of a schedule


class OpenRuns:
    """The open runs of *history* at one moment; only their pushes are known."""

    def __init__(self, history: History) -> None:
        self._history, self.position = history, history.position
        self.life = None if history.is_bootstrapping else history.life  # None: a bootstrap reads the next state

    def among(self, keys: Iterable[RunKey]) -> dict[RunKey, Run]:
        """Return the open runs among *keys*."""
        found = ((key, self._history.db.execute(_IS_OPEN, (self.life, *key)).fetchone()) for key in keys)
        return {key: _open(*key, *row) for key, row in found if row is not None}

    def last_end(self, key: RunKey) -> Run | None:
        """
        Return the latest end of run *key*; None if there is none, or only long before its schedule's newest entries.
        """
        run_id = run_id_of(*key)
        for _, changes in islice(self._history.changes_of(key[0]), _LOOKED_BACK):
            for change in reversed(changes):
                if change.what is What.RUN_ENDED and change.run_id == run_id:
                    return run_that_ended(change)
        return None

    def queues(self, run_ids: Iterable[str]) -> dict[str, str]:
        """
        Return the queue of each of *run_ids* from its record. Left out are runs that are no longer open, and runs with
        an unreadable record: the report of their ends must not fail. Each entry is parsed once for all of its runs.
        """
        by_entry: dict[int, dict[str, int]] = {}  # rows by run id
        found: dict[str, str] = {}
        for run_id in run_ids:
            key = run_key(run_id) or ("", "")
            stored = self._history.db.execute(_ROW, (self.life, *key)).fetchone()
            if stored is not None:
                with suppress(ArchiveCorrupt):
                    row = record_in(stored)
                    by_entry.setdefault(row.n, {})[run_id] = row.row
        for n, rows in by_entry.items():
            with suppress(ArchiveCorrupt, UnknownEntry):
                found |= self._queues_in(n, rows)
        return found

    def _queues_in(self, n: int, rows: Mapping[str, int]) -> dict[str, str]:
        """Return the queues of the runs with records in *rows* of entry number *n*."""
        entry = self._history.entry(n)
        if entry is None:
            return {}
        parsed = parse(entry)
        with reading(entry):
            fields = {run_id: parsed.record_of(row).job_fields() for run_id, row in rows.items()}
        return {run_id: text(job.get(b"origin", b""))[:LONGEST_NAME] for run_id, job in fields.items()}

    def next(self, after: RunKey | None, looked_at: int, limit: int) -> tuple[list[Run], RunKey | None]:
        """
        Return at most *limit* open runs among the *looked_at* rows of the state after *after*, by id; and the key to
        continue after, None at the end.
        """
        start, db = after or ("", ""), self._history.db
        rows = db.execute(_OPEN_PART, (self.life, *start, looked_at, limit)).fetchall()
        if len(rows) == limit:
            end = rows[-1][:2]
        else:
            end = db.execute(_END_OF_PART, (self.life, *start, looked_at - 1)).fetchone()
        return [_open(*row) for row in rows], end


def _open(id: str, run: str, fired_us: int, note: str | None) -> Run:
    """Return the run of some columns of the state."""
    return pushed(run_id_of(id, run), fired_us, note == "uncertain")


@contextmanager
def open_runs(path: Path) -> Iterator[OpenRuns]:
    """
    Open the archive at *path* to read its open runs. Another process or thread may write it.

    Raises:
        ArchiveCorrupt, ArchiveFailed.
    """
    with History(path) as history:
        yield OpenRuns(history)
