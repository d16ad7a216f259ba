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
from typing import Final, NamedTuple
from zlib import crc32

from zsched.archive import body, live
from zsched.archive.body import reader
from zsched.archive.file import converted
from zsched.archive.history import ENTRY, History
from zsched.archive.live import Live
from zsched.core.log import UnknownEntry, text
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.search import run_that_ended
from zsched.core.runs.run import Run
from zsched.core.runs.run_id import RunKey, run_id_of
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


class OpenRun(NamedTuple):
    """A run that is not known to be over; pushed at *fired_us*."""

    id: str
    run: str
    fired_us: int
    note: str | None

    @property
    def run_id(self) -> str:
        """The id at RQ."""
        return run_id_of(self.id, self.run)

    @property
    def is_uncertain(self) -> bool:
        """True if a lost Redis may have pushed it already."""
        return self.note == "uncertain"


class OpenRuns:
    """
    The open runs of *history* at one moment. ``life``: the number of its state; None while a bootstrap reads another
    one from Redis.
    """

    def __init__(self, history: History) -> None:
        self._history, self.position = history, history.position
        query = "SELECT name, value FROM fact WHERE name IN ('life', 'boot_n')"
        with converted(history.path):
            facts = dict(history.db.execute(query).fetchall())
        self.life: int | None = None if "boot_n" in facts else int(facts.get("life", 1))

    def among(self, keys: Iterable[RunKey]) -> list[OpenRun]:
        """Return the open runs among *keys*."""
        with converted(self._history.path):
            found = ((key, self._history.db.execute(_IS_OPEN, (self.life, *key)).fetchone()) for key in keys)
            return [OpenRun(*key, *row) for key, row in found if row is not None]

    def last_end(self, key: RunKey) -> Run | None:
        """
        Return the latest end of run *key*; None if there is none, or only long before its schedule's newest entries.
        """
        id, run_id = key[0], run_id_of(*key)
        with converted(self._history.path):
            for _, _, changes in islice(self._history.entries_of(id, crc32(id.encode())), _LOOKED_BACK):
                for change in reversed(changes):
                    if change.what is What.RUN_ENDED and change.run_id == run_id:
                        return run_that_ended(change)
        return None

    def queues(self, runs: Iterable[OpenRun]) -> dict[str, str]:
        """
        Return the queue of each of *runs* from its record, by run id. Left out are runs that are no longer open, and
        runs with an unreadable record: the report of their ends must not fail. Each entry is parsed once for all of its
        runs.
        """
        by_entry: dict[int, dict[str, int]] = {}  # rows by run id
        found: dict[str, str] = {}
        with converted(self._history.path):
            for run in runs:
                stored = self._history.db.execute(_ROW, (self.life, run.id, run.run)).fetchone()
                if stored is not None:
                    with suppress(ArchiveCorrupt):
                        row = Live.of(stored)
                        by_entry.setdefault(row.n, {})[run.run_id] = row.row
            for n, rows in by_entry.items():
                with suppress(ArchiveCorrupt, UnknownEntry):
                    found |= self._queues_in(n, rows)
        return found

    def _queues_in(self, n: int, rows: Mapping[str, int]) -> dict[str, str]:
        """Return the queues of the runs with records in *rows* of entry number *n*."""
        stored = self._history.db.execute(f"{ENTRY} WHERE n = ?", (n,)).fetchone()
        if stored is None:
            return {}
        record_in, found = reader(body.entry_of(stored)), {}
        for run_id, row in rows.items():
            found[run_id] = text(record_in(row).job_fields().get(b"origin", b""))[:LONGEST_NAME]
        return found

    def next(self, after: RunKey | None, looked_at: int, limit: int) -> tuple[list[OpenRun], RunKey | None]:
        """
        Return at most *limit* open runs among the *looked_at* rows of the state after *after*, by id; and the key to
        continue after, None at the end.
        """
        start = after or ("", "")
        with converted(self._history.path):
            rows = self._history.db.execute(_OPEN_PART, (self.life, *start, looked_at, limit)).fetchall()
            found = [OpenRun(*row) for row in rows]
            if len(found) == limit:
                return found, (found[-1].id, found[-1].run)
            return found, self._history.db.execute(_END_OF_PART, (self.life, *start, looked_at - 1)).fetchone()


@contextmanager
def open_runs(path: Path) -> Iterator[OpenRuns]:
    """
    Open the archive at *path* to read its open runs. Another process or thread may write it.

    Raises:
        ArchiveCorrupt, ArchiveFailed.
    """
    with History(path) as history:
        yield OpenRuns(history)
