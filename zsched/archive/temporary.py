"""An archive in memory: the newest entries of a log, folded and read as a daemon's archive folds and reads them."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final
from zlib import crc32

from zsched.archive import body
from zsched.archive.fold import StateWriter
from zsched.archive.history import History
from zsched.archive.schema import create
from zsched.core.entry import Entry, Position, UnknownEntry
from zsched.core.log.kinds import changes
from zsched.core.runs.run_id import suffix_of

_NOWHERE: Final = Path(":memory:")


class TemporaryArchive:
    """
    The fold of a log of *namespace* from its entry *first* (None: it is empty) to ``last``. It ends with its last
    reference. Threads share it: they add and read in turn. ``rows``: the number of schedules that its entries concern,
    each counted once per entry. *id*: only the history of that schedule is wanted, which needs no state, and no index
    but that of ids.
    """

    def __init__(self, namespace: str, first: Position | None, id: str | None = None) -> None:
        self.first, self.rows, self._lock, self._id = first, 0, Lock(), id
        self.is_whole = first is None or first.seq == 1  # it begins with the first entry of its log
        self.last: Position | None = None
        self._db = sqlite3.connect(_NOWHERE, isolation_level=None, check_same_thread=False)
        create(self._db)
        facts = {"archive": str(_NOWHERE), "namespace": namespace}
        self._db.executemany("INSERT INTO fact VALUES (?, ?)", facts.items())
        self._suffix, self._n = suffix_of(namespace), 0
        self._fold = None if id is not None else StateWriter(self._db, 1, self._suffix, is_part=True)

    def __del__(self) -> None:
        self._db.close()

    def add(self, entries: Iterable[Entry], last: Position | None) -> None:
        """Fold those of *entries*, in order, that come after its last one. *last*: the log was read up to it."""
        with self._lock, self._db:
            known = (-1, -1) if self.last is None else self.last.order
            self._db.execute("BEGIN")
            for entry in entries:
                if entry.position.order > known:
                    self._add(entry)
            if self._fold is not None:
                self._fold.flush()
            if last is not None and last.order > known:
                self.last = last

    def _add(self, entry: Entry) -> None:
        self._n += 1
        ids: Iterable[str] = ()
        with suppress(UnknownEntry):  # it is kept raw
            if self._fold is not None:
                ids = self._fold.add(self._n, entry)
            else:
                ids = {one.id for one in changes(entry, self._suffix) if one.id == self._id}
        self._db.execute(body.INSERT, body.history_row(self._n, entry, body.pack(entry.texts_to_keep)))
        touched = ((crc32(id.encode()), self._n) for id in ids)
        self.rows += self._db.executemany("INSERT OR IGNORE INTO touch VALUES (0, ?, ?)", touched).rowcount

    @contextmanager
    def history(self) -> Iterator[History]:
        """Read it in the block."""
        with self._lock, History(_NOWHERE, self._db) as history:
            yield history
