"""
The history of a schedule, and the reader of an archive beside its writer. The other readers of the package ask it for
entries: by number, or by a schedule's id.

The entries of an id are found by ``touch``, segment by segment. The entry itself distinguishes two ids with the same
CRC-32.
"""

import sqlite3
from bisect import bisect_left
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self
from zlib import crc32

from zsched.archive import body
from zsched.archive.file import connect_to_read, converted
from zsched.archive.schema import first_since, last_n, number_of, segments
from zsched.core.entry import Entry, Position, UnknownEntry
from zsched.core.log.kinds import changes, kinds_telling, leaders_kinds, narrowed, parse
from zsched.core.log.lives import TermEntry
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.lateness import LATE_MS
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run_id import suffix_of

ENTRY: Final = f"SELECT {body.COLUMNS} FROM entry"
_OF_ID: Final = "FROM touch CROSS JOIN entry USING (n) WHERE segment = ? AND key = ?"  # without those deleted by age
_MAKES_DUE: Final = kinds_telling(What.PUT, What.RESUMED, What.REPLANNED)


class ScheduleHistory(Protocol):
    """
    The history of a schedule, by the entries of a log about it, numbered in their order. *id* names the log's source.
    ``run_suffix``: the namespace's part of run ids.
    """

    id: str
    run_suffix: str
    _led: dict[int, int | None]  # by the number of a term: late occurrences of one outage share it

    def entry(self, n: int) -> Entry | None:
        """Return entry number *n*; None if it was deleted by age."""

    def numbers(
        self, id: str, first_n: int = 0, end_n: int | None = None, *, is_forwards: bool = False
    ) -> Iterator[tuple[int, str]]:
        """
        Yield numbers and kinds of the entries in [first_n, end_n) that may concern schedule *id*; the newest first.
        """

    def last_of(self, kinds: Sequence[str], first_n: int, end_n: int) -> tuple[int, Entry] | None:
        """Return the last entry of *kinds* in [first_n, end_n), with its number."""

    def first_since(self, since_us: int) -> int:
        """Return the number of the first entry with t >= *since_us*, or of the next one."""

    def count(self, id: str) -> int:
        """Count the entries that may concern schedule *id*."""

    def entries(
        self,
        id: str,
        first_n: int = 0,
        end_n: int | None = None,
        *,
        kinds: Container[str] | None = None,
        most: int | None = None,
        is_forwards: bool = False,
    ) -> Iterator[tuple[int, Entry]]:
        """Yield the entries of ``numbers``, or the ones of *kinds* among the first *most*, with their numbers."""
        for n, kind in islice(self.numbers(id, first_n, end_n, is_forwards=is_forwards), most):
            if kinds is None or kind in kinds:
                entry = self.entry(n)
                assert entry is not None
                yield n, entry

    def changes_in(self, entry: Entry | None, id: str | None = None) -> list[Change]:
        """Return the changes of *entry*, or those of schedule *id*; none if it cannot be read."""
        found = list[Change]()
        if entry is not None:
            with suppress(UnknownEntry):
                for change in changes(entry if id is None else narrowed(entry, id), self.run_suffix):
                    if id in (None, change.id):
                        found.append(change)
        return found

    def of_schedule(self, id: str, newest: int) -> tuple[list[Change], int]:
        """
        Return the changes of schedule *id*, in order, from its first entry and its *newest* ones, and the number of
        left out entries between them. An archive counts two ids with one CRC-32 together.
        """
        late, left_out = list(islice(self.changes_of(id), newest)), 0
        if len(late) == newest:
            early = next(self.changes_of(id, is_forwards=True))
            if early[0] < late[-1][0]:
                late.append(early)
                left_out = max(self.count(id) - len(late), 0)
        return [self.with_ready(change, n) for n, mine in reversed(late) for change in mine], left_out

    def changes_of(self, id: str, *, is_forwards: bool = False) -> Iterator[tuple[int, list[Change]]]:
        """Yield the changes of schedule *id*, entry by entry with its number; the newest first."""
        for n, entry in self.entries(id, is_forwards=is_forwards):
            if mine := self.changes_in(entry, id):
                yield n, mine

    def term_between(self, since_us: int, t_us: int) -> tuple[int, int | None] | None:
        """
        Return the beginning of the last term that began in [since_us, t_us), and the last entry of a leader before it
        (None: never), in µs. None if no term began then.
        """
        term = self.last_of([TermEntry.kind], self.first_since(since_us), self.first_since(t_us))
        if term is None:
            return None
        n, began = term
        if n not in self._led:
            led = self.last_of(leaders_kinds(), 0, n)  # at most the term before
            self._led[n] = led[1].position.t_us if led else None
        return began.position.t_us, self._led[n]

    def with_ready(self, push: Change, n: int) -> Change:
        """
        Return *push* of entry number *n*; if it was late, with the time of the last entry before that put, resumed or
        moved its schedule when its due time had passed (``ready_us``).
        """
        if push.what is not What.FIRED or (push.late_ms or 0.0) <= LATE_MS:
            return push
        first_n = self.first_since((push.due_ms or 0) * 1000)
        for _, entry in self.entries(push.id, first_n, n, kinds=_MAKES_DUE):
            with suppress(UnknownEntry):
                if push.id in parse(entry, self.run_suffix).made_due():
                    return replace(push, ready_us=entry.position.t_us)
        return push


