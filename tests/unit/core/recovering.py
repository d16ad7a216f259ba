"""Entries, rows and archived schedules, as a merge compares them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zsched.core.log import FORMAT, Entry
from zsched.core.record import Place, Record

T_US = 1_800_000_000_123_456
DUE_MS = 1_800_000_000_000
SUFFIX = "-nshop"
RUN = f"{DUE_MS}{SUFFIX}"
LATER = f"{DUE_MS + 1}{SUFFIX}"
FIELDS = [b"description", b"app.task", b"origin", b"mail", b"data", b"\x80\n", b"zs", b"1"]
OWN = [b"trigger", b"every 60000", b"lane", b"high", b"created_at", b"5"]
PUT = ["lane", "low", "fields", 1, "origin", "mail", "rows", 2]
PUT += ["a", DUE_MS, "data", b"\x80", "b-1", DUE_MS + 1, "data", b""]
RULES = ["shapes", 1, "lane", "low", "schedule", 0, "template", 0, "rows", 2]
RULES += [
    text for id in "rs" for text in (id, f"1 {DUE_MS} {DUE_MS} 5 5 - - - - d", "trigger", "every 5", "data", b"x")
]


def entry(kind: str, *texts: Any, seq: int = 7, t_us: int = T_US) -> Entry:
    """Return entry 3-<seq> like XRANGE."""
    own = [text if isinstance(text, bytes) else str(text).encode() for text in texts]
    return Entry.of(b"3-%d" % seq, [b"kind", kind.encode(), b"t", b"%d" % t_us, *own])


def one_shot(place: str = "due", run: str = RUN, **more: Any) -> Record:
    due_ms = int(run.partition("-")[0])
    return replace(Record("a", run, Place(place), "normal", due_ms, FIELDS), **more)


def rule(**more: Any) -> Record:
    """Return a recurring schedule."""
    return replace(Record("a", "", Place.DUE, "high", DUE_MS, FIELDS[:6], OWN, DUE_MS, "a-5"), **more)


def row(place: str = "due", run: str = RUN, t_us: int = 50, id: str = "a") -> Record:
    return Record(id, run, Place(place), "normal", DUE_MS, FIELDS, t_us=t_us)


def restore(*rows: Record, archive: str = "archive-1", seq: int = 7) -> Entry:
    texts = [text for one in rows for text in one.texts()]
    head = ["reason", "lost", "archive", archive, "rows", len(rows)]
    return entry("restore", *head, *texts, "format", FORMAT, seq=seq)
