"""
The check of an archive file for corruption, in small steps.

A flipped bit on a disk is silent: SQLite has no checksums of its own, and accepts any well-formed page. So
history entries, rows of the state, facets, prefixes and separate arguments each have a CRC-32. This module
verifies them once after a file was opened: first the structure (``PRAGMA quick_check``), then the history, the
newest entry first because a recovery needs it, then the state. Readers also verify everything that they read.

Not guaranteed: the indices (``touch``, ``posting``) have no checksums; only their structure is checked. The
structure of a large file is not checked to its end: this has half of the first step's time, and is skipped
beyond 1 GiB.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from zsched.archive import body, live
from zsched.archive.body import arguments_of, entry_of
from zsched.archive.index import bits_in, facets_in
from zsched.archive.live import record_in
from zsched.core.clock import Clock
from zsched.core.entry import FORMAT
from zsched.errors import ArchiveCorrupt, ArchiveForeign

_OPCODES: Final = 5000  # of SQLite's machine between two readings of the clock: about 0.1 ms
# SQLite (3.40) does not call the progress handler during the structure check: 0.5 to 1 s for this size (measured).
_STRUCTURE_BYTES: Final = 1 << 30
_FIRST: Final = -(2**63)  # a flipped bit can make a key negative
_LAST: Final = 2**63 - 1

_ENTRIES: Final = f"SELECT {body.COLUMNS} FROM entry WHERE n < ? ORDER BY n DESC"
_ROWS: Final = (
    f"SELECT life, {live.COLUMNS}, EXISTS (SELECT 1 FROM entry WHERE entry.n = live.n)"
    " FROM live WHERE (life, id, run) > (?, ?, ?) ORDER BY life, id, run"
)
_FACETS: Final = "SELECT n, body, sum FROM facet WHERE n > ? ORDER BY n"
_PREFIXES: Final = (
    "SELECT length, first_n, last_n, bits, sum FROM prefix WHERE (length, first_n) > (?, ?) ORDER BY length, first_n"
)
_ARGUMENTS: Final = "SELECT n, row, data FROM argument WHERE (n, row) > (?, ?) ORDER BY n, row"


SUM: Final = "sum"  # the name of the fact with the checksum of the others


def stored_facts(db: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """
    Read the facts of the archive at *path*.

    Raises:
        ArchiveCorrupt: their checksum differs. ArchiveForeign: the archive has entries of a newer format.
    """
    facts: dict[str, Any] = dict(db.execute("SELECT name, value FROM fact").fetchall())
    if facts and facts.get(SUM) != sum_of(facts):
        raise ArchiveCorrupt(f"archive {path}: its facts are corrupted: their checksum differs")
    if (format := int(facts.get("format", FORMAT))) > FORMAT:
        remedy = "upgrade zsched here, or give another [archive] path"
        raise ArchiveForeign(f"archive {path} has entries of format {format}, and this one knows {FORMAT}; {remedy}")
    return facts


def sum_of(facts: dict[str, Any]) -> int:
    """Return the CRC-32 of all facts but itself."""
    return crc32(repr(sorted(item for item in facts.items() if item[0] != SUM)).encode())


class Check:
    """One check of all of *db*, the archive at *path*, step by step. The file may be written between two steps."""

    def __init__(self, db: sqlite3.Connection, path: Path, clock: Clock) -> None:
        self._db, self._path, self._clock = db, path, clock
        self._until_ms, self._n = 0.0, _LAST
        self._lives: tuple[int, ...] = ()
        self._parts = self._all()

    def step(self, budget_ms: float, *lives: int) -> bool:
        """
        Check a part for about *budget_ms*; return False when all was checked. *lives*: the numbers of existing states.

        Raises:
            ArchiveCorrupt: a checksum differs, or the structure is broken. sqlite3.DatabaseError.
        """
        self._until_ms, self._lives = self._clock.monotonic_ms() + budget_ms, lives
        return next(self._parts, self) is not self

    def _all(self) -> Iterator[None]:
        """Check everything, and yield when the time of a step is over."""
        self._look_at_structure()
        yield from self._look_at(_ENTRIES, (_LAST,), 1, self._look_at_entry)
        yield from self._look_at(_ROWS, (_FIRST, "", ""), 3, self._look_at_row)
        yield from self._look_at(_FACETS, (_FIRST,), 1, facets_in)
        yield from self._look_at(_PREFIXES, (_FIRST, _FIRST), 2, bits_in)
        yield from self._look_at(_ARGUMENTS, (_FIRST, _FIRST), 2, lambda row: arguments_of(*row))

    def _look_at_structure(self) -> None:
        """Check pages and trees, for at most half of the step's time. An unfinished check is not an error."""
        sizes = [self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")]
        if sizes[0] * sizes[1] > _STRUCTURE_BYTES:
            return
        until_ms = (self._until_ms + self._clock.monotonic_ms()) / 2
        self._db.set_progress_handler(lambda: self._clock.monotonic_ms() >= until_ms, _OPCODES)
        try:
            [found] = self._db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return
        finally:
            self._db.set_progress_handler(None, 0)
        if found != "ok":
            raise ArchiveCorrupt(f"archive {self._path}: {found}")

    def _look_at(self, query: str, after: tuple[Any, ...], width: int, look: Any) -> Iterator[None]:
        """Check every row of *query* after key *after*, which is its first *width* columns."""
        while True:
            # No cursor stays open over a yield: it would keep SQLite from moving the write-ahead log into the file.
            with closing(self._db.execute(query, after)) as rows:
                for row in rows:
                    look(row)
                    after = row[:width]
                    if self._clock.monotonic_ms() >= self._until_ms:
                        break
                else:
                    return
            yield

    def _look_at_entry(self, row: body.HistoryRow) -> None:
        entry_of(row)
        if row[0] >= self._n:  # the only column that is not in the checksum
            raise ArchiveCorrupt(f"archive {self._path}: history entry {row[0]} is not in its place")
        self._n = row[0]

    def _look_at_row(self, row: tuple[Any, ...]) -> None:
        life, *stored, has_entry = row
        found = record_in(tuple(stored))
        if life not in self._lives:  # not in the checksum; a wrong one would hide later rows from a search
            raise ArchiveCorrupt(f"archive {self._path}: schedule {found.id!r} belongs to no known state")
        if not has_entry:
            raise ArchiveCorrupt(f"archive {self._path}: history entry {found.n} of schedule {found.id!r} is gone")
