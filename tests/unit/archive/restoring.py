"""Rows and entries of a merge."""

from __future__ import annotations

from tests.log_rows import row_fields
from tests.unit.archive.ground import DUE_MS, T_US, entry
from zsched.core.log import FORMAT, Entry
from zsched.core.record import Place, Record

RUN = str(DUE_MS)
JOB = (b"origin", b"mail", b"data", b"call")
OWN = (b"trigger", b"every 5", b"lane", b"high")
OLD_US = T_US - 5  # of a change in the lost history


def end(seq: int, *run_ids: str) -> Entry:
    """Return the entry of runs that succeeded."""
    return entry(seq, "end", *row_fields("end", *(f"{run_id} succeeded {{}}" for run_id in run_ids)))


def restore(seq: int, *given: Record, epoch: int = 1) -> Entry:
    """Return the entry of a merge with the rows *given*."""
    texts = [text for row in given for text in row.texts()]
    head = ["reason", "lost", "archive", "x", "rows", len(given)]
    return entry(seq, "restore", *head, *texts, "format", FORMAT, epoch=epoch)


def one_shot(place: str = "due", id: str = "a", note: str | None = None, t_us: int = OLD_US) -> Record:
    """Return the row of a one-shot in a merge."""
    return Record(id, RUN, Place(place), "low", DUE_MS, JOB, note=note, t_us=t_us)


def rule(place: str = "due", id: str = "r", note: str | None = None) -> Record:
    """Return the row of a rule in a merge."""
    due_ms, nominal_ms = (None, None) if place == "ended" else (DUE_MS, DUE_MS)
    return Record(id, "", Place(place), "high", due_ms, JOB, OWN, nominal_ms, "r-5", note, OLD_US)
