"""Entries as the scripts log them (LOGS in zsched/lua/*.lua), rows of a merge, and the contents of an archive."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.log_rows import row_fields
from zsched.archive import Archive
from zsched.core.clock import ManualClock
from zsched.core.difference import Held
from zsched.core.log import Entry, Position
from zsched.core.log.recovery import Restored

T_US = 1_800_000_000_000_000  # of the entry with seq 0; each is a second later than the one before
SECOND_US = 1_000_000
DUE_MS = 1_900_000_000_000
RUN = str(DUE_MS)
JOB = (b"origin", b"mail", b"data", b"call")
OWN = (b"trigger", b"every 5", b"lane", b"high", b"nominal", RUN.encode(), b"last", b"r-5")
OLD_US = T_US - 5  # of a change in the lost history
TWINS = ("plumless", "buckeroo")  # two ids of one CRC-32


def entry(seq: int, kind: str, *texts: Any, epoch: int = 1) -> Entry:
    """Return the entry <epoch>-<seq> like XRANGE."""
    head = [b"kind", kind.encode(), b"t", b"%d" % (T_US + seq * SECOND_US)]
    return Entry.of(b"%d-%d" % (epoch, seq), head + [_text(one) for one in texts])


def put(seq: int, *ids: str, due_ms: int = DUE_MS, data: bytes = b"call", **extra: str) -> Entry:
    """Return a put of one-shots with one due time."""
    rows = [text for id in ids for text in (id, due_ms, "data", data)]
    shared = ["lane", "low", "fields", 2, "origin", "mail", "zs_created_by", "ann", "rows", len(ids)]
    return entry(seq, "put", *shared, *rows, *(text for pair in extra.items() for text in pair))


def put_recurring(seq: int, id: str, due_ms: int | str = DUE_MS, *paused: str, data: bytes = b"call") -> Entry:
    """Return a put of a rule."""
    shape = ["shapes", 1, "lane", "high", "schedule", 1, "func", "app.task", "template", 1, "origin", "mail"]
    words = f"1 {due_ms} {due_ms} 5 5 - - {'paused' if paused else '-'} digest"
    return entry(seq, "put_recurring", *shape, "rows", 1, id, words, "trigger", "every 60000", "data", data)


def enqueue(seq: int, run_id: str, data: bytes = b"call") -> Entry:
    """Return the entry of a run on request."""
    return entry(seq, "enqueue", "rows", 1, run_id, "0 2 -", "origin", "mail", "data", data)


def fire(seq: int, *run_ids: str, **more: str) -> Entry:
    """Return the entry of pushed one-shots."""
    return entry(seq, "fire", "runs", " ".join(run_ids), *(text for pair in more.items() for text in pair))


def end(seq: int, *run_ids: str) -> Entry:
    """Return the entry of runs that succeeded."""
    return entry(seq, "end", *row_fields("end", *(f"{run_id} succeeded {{}}" for run_id in run_ids)))


def cancel(seq: int, id: str) -> Entry:
    """Return the entry of a cancelled one-shot."""
    return entry(seq, "cancel", "rows", 1, id, DUE_MS)


def restore(seq: int, *given: Restored, epoch: int = 1) -> Entry:
    """Return the entry of a merge with the rows *given*."""
    texts = [text for row in given for text in row.texts()]
    return entry(seq, "restore", "reason", "lost", "archive", "x", "rows", len(given), *texts, epoch=epoch)


def one_shot(place: str = "due", id: str = "a", note: str | None = None, t_us: int = OLD_US) -> Restored:
    """Return the row of a one-shot in a merge."""
    return Restored(id, RUN, place, "low", DUE_MS, t_us, note, JOB, ())


def rule(place: str = "due", id: str = "r", note: str | None = None) -> Restored:
    """Return the row of a rule in a merge."""
    own = OWN if place != "ended" else (*OWN[:4], *OWN[6:], b"ended_at", b"7")
    return Restored(id, "", place, "high", None if place == "ended" else DUE_MS, OLD_US, note, JOB, own)


def held(id: str, place: str = "due", run: str = str(DUE_MS), data: bytes = b"call") -> Held:
    """Return a one-shot as a bootstrap reads it."""
    return Held(id, run, place, "normal", DUE_MS, None, None, None, [b"origin", b"mail", b"data", data])


def at(seq: int) -> Position:
    """Return the position of entry *seq*."""
    return Position(1, seq, T_US + seq * SECOND_US)


def archived(path: Path, entries: Sequence[Entry], **options: Any) -> Path:
    """Write *entries* into an archive at *path*, and close it."""
    archive = Archive(path, "default", **options)
    archive.append(entries)
    archive.commit()
    archive.close()
    return path


def places(archive: Archive) -> dict[str, str]:
    """Return the places by run id or id."""
    return {f"{row.id}-{row.run}" if row.run else row.id: row.place for row, _ in archive.state()}


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


def _text(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
