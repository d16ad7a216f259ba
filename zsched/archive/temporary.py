"""An archive in memory: the newest entries of a log, folded and read as a daemon's archive folds and reads them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from zsched.archive.archive import Archive
from zsched.archive.history import History
from zsched.archive.schema import create
from zsched.core.log import Entry, Position

_NOWHERE = Path(":memory:")


class TemporaryArchive(Archive):
    """
    The fold of entries of *namespace* from *first* on (None: its log is empty). It ends with its last reference.
    Threads share it: one that adds or reads holds ``lock``.
    """

    def __init__(self, namespace: str, first: Position | None) -> None:
        super().__init__(_NOWHERE, namespace)
        self.first, self.lock = first, Lock()

    def __del__(self) -> None:
        self._db.close()

    def _open(self, holder: int | None) -> None:
        self._db = sqlite3.connect(_NOWHERE, isolation_level=None, check_same_thread=False)
        create(self._db)
        self._load()

    def _start_fold(self, life: int) -> None:
        super()._start_fold(life)
        self._fold.is_part = True

    @property
    def is_whole(self) -> bool:
        """True if it begins with the first entry of its log."""
        return self.first is None or self.first.seq == 1

    @property
    def rows(self) -> int:
        """The number of schedules that its entries concern, each counted once per entry."""
        return self._touches

    def add(self, entries: Iterable[Entry]) -> None:
        """Fold those of *entries*, in order, that come after its last one."""
        tail = self.tail
        self.append(entry for entry in entries if tail is None or entry.position.order > tail.order)
        self.commit()

    def history(self) -> History:
        """Return its reader."""
        return History(self.path, self._db)
