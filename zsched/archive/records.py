"""
Records in history entries: the fields of a schedule or run, by entry and row, and where its arguments stand.

With ``keep_args = false`` the arguments (RQ's ``data``) of an entry do not stand in the history: they are
kept apart, as long as the state needs them to put a schedule back, and then forgotten.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from zsched.core.held import Held
from zsched.core.log import Entry, PutRecurring, Puts, Texts, UnknownEntry, text
from zsched.errors import ArchiveCorrupt

SCAN = "scan"  # the kind of entries that stand for no entry of the log: what a bootstrap read from Redis
_OWN = "schedule:"  # before a recurring schedule's own fields in a scanned record
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


@dataclass(frozen=True, slots=True)
class Record:
    """
    What a row of the state is of. ``fields``: RQ's job or, of a recurring schedule, the template of its runs;
    ``schedule``: a recurring schedule's own. ``lane`` is '' where there is none: an enqueued run.
    """

    lane: str
    fields: dict[str, bytes]
    schedule: dict[str, bytes]


def record(entry: Entry, row: int) -> Record:
    """
    The record in row *row* of an entry that puts something.

    Raises:
        UnknownEntry: the entry is of another kind.
    """
    if entry.kind == "put":
        puts = Puts.of(entry)
        return Record(puts.lane, _named(puts.shared) | {"data": puts.datas[row]}, {})
    if entry.kind == "put_recurring":
        put = PutRecurring.of(entry)
        return Record(text(put.schedule.get("lane", b"normal")), _named(put.template), put.schedule)
    if entry.kind == "enqueue":
        return Record("", _named(entry.body[6:]), {})
    if entry.kind == SCAN:
        found = list(scanned(entry))[row]
        fields = _named(found.record)
        own = {name.removeprefix(_OWN): value for name, value in fields.items() if name.startswith(_OWN)}
        return Record(found.lane, {name: fields[name] for name in fields if not name.startswith(_OWN)}, own)
    raise UnknownEntry(f"entry {entry.position.id} ({entry.kind}) holds no record")


def without_arguments(entry: Entry) -> tuple[Entry, list[bytes]]:
    """*entry* with empty arguments, and what they were, row by row."""
    places = _places_of_data(entry)
    if not places:
        return entry, []
    body = list(entry.body)
    taken = [body[place] for place in places]
    for place in places:
        body[place] = b""
    return entry._replace(body=body), taken


class Arguments:
    """Arguments that stand apart from the history of *db*."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def keep(self, n: int, datas: Sequence[bytes]) -> None:
        """Those of the rows of entry *n*."""
        rows = [(n, row, _sum_of(n, row, data) + data) for row, data in enumerate(datas)]
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


def _places_of_data(entry: Entry) -> list[int]:
    body = entry.body
    if entry.kind == "put":
        first = 6 + 2 * int(body[3])
        return list(range(first + 3, first + 4 * int(body[first - 1]), 4))
    if entry.kind == "put_recurring":
        first = 8 + 2 * int(body[5])
        return _named_data(body, first, first + 2 * int(body[first - 1]))
    if entry.kind == "enqueue":
        return _named_data(body, 6, len(body))
    if entry.kind == SCAN:
        return [place for row in scanned(entry) for place in _named_data(body, row.first, row.first + len(row.record))]
    return []


def _named_data(body: Texts, first: int, last: int) -> list[int]:
    """Where the value of the field ``data`` stands; a row without one, broken by a foreign hand, has none."""
    return [at + 1 for at in range(first, last, 2) if body[at] == b"data"]


def _named(pairs: Texts) -> dict[str, bytes]:
    return {text(name): value for name, value in zip(pairs[::2], pairs[1::2], strict=True)}
