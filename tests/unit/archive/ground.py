"""Entries as the scripts log them (LOGS in zsched/lua/*.lua), rows of a merge, and the contents of an archive."""

from __future__ import annotations

from typing import Any

from zsched.core.log import Entry, Position
from zsched.core.record import Place, Record

T_US = 1_800_000_000_000_000  # of the entry with seq 0; each is a second later than the one before
SECOND_US = 1_000_000
DUE_MS = 1_900_000_000_000
TWINS = ("plumless", "buckeroo")  # two ids of one CRC-32


def entry(seq: int, kind: str, *texts: Any, epoch: int = 1) -> Entry:
    """Return the entry <epoch>-<seq> like XRANGE."""
    head = [b"kind", kind.encode(), b"t", b"%d" % (T_US + seq * SECOND_US)]
    return Entry.of(b"%d-%d" % (epoch, seq), head + [_text(one) for one in texts])


def put(seq: int, *ids: str, due_ms: int = DUE_MS, data: bytes = b"call", **extra: str) -> Entry:
    """Return a put of one-shots with one due time."""
    rows = [text for id in ids for text in (id, due_ms, "data", data)]
    shared = ["lane", "low", "fields", 2, "origin", "mail", "zs_owner", "ann", "rows", len(ids)]
    return entry(seq, "put", *shared, *rows, *(text for pair in extra.items() for text in pair))


def put_recurring(seq: int, id: str, due_ms: int | str = DUE_MS, *paused: str, data: bytes = b"call") -> Entry:
    """Return a put of a rule."""
    shape = ["shapes", 1, "lane", "high", "schedule", 1, "func", "app.task", "template", 1, "origin", "mail"]
    words = f"1 {due_ms} {due_ms} 5 5 - - {'paused' if paused else '-'} - digest"
    return entry(seq, "put_recurring", *shape, "rows", 1, id, words, "trigger", "every 60000", "data", data)


def enqueue(seq: int, run_id: str, data: bytes = b"call") -> Entry:
    """Return the entry of a run on request."""
    return entry(seq, "enqueue", "rows", 1, run_id, "0 2 -", "origin", "mail", "data", data)


def fire(seq: int, *run_ids: str, **more: str) -> Entry:
    """Return the entry of pushed one-shots."""
    return entry(seq, "fire", "runs", " ".join(run_ids), *(text for pair in more.items() for text in pair))


def cancel(seq: int, id: str) -> Entry:
    """Return the entry of a cancelled one-shot."""
    return entry(seq, "cancel", "rows", 1, id, DUE_MS)


def held(id: str, place: str = "due", run: str = str(DUE_MS), data: bytes = b"call") -> Record:
    """Return a one-shot as a bootstrap reads it."""
    return Record(id, run, Place(place), "normal", DUE_MS, [b"origin", b"mail", b"data", data])


def at(seq: int) -> Position:
    """Return the position of entry *seq*."""
    return Position(1, seq, T_US + seq * SECOND_US)


def _text(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
