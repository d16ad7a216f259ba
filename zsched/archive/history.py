"""
Reading an archive beside its writer: what happened to a schedule, and what happened at all.

An entry is found by a schedule's id through ``touch``, segment by segment, the newest first; two ids with one
CRC-32 are told apart by the entry itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from zlib import crc32

from zsched.archive import body
from zsched.archive.file import connect_to_read, converted
from zsched.archive.records import SCAN, scanned
from zsched.archive.retention import first_since
from zsched.core.log import Change, Entry, UnknownEntry, What, changes

_LOOKED_AT: Final = 20_000  # history entries, at most, in search of rare ones
_PAGE: Final = 200
_ENTRY = f"SELECT {body.COLUMNS} FROM entry"


class History:
    """
    The archive at *path*, read-only, inside the block. Another process or thread may be writing it.

    Raises:
        ArchiveCorrupt, ArchiveFailed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> History:
        self._db = connect_to_read(self._path)
        with converted(self._path):
            try:
                self._db.execute("BEGIN")  # all of it is read as of one moment
                facts = dict(self._db.execute("SELECT name, value FROM fact").fetchall())
                self._last_n = self._db.execute("SELECT max(n) FROM entry").fetchone()[0] or 0
                self._last_segment = self._db.execute("SELECT max(segment) FROM touch").fetchone()[0] or 0
            except sqlite3.Error:
                self._db.close()
                raise
        self.namespace = str(facts["namespace"])
        self.complete_since: str | None = facts.get("complete_since")  # "start", or t in µs
        self.position = body.position_of(facts.get("position"))
        self._suffix = "" if self.namespace == "default" else f"-n{self.namespace}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._db.close()

    def of_schedule(self, id: str, newest: int) -> tuple[list[Change], int]:
        """
        The first change of schedule *id* and its *newest* ones, in order; and how many entries concern it in all.
        """
        key = crc32(id.encode())
        with converted(self._path):
            total = sum(self._count(segment, key) for segment in self._segments())
            late = self._first(self._touches(key, reversed(self._segments()), "DESC"), id, newest)
            early = self._first(self._touches(key, self._segments(), "ASC"), id, 1)
        found = {entry.position: changes for entry, changes in (*early, *reversed(late))}
        ordered = sorted(found.items(), key=lambda one: one[0].t_us)
        return [change for _, changes in ordered for change in changes], total

    def occurrences(self, whats: frozenset[What], limit: int) -> tuple[list[Change], int | None]:
        """
        The newest *limit* changes of the kinds *whats*, the newest first; and how far back it looked for them, t in
        µs, when it gave up before it had so many.
        """
        found: list[Change] = []
        looked, t_us = 0, None
        for entry in self._back_from(self._last_n + 1):
            found += [change for change in reversed(list(self._changes(entry))) if change.what in whats]
            looked, t_us = looked + 1, entry.position.t_us
            if len(found) >= limit:
                return found[:limit], None
            if looked >= _LOOKED_AT:
                return found, t_us
        return found, None

    def entries(self, since_us: int, after_n: int, limit: int) -> list[tuple[int, Entry]]:
        """The log's entries with t >= *since_us* and n > *after_n*, in order, at most *limit*, each with its n."""
        with converted(self._path):
            first = max(first_since(self._db, since_us, self._last_n), after_n + 1)
            rows = self._db.execute(
                f"{_ENTRY} WHERE n >= ? AND seq IS NOT NULL ORDER BY n LIMIT ?", (first, limit)
            ).fetchall()
            return [(row[0], body.entry_of(row)) for row in rows]

    def last_entries(self, count: int) -> list[tuple[int, Entry]]:
        """The newest *count* of the log's entries, in order, each with its n."""
        with converted(self._path):
            rows = self._db.execute(f"{_ENTRY} WHERE seq IS NOT NULL ORDER BY n DESC LIMIT ?", (count,)).fetchall()
            return [(row[0], body.entry_of(row)) for row in reversed(rows)]

    def term_before(self, t_us: int) -> int | None:
        """When the last term began that began before *t_us*; t in µs."""
        with converted(self._path):
            before = first_since(self._db, t_us, self._last_n)
            query = f"{_ENTRY} WHERE kind = 'term' AND n < ? ORDER BY n DESC LIMIT 1"
            row = self._db.execute(query, (before,)).fetchone()
            return body.entry_of(row).position.t_us if row else None

    # -- how --------------------------------------------------------------------------------------

    def _segments(self) -> range:
        return range(self._last_segment + 1)

    def _count(self, segment: int, key: int) -> int:
        query = "SELECT count(*) FROM touch WHERE segment = ? AND key = ?"
        return int(self._db.execute(query, (segment, key)).fetchone()[0])

    def _touches(self, key: int, segments: Iterable[int], order: str) -> Iterator[int]:
        """Numbers of entries that may concern the id of *key*."""
        query = f"SELECT n FROM touch WHERE segment = ? AND key = ? ORDER BY n {order}"
        for segment in segments:
            for (n,) in self._db.execute(query, (segment, key)):
                yield n

    def _first(self, numbers: Iterable[int], id: str, limit: int) -> list[tuple[Entry, list[Change]]]:
        """The first *limit* of the entries *numbers* that do concern *id*."""
        found: list[tuple[Entry, list[Change]]] = []
        for n in numbers:
            row = self._db.execute(f"{_ENTRY} WHERE n = ?", (n,)).fetchone()
            if row is None:  # forgotten by age
                continue
            entry = body.entry_of(row)
            mine = [change for change in self._changes(entry) if change.id == id]
            if mine:
                found.append((entry, mine))
            if len(found) >= limit:
                break
        return found

    def _back_from(self, n: int) -> Iterator[Entry]:
        with converted(self._path):
            while rows := self._db.execute(f"{_ENTRY} WHERE n < ? ORDER BY n DESC LIMIT ?", (n, _PAGE)).fetchall():
                yield from map(body.entry_of, rows)
                n = rows[-1][0]

    def _changes(self, entry: Entry) -> Iterator[Change]:
        """What *entry* says; of one that cannot be read, nothing."""
        if entry.kind == SCAN:
            for row in scanned(entry):
                yield _found(entry, row.id, row.run, row.place, row.due_ms, self._suffix)
            return
        try:
            yield from changes(entry, self._suffix)
        except UnknownEntry:
            return


def _found(entry: Entry, id: str, run: str, place: str, due_ms: int | None, suffix: str) -> Change:
    more: dict[str, Any] = {"run_id": f"{id}-{run}"} if run else {}
    return Change(id, What.FOUND, entry.position.t_us, entry.position.id, nominal_ms=due_ms, why=place, **more)
