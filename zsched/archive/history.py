"""
The reader of an archive beside its writer: the changes of one schedule, and all entries. ``archive.search`` reads
outcomes of occurrences and runs.

The entries of a schedule's id are found by ``touch``, segment by segment, the newest first. The entry itself
distinguishes two ids with the same CRC-32.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from zlib import crc32

from zsched.archive import body
from zsched.archive.file import connect_to_read, converted
from zsched.archive.schema import first_since, last_n, number_of, segments
from zsched.core.log import Entry, Position, UnknownEntry, changes, kinds_telling, leaders_kinds, narrowed, parse
from zsched.core.log.lives import TermEntry
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.lateness import is_late
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run_id import suffix_of

_ReadEntry = tuple[int, int, list[Change]]  # an entry's number, its t, and its changes
ENTRY = f"SELECT {body.COLUMNS} FROM entry"
_MAKES_DUE: Final = body.of_kinds(kinds_telling(What.PUT, What.RESUMED, What.REPLANNED))


class History:
    """
    The archive at *path*, read-only, inside the block. Another process or thread may write it. *db*: its connection, if
    it is in memory; its writer waits.

    Raises:
        ArchiveCorrupt, ArchiveFailed.
    """

    def __init__(self, path: Path, db: sqlite3.Connection | None = None) -> None:
        self.path, self.in_memory = path, db

    def __enter__(self) -> Self:
        self._led: dict[int, int | None] = {}  # by the number of a term: late occurrences of one outage share it
        self.db = self.in_memory or connect_to_read(self.path)
        with converted(self.path):
            try:
                self.db.execute("BEGIN")  # a consistent view of one moment
                facts = dict(self.db.execute("SELECT name, value FROM fact").fetchall())
                self.last_n = last_n(self.db)
                self.segments = segments(self.db)
            except sqlite3.Error:
                self.db.close()
                raise
        self.namespace = str(facts["namespace"])
        self.complete_since: str | None = facts.get("complete_since")  # "start", or t in µs
        self.position = body.position_of(facts.get("position"))
        self.life = int(facts.get("life", 1))  # the number of the state
        self.run_suffix = suffix_of(self.namespace)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.in_memory is None:
            self.db.close()
        else:
            self.db.execute("ROLLBACK")

    def of_schedule(self, id: str, newest: int) -> tuple[list[Change], int]:
        """
        Return the changes of schedule *id*, in order, from its first entry and its *newest* ones, and the number of
        left out entries between them. The number is from the index, which counts two ids with one CRC-32 together.
        """
        key = crc32(id.encode())
        with converted(self.path):
            late = list(islice(self.entries_of(id, key), newest))
            left_out = 0
            if len(late) == newest:
                early = next(self.entries_of(id, key, is_forwards=True))
                if early[0] < late[-1][0]:
                    late.append(early)
                    left_out = max(sum(self._count(segment, key) for segment in self.segments) - len(late), 0)
            return [self.with_ready(change, n) for n, _, mine in reversed(late) for change in mine], left_out

    def entries_since(self, since_us: int, limit: int) -> Iterator[Entry]:
        """Yield the log's entries with t >= *since_us*, in order, at most *limit*."""
        with converted(self.path):
            yield from self._from(first_since(self.db, since_us, self.last_n), limit)

    def entries_behind(self, position: Position, limit: int) -> Iterator[Entry]:
        """Yield the log's entries after *position*, by time if it is not in this archive; at most *limit*."""
        with converted(self.path):
            n = number_of(self.db, position)
            first_n = first_since(self.db, position.t_us + 1, self.last_n) if n is None else n + 1
            yield from self._from(first_n, limit)

    def newest_entries(self, count: int, limit: int) -> Iterator[Entry]:
        """Yield the first *limit* of the log's newest *count* entries, in order."""
        query = "SELECT n FROM entry WHERE seq IS NOT NULL ORDER BY n DESC LIMIT 1 OFFSET ?"
        with converted(self.path):
            found = self.db.execute(query, (max(count, 1) - 1,)).fetchone()
            yield from self._from(found[0] if found else 0, min(count, limit))

    def term_between(self, since_us: int, t_us: int) -> tuple[int, int | None] | None:
        """
        Return the beginning of the last term that began in [since_us, t_us), and the last entry of a leader before it
        (None: never), in µs. None if no term began then.
        """
        with converted(self.path):
            first, end = (first_since(self.db, t, self.last_n) for t in (since_us, t_us))
            query = f"{ENTRY} WHERE kind = '{TermEntry.kind}' AND n >= ? AND n < ? ORDER BY n DESC LIMIT 1"
            row = self.db.execute(query, (first, end)).fetchone()
            if row is None:
                return None
            term = body.entry_of(row)
            if row[0] not in self._led:
                self._led[row[0]] = self._led_before(row[0])
            return term.position.t_us, self._led[row[0]]

    def with_ready(self, push: Change, n: int) -> Change:
        """
        Return *push* of entry number *n*; if it was late, with the time of the last entry before that put, resumed or
        moved its schedule when its due time had passed (``ready_us``).
        """
        if not is_late(push):
            return push
        key, due_us = crc32(push.id.encode()), (push.due_ms or 0) * 1000
        first_n = first_since(self.db, due_us, self.last_n)
        query = "SELECT n FROM touch WHERE segment = ? AND key = ? AND n >= ? AND n < ? ORDER BY n DESC"
        for segment in reversed(self.segments_between(first_n, n)):
            for (before_n,) in self.db.execute(query, (segment, key, first_n, n)):
                row = self.db.execute(f"{ENTRY} WHERE n = ? AND {_MAKES_DUE}", (before_n,)).fetchone()
                with suppress(UnknownEntry):
                    if row is not None and push.id in parse(entry := body.entry_of(row), self.run_suffix).made_due():
                        return replace(push, ready_us=entry.position.t_us)
        return push

    def segments_between(self, first_n: int, last_n: int) -> range:
        """
        Return the segments of ``touch`` that may have the entries from *first_n* to *last_n*. Entries are in order, so
        any row of a segment shows where it is.
        """
        bounds = [bisect_left(self.segments, n, key=self._any_n) for n in (first_n, last_n + 1)]
        return range(max(bounds[0] - 1, 0), min(bounds[1] + 1, len(self.segments)))

    # -- how --------------------------------------------------------------------------------------

    def _any_n(self, segment: int) -> int:
        """Return the number of an entry in *segment*; of an empty one, that of the next."""
        query = "SELECT n FROM touch WHERE segment >= ? ORDER BY segment LIMIT 1"
        found = self.db.execute(query, (segment,)).fetchone()
        return self.last_n + 1 if found is None else int(found[0])

    def _led_before(self, n: int) -> int | None:
        """
        Return the time of the last leader's entry before number *n*. The search goes back at most to a term.
        """
        query = f"{ENTRY} WHERE {body.of_kinds(leaders_kinds())} AND n < ? ORDER BY n DESC LIMIT 1"
        row = self.db.execute(query, (n,)).fetchone()
        return body.entry_of(row).position.t_us if row else None

    def _count(self, segment: int, key: int) -> int:
        known = "EXISTS (SELECT 1 FROM entry WHERE entry.n = touch.n)"  # others were deleted by age
        query = f"SELECT count(*) FROM touch WHERE segment = ? AND key = ? AND {known}"
        return int(self.db.execute(query, (segment, key)).fetchone()[0])

    def entries_of(self, id: str, key: int, *, is_forwards: bool = False) -> Iterator[_ReadEntry]:
        """Yield the entries of *id*, with the CRC-32 *key*, and their changes of it; the newest first."""
        for n, entry in self.touching(key, is_forwards=is_forwards):
            mine = [change for change in self.changes_in(entry) if change.id == id]
            if mine:
                yield n, entry.position.t_us, mine

    def touching(self, key: int, *, is_forwards: bool = False) -> Iterator[tuple[int, Entry]]:
        """Yield the entries of ids with the CRC-32 *key*, with their numbers; the newest first."""
        query = f"SELECT n FROM touch WHERE segment = ? AND key = ? ORDER BY n {'ASC' if is_forwards else 'DESC'}"
        for segment in self.segments if is_forwards else reversed(self.segments):
            for (n,) in self.db.execute(query, (segment, key)):
                row = self.db.execute(f"{ENTRY} WHERE n = ?", (n,)).fetchone()
                if row is not None:  # otherwise it was deleted by age
                    yield n, body.entry_of(row)

    def _from(self, n: int, limit: int) -> Iterator[Entry]:
        """Yield the log's entries from number *n* on."""
        query = f"{ENTRY} WHERE n >= ? AND seq IS NOT NULL ORDER BY n LIMIT ?"
        yield from map(body.entry_of, self.db.execute(query, (n, max(limit, 0))))

    def changes_in(self, entry: Entry, id: str | None = None) -> Iterator[Change]:
        """Yield the changes of *entry*, at least those of schedule *id*; none if it cannot be read."""
        with suppress(UnknownEntry):
            yield from changes(entry if id is None else narrowed(entry, id), self.run_suffix)
