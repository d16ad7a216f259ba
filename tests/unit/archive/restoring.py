"""Rows and entries of a merge."""

from __future__ import annotations

from tests.log_rows import row_fields
from tests.unit.archive.ground import DUE_MS, T_US, entry
from zsched.core.log import Entry
from zsched.core.log.recovery import Restored

RUN = str(DUE_MS)
JOB = (b"origin", b"mail", b"data", b"call")
OWN = (b"trigger", b"every 5", b"lane", b"high", b"nominal", RUN.encode(), b"last", b"r-5")
OLD_US = T_US - 5  # of a change in the lost history


def end(seq: int, *run_ids: str) -> Entry:
    """Return the entry of runs that succeeded."""
    return entry(seq, "end", *row_fields("end", *(f"{run_id} succeeded {{}}" for run_id in run_ids)))


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