class History(ScheduleHistory):
    """
    The archive at *path*, read-only, inside the block. Another process or thread may write it. *db*: its connection, if
    it is in memory; its writer waits. ``life``: the number of its state; ``is_bootstrapping``: a bootstrap reads the
    next one from Redis. ``has_whole_state``: it does not, and every entry was understood.

    Raises:
        ArchiveCorrupt, ArchiveFailed: in the block, too, for any error of SQLite.
    """

    def __init__(self, path: Path, db: sqlite3.Connection | None = None) -> None:
        self.path, self._in_memory = path, db

    def __enter__(self) -> Self:
        self._led = {}
        with ExitStack() as undo:
            undo.enter_context(converted(self.path))
            self.db = self._in_memory or connect_to_read(self.path)
            undo.callback(*((self.db.close,) if self._in_memory is None else (self.db.execute, "ROLLBACK")))
            self.db.create_function("has", 2, body.has, deterministic=True)
            self.db.execute("BEGIN")  # a consistent view of one moment
            facts = dict(self.db.execute("SELECT name, value FROM fact").fetchall())
            self.last_n = last_n(self.db)
            self.segments = segments(self.db)
            self._undo = undo.pop_all()
        self.id, self.namespace = str(facts["archive"]), str(facts["namespace"])
        self.complete_since: str | None = facts.get("complete_since")  # "start", or t in µs
        self.position = body.position_of(facts.get("position"))
        self.life, self.is_bootstrapping = int(facts.get("life", 1)), "boot_n" in facts
        self.has_whole_state = not self.is_bootstrapping and not int(facts.get("unknown_entries", 0))
        self.run_suffix = suffix_of(self.namespace)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._undo.__exit__(kind, error, tb)

    # -- entries ----------------------------------------------------------------------------------

    def entry(self, n: int) -> Entry | None:
        """Return entry number *n*; None if it was deleted by age."""
        row = self.db.execute(f"{ENTRY} WHERE n = ?", (n,)).fetchone()
        return None if row is None else body.entry_of(row)

    def numbers(
        self, id: str, first_n: int = 0, end_n: int | None = None, *, is_forwards: bool = False
    ) -> Iterator[tuple[int, str]]:
        """
        Yield numbers and kinds of the entries in [first_n, end_n) that may concern schedule *id*; the newest first.
        """
        key, is_all = crc32(id.encode()), first_n == 0 and end_n is None
        end_n = self.last_n + 1 if end_n is None else end_n
        some = self.segments if is_all else self._segments_between(first_n, end_n)
        query = f"SELECT n, kind {_OF_ID} AND n >= ? AND n < ? ORDER BY n {'ASC' if is_forwards else 'DESC'}"
        for segment in some if is_forwards else reversed(some):
            yield from self.db.execute(query, (segment, key, first_n, end_n))

    def last_of(self, kinds: Sequence[str], first_n: int, end_n: int) -> tuple[int, Entry] | None:
        which = f"kind = '{kinds[0]}'" if len(kinds) == 1 else body.of_kinds(kinds)  # as in the index of terms
        query = f"{ENTRY} WHERE {which} AND n >= ? AND n < ? ORDER BY n DESC LIMIT 1"
        row = self.db.execute(query, (first_n, end_n)).fetchone()
        return None if row is None else (row[0], body.entry_of(row))

    def first_since(self, since_us: int) -> int:
        return first_since(self.db, since_us, self.last_n)

    def count(self, id: str) -> int:
        query, key = f"SELECT count(*) {_OF_ID}", crc32(id.encode())
        return sum(int(self.db.execute(query, (segment, key)).fetchone()[0]) for segment in self.segments)

    # -- the log ----------------------------------------------------------------------------------

    def of_log(
        self, limit: int, most: int, *, since_us: int | None = None, behind: Position | None = None
    ) -> Iterator[Entry]:
        """
        Yield entries of the log, in order: *limit* after the position *behind*, by time if it is not in this archive;
        else with t >= *since_us*; else the newest. Of these, the first *most*.
        """
        if behind is not None and (n := number_of(self.db, behind)) is not None:
            first_n = n + 1
        elif behind is not None or since_us is not None:
            first_n = self.first_since(behind.t_us + 1 if behind else since_us or 0)
        else:
            query = "SELECT n FROM entry WHERE seq IS NOT NULL ORDER BY n DESC LIMIT 1 OFFSET ?"
            found = self.db.execute(query, (max(limit, 1) - 1,)).fetchone()
            first_n = found[0] if found else 0
        query = f"{ENTRY} WHERE n >= ? AND seq IS NOT NULL ORDER BY n LIMIT ?"
        return map(body.entry_of, self.db.execute(query, (first_n, max(min(limit, most), 0))))

    # -- how --------------------------------------------------------------------------------------

    def _segments_between(self, first_n: int, end_n: int) -> range:
        """
        Return the segments of ``touch`` that may have the entries in [first_n, end_n). Entries are in order, so any row
        of a segment shows where it is.
        """
        bounds = [bisect_left(self.segments, n, key=self._any_n) for n in (first_n, end_n)]
        return range(max(bounds[0] - 1, 0), min(bounds[1] + 1, len(self.segments)))

    def _any_n(self, segment: int) -> int:
        """Return the number of an entry in *segment*; of an empty one, that of the next."""
        query = "SELECT n FROM touch WHERE segment >= ? ORDER BY segment LIMIT 1"
        found = self.db.execute(query, (segment,)).fetchone()
        return self.last_n + 1 if found is None else int(found[0])
