"""The contents of an archive's file: written, read, pruned and damaged; and a clock for its steps."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.states import state_of
from zsched.archive import Archive
from zsched.core.clock import ManualClock
from zsched.core.entry import Entry


def archived(path: Path, entries: Sequence[Entry], namespace: str = "default", **options: Any) -> Path:
    """Write *entries* into an archive at *path*, and close it."""
    archive = Archive(path, namespace, **options)
    archive.append(entries)
    archive.commit()
    archive.close()
    return path


def places(archive: Archive) -> dict[str, str]:
    """Return the places by run id or id."""
    return {f"{row.id}-{row.run}" if row.run else row.id: row.place for row in state_of(archive)}


def rows(path: Path, query: str) -> list[Any]:
    """Return the rows of a database query."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def take(archive: Archive, *entries: Entry) -> None:
    """Append and commit *entries*, all of which can be read."""
    assert [] == archive.append(entries)
    archive.commit()


def prune(archive: Archive, before_us: int = 0) -> None:
    """Commit, and delete the history before *before_us* and arguments that nothing needs."""
    archive.commit()
    archive.begin_pruning(before_us)
    while archive.prune():
        pass


def change(path: Path, statement: str, *values: object) -> None:
    """Change the file by SQL, like a failing disk."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert 0 < db.execute(statement, values).rowcount


class SteppingClock(ManualClock):
    """A clock on which each reading takes *step_ms*, and which counts its readings."""

    def __init__(self, step_ms: float) -> None:
        super().__init__()
        self.step_ms, self.reads = step_ms, 0

    def monotonic_ms(self) -> float:
        self.advance(self.step_ms)
        self.reads += 1
        return super().monotonic_ms()
