"""
The newest entries of a log in memory: folded and read as a daemon's archive folds and reads them; or only those about
one schedule, whose history needs no state and no index.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import Final
from zlib import crc32

from zsched.archive import body
from zsched.archive.fold import StateWriter
from zsched.archive.history import History, ScheduleHistory
from zsched.archive.schema import create
from zsched.core.entry import Entry, Position, UnknownEntry
from zsched.core.runs.run_id import suffix_of

_NOWHERE: Final = Path(":memory:")


class TemporaryArchive:
    """
    The fold of a log of *namespace* from its entry *first* (None: it is empty) to ``last``. It ends with its last
    reference. Threads share it: they add and read in turn. ``rows``: the number of schedules that its entries concern,
    each counted once per entry.
    """

    def __init__(self, namespace: str, first: Position | None) -> None:
        self.first, self.rows, self._lock = first, 0, Lock()
        self.is_whole = first is None or first.seq == 1  # it begins with the first entry of its log
        self.last: Position | None = None
        self._db = sqlite3.connect(_NOWHERE, isolation_level=None, check_same_thread=False)
        create(self._db)
        facts = {"archive": str(_NOWHERE), "namespace": namespace}
        self._db.executemany("INSERT INTO fact VALUES (?, ?)", facts.items())
        self._fold, self._n = StateWriter(self._db, 1, suffix_of(namespace), is_part=True), 0

    def __del__(self) -> None:
        self._db.close()

    def add(self, end: LogEnd) -> None:
        """Fold the entries of *end* that come after its last one."""
        with self._lock, self._db:
            known = (-1, -1) if self.last is None else self.last.order
            self._db.execute("BEGIN")
            for entry in (entry for entry in end.parts if entry.position.order > known):
                self._n += 1
                ids: Sequence[str] = ()
                with suppress(UnknownEntry):  # it is kept raw
                    ids = self._fold.add(self._n, entry)
                self._db.execute(body.INSERT, body.history_row(self._n, entry, body.pack(entry.texts_to_keep)))
                touched = ((crc32(id.encode()), self._n) for id in ids)
                self.rows += self._db.executemany("INSERT OR IGNORE INTO touch VALUES (0, ?, ?)", touched).rowcount
            self._fold.flush()
            if end.last is not None and end.last.order > known:
                self.last = end.last

    @contextmanager
    def history(self) -> Iterator[History]:
        """Read it in the block."""
        with self._lock, History(_NOWHERE, self._db) as history:
            yield history


class LogEnd(ScheduleHistory):
    """
    A log of *namespace* from its entry *first* to *last*. *parts*: its entries; or those about one schedule, and those
    that tell when leaders came and went: then it is the history of that schedule.
    """

    def __init__(self, namespace: str, parts: Sequence[Entry], first: Position | None, last: Position | None) -> None:
        self.namespace, self.parts, self.first, self.last = namespace, parts, first, last
        self.id, self.run_suffix, self._led = str(_NOWHERE), suffix_of(namespace), {}

    def entry(self, n: int) -> Entry:
        return self.parts[n - 1]

    def numbers(
        self, id: str, first_n: int = 0, end_n: int | None = None, *, is_forwards: bool = False
    ) -> Iterator[tuple[int, str]]:
        numbers = range(max(first_n, 1), len(self.parts) + 1 if end_n is None else end_n)
        return ((n, self.entry(n).kind) for n in (numbers if is_forwards else reversed(numbers)))

    def last_of(self, kinds: Sequence[str], first_n: int, end_n: int) -> tuple[int, Entry] | None:
        return next(self.entries("", first_n, end_n, kinds=kinds), None)

    def first_since(self, since_us: int) -> int:
        return bisect_left(self.parts, since_us, key=lambda entry: entry.position.t_us) + 1

    def count(self, id: str) -> int:
        return sum(1 for _ in self.changes_of(id))

    def history(self) -> AbstractContextManager[ScheduleHistory]:
        """Read it in the block."""
        return nullcontext(self)


def folded(end: LogEnd, kept: TemporaryArchive | None) -> TemporaryArchive:
    """Return *kept* with the entries of *end*, which follow it; None: a new archive with them."""
    archive = kept or TemporaryArchive(end.namespace, end.first)
    archive.add(end)
    return archive
