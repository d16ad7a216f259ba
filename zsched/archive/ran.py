"""
Occurrences of a schedule that ran, found in the history: a backfill leaves them out.

A run is never pushed before its time, so what was pushed for a stretch of time stands behind the first entry of that
time; but how far behind nobody can say, for it may have been late, or backfilled. So all entries of the schedule from
there on are looked at, a part at a time: whoever asks gets what was found and asks for what is behind it, and the
daemon has time for others in between. A part takes 0.5 s at most, in which 30,000 entries of one run each are read, or
3,000 of 200 (measured; the file cached, two cores that others use).

Not guaranteed: what an archive that is complete only since later does not have; and entries from between two sets of
the server's clock, whose times are not in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from zsched.archive import body
from zsched.archive.file import converted
from zsched.archive.history import History
from zsched.archive.retention import first_since
from zsched.core.backfill import ran_at
from zsched.core.changes import RAN
from zsched.core.clock import Clock, SystemClock
from zsched.core.log import Entry, kinds_telling

_LOOKED_FOR_MS: Final = 500.0
_MOST: Final = 20_000  # occurrences in one answer
_ENTRIES: Final = (
    f"SELECT {', '.join(f'entry.{name}' for name in body.COLUMNS.split(', '))} FROM touch JOIN entry USING (n)"
    " WHERE segment = ? AND key = ? AND n > ?"
)


class Part(NamedTuple):
    """
    Result of reading a part of the history. ``archive``: whose; ``read_to``: the number of the entry behind which more
    is to be read, None when that was all.
    """

    archive: str
    times_ms: list[int]
    read_to: int | None


class Ran(History):
    """The archive at *path*, as ``History``. Raises ArchiveCorrupt, ArchiveFailed."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        super().__init__(path)
        self._clock = clock or SystemClock()

    @classmethod
    def beside(cls, history: History) -> Ran:
        """Read the same archive as *history*."""
        return cls(history._path)

    def of(self, id: str, start_ms: int, end_ms: int, read_to: dict[str, int]) -> Part:
        """
        The occurrences of schedule *id* in [start_ms, end_ms) that ran, ascending, by what is behind the entry that
        *read_to* has under this archive's id.
        """
        until_ms, found = self._clock.monotonic_ms() + _LOOKED_FOR_MS, set[int]()
        with converted(self._path):
            archive = str(self._db.execute("SELECT value FROM fact WHERE name = 'archive'").fetchone()[0])
            first_n = first_since(self._db, start_ms * 1000, self._last_n)
            behind_n = max(read_to.get(archive, 0), first_n - 1)
            for n, entry in self._entries(id, behind_n):
                times = (ran_at(change) for change in self._changes(entry, id) if change.id == id)
                found.update(ms for ms in times if ms is not None and start_ms <= ms < end_ms)
                if self._clock.monotonic_ms() >= until_ms or len(found) >= _MOST:
                    return Part(archive, sorted(found), n)
        return Part(archive, sorted(found), None)

    def _entries(self, id: str, behind_n: int) -> Iterator[tuple[int, Entry]]:
        key, query = crc32(id.encode()), f"{_ENTRIES} AND {body.of_kinds(kinds_telling(*RAN))} ORDER BY n"
        for segment in self._segments():
            for row in self._db.execute(query, (segment, key, behind_n)):
                yield row[0], body.entry_of(row)
