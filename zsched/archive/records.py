"""
Records in history entries: the fields of a schedule or run, by entry and row, and where its arguments stand.

With ``keep_args = false`` the arguments (RQ's ``data``) of an entry do not stand in the history: they are
kept apart, as long as the state needs them to put a schedule back, and then forgotten.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from zsched.core.entries import ENQUEUED_HEAD, RESTORED_HEAD, Enqueued, PutRecurring, Puts, restored
from zsched.core.held import OWN, Held
from zsched.core.log import Entry, Texts, UnknownEntry, text
from zsched.errors import ArchiveCorrupt

SCAN = "scan"  # the kind of entries that stand for no entry of the log: what a bootstrap read from Redis
_HEAD = 6  # texts before a scanned row's record
_SUM: Final = 4  # bytes of the checksum before arguments that stand apart


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a scan entry: where it was, and its record."""

    id: str
    run: str
    place: str
    lane: str
    due_ms: int | None
    first: int  # where the record begins in the entry's body
    record: Texts


def texts_of(held: Held) -> list[bytes]:
    """How *held* stands in a scan entry."""
    due = b"-" if held.due_ms is None else b"%d" % held.due_ms
    head = [held.id.encode(), held.run.encode(), held.place.encode(), held.lane.encode(), due]
    return [*head, b"%d" % len(held.record), *held.record]


def scanned(entry: Entry) -> Iterator[Row]:
    """The rows of a scan entry."""
    texts, at = entry.body, 0
    while at < len(texts):
        id, run, place, lane, due = (text.decode() for text in texts[at : at + _HEAD - 1])
        first = at + _HEAD
        at = first + int(texts[first - 1])
        yield Row(id, run, place, lane, None if due == "-" else int(due), first, texts[first:at])


Given = tuple[str, Texts]  # lane, '' where there is none (an enqueued run); the record, as ``core.held`` has it


@dataclass(frozen=True, slots=True)
class Record:
    """
    What a row of the state is of. ``fields``: RQ's job or, of a recurring schedule, the template of its runs;
    ``schedule``: a recurring schedule's own.
    """

    lane: str
    fields: dict[str, bytes]
    schedule: dict[str, bytes]


def reader(entry: Entry) -> Callable[[int], Given]:
    """
    Gives the lane and the record in a row of an entry that puts something; the entry is taken apart once.

    Raises:
        UnknownEntry: the entry is of another kind.
    """
    if entry.kind == "put":
        puts = Puts.of(entry)
        return lambda row: (puts.lane, [*puts.shared, b"data", puts.datas[row]])
    if entry.kind == "put_recurring":
        put = PutRecurring.of(entry)
        own = [each for name, value in put.schedule.items() for each in (name.encode(), value)]
        found = text(put.schedule.get("lane", b"normal")), [*put.template, *_as_own(own)]
        return lambda row: found
    if entry.kind == "enqueue":
        enqueued = Enqueued.of(entry)
        front = [OWN.encode() + b"flags", b"f"] if enqueued.is_at_front else []
        return lambda row: ("", [*enqueued.fields, *front])
    if entry.kind == "restore":
        rows = [row for _, row in restored(entry)]
        return lambda row: (rows[row].lane, [*rows[row].job, *_as_own(rows[row].own)])
    if entry.kind == SCAN:
        scan = list(scanned(entry))
        return lambda row: (scan[row].lane, scan[row].record)
    raise UnknownEntry(f"entry {entry.position.id} ({entry.kind}) holds no record")


def with_arguments(record: Texts, data: bytes) -> Texts:
    """*record* with arguments that stood apart from it."""
    at = record.index(b"data", 0) + 1
    return [*record[:at], data, *record[at + 1 :]]


def _as_own(pairs: Texts) -> Iterator[bytes]:
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        yield OWN.encode() + name
        yield value


def without_arguments(entry: Entry) -> tuple[Entry, dict[int, bytes]]:
    """*entry* with empty arguments, and what they were, by row."""
    places = _places_of_data(entry)
    if not places:
        return entry, {}
    body = list(entry.body)
    taken = {row: body[place] for row, place in places.items()}
    for place in places.values():
        body[place] = b""
    return entry._replace(body=body), taken


class Arguments:
    """Arguments that stand apart from the history of *db*."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def keep(self, n: int, datas: dict[int, bytes]) -> None:
        """Those of entry *n*, by row."""
        rows = [(n, row, _sum_of(n, row, data) + data) for row, data in datas.items()]
        self._db.executemany("INSERT OR REPLACE INTO argument VALUES (?, ?, ?)", rows)

    def of(self, n: int, row: int) -> bytes | None:
        """Those of one row, or None. Raises ArchiveCorrupt."""
        found = self._db.execute("SELECT data FROM argument WHERE n = ? AND row = ?", (n, row)).fetchone()
        return arguments_of(n, row, found[0]) if found else None


def arguments_of(n: int, row: int, stored: bytes) -> bytes:
    """The arguments in a row of the table. Raises ArchiveCorrupt when they are not what was written."""
    if not isinstance(stored, bytes) or _sum_of(n, row, stored[_SUM:]) != stored[:_SUM]:
        raise ArchiveCorrupt(f"arguments {row} of history entry {n} are not what was written: their checksum differs")
    return stored[_SUM:]


def _sum_of(n: int, row: int, data: bytes) -> bytes:
    return crc32(data, crc32(b"%d %d" % (n, row))).to_bytes(_SUM, "little")


def _places_of_data(entry: Entry) -> dict[int, int]:
    """Where in the body the arguments of each row stand; a row without any, broken by a foreign hand, has no place."""
    body = entry.body
    spans: list[tuple[int, int]] = []
    if entry.kind == "put":
        first = 6 + 2 * int(body[3])
        return dict(enumerate(range(first + 3, first + 4 * int(body[first - 1]), 4)))
    if entry.kind == "put_recurring":
        first = 8 + 2 * int(body[5])
        spans = [(first, first + 2 * int(body[first - 1]))]
    elif entry.kind == "enqueue":
        spans = [(ENQUEUED_HEAD, ENQUEUED_HEAD + 2 * int(body[5]))]
    elif entry.kind == "restore":
        spans = [(at + RESTORED_HEAD, at + RESTORED_HEAD + len(row.job)) for at, row in restored(entry)]
    elif entry.kind == SCAN:
        spans = [(row.first, row.first + len(row.record)) for row in scanned(entry)]
    return {
        row: at + 1 for row, (first, last) in enumerate(spans) for at in range(first, last, 2) if body[at] == b"data"
    }
