"""
Bodies of history entries: an entry's texts in one BLOB, their checksum, and the records in them.

A BLOB is the number of its texts (32 bits), the bytes of a length (1, 2 or 4), their lengths, the texts. Numbers are
little-endian.

A record has the fields of a schedule or run, by entry and row. With ``keep_args = false`` its arguments (RQ's ``data``)
are not in the history. They are stored separately, as long as the state needs them to restore a schedule, and then
deleted.
"""

from __future__ import annotations

import sqlite3
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

from zsched.core.entry import Entry, Position, Texts, reading
from zsched.core.log.kinds import parse
from zsched.core.record import RecordFields
from zsched.errors import ArchiveCorrupt

_HEAD = 5  # bytes
_TYPES = {1: "B", 2: "H", 4: "I"}  # of ``array``, by the bytes of a length
_SUM: Final = 4  # bytes of the checksum before separate arguments


def pack(texts: Sequence[bytes]) -> bytes:
    """Return the BLOB of *texts*."""
    sizes = list(map(len, texts))
    longest = max(sizes, default=0)
    width = 1 if longest < 1 << 8 else 2 if longest < 1 << 16 else 4
    lengths = array(_TYPES[width], sizes)
    if sys.byteorder != "little":
        lengths.byteswap()
    return b"".join([len(texts).to_bytes(4, "little"), bytes([width]), lengths.tobytes(), *texts])


def unpack(body: bytes) -> list[bytes]:
    """Return the texts of a BLOB."""
    count, width = int.from_bytes(body[: _HEAD - 1], "little"), body[_HEAD - 1]
    lengths = array(_TYPES[width], body[_HEAD : _HEAD + width * count])
    if sys.byteorder != "little":
        lengths.byteswap()
    texts, end = [], _HEAD + width * count
    for length in lengths:
        texts.append(body[end : end + length])
        end += length
    return texts


def entry_checksum(epoch: int, seq: int | None, t_us: int, kind: str, body: bytes) -> int:
    """Return the CRC-32 of an entry's whole content."""
    return crc32(body, crc32(f"{epoch} {seq} {t_us} {kind}".encode()))


HistoryRow = tuple[int, int, int | None, int, str, bytes, int]  # n, epoch, seq, t, kind, body, sum
COLUMNS = "n, epoch, seq, t, kind, body, sum"


def history_row(n: int, entry: Entry, body: bytes, *, is_ours: bool = False) -> HistoryRow:
    """Return the row of *entry*. *is_ours*: it is not an entry of the log, so it has no seq."""
    epoch, seq, t_us = entry.position
    kept = None if is_ours else seq
    return n, epoch, kept, t_us, entry.kind, body, entry_checksum(epoch, kept, t_us, entry.kind, body)


def entry_of(row: HistoryRow) -> Entry:
    """Return the entry in a row. Raises ArchiveCorrupt if its checksum differs."""
    n, epoch, seq, t_us, kind, body, sum = row
    try:
        is_as_written = entry_checksum(epoch, seq, t_us, kind, body) == sum
    except TypeError:  # a value has another type
        is_as_written = False
    if not is_as_written:
        raise ArchiveCorrupt(f"history entry {n} is corrupted: its checksum differs")
    return Entry.kept(Position(epoch, seq or 0, t_us), kind, unpack(body))


def of_kinds(kinds: Iterable[str]) -> str:
    """Return the SQL condition for entries of *kinds*."""
    return f"kind IN ({', '.join(map(repr, kinds))})"


def position_of(text: str | None) -> Position | None:
    """Return the position from its ``str``; None for None."""
    return None if text is None else Position.parse(text)


def fields_in(entry: Entry) -> Sequence[RecordFields]:
    """Return the fields of the records in *entry*, row by row. Raises UnknownEntry."""
    parsed = parse(entry)
    with reading(entry):
        return parsed.fields_of_records()


def with_arguments(job: Texts, data: bytes) -> Texts:
    """Return the fields of *job* with its separate arguments."""
    at = 2 * job[::2].index(b"data") + 1
    return [*job[:at], data, *job[at + 1 :]]


def without_arguments(entry: Entry) -> tuple[Entry, dict[int, bytes]]:
    """Return *entry* with empty arguments, and its arguments by row."""
    with reading(entry):
        places = parse(entry).payloads()
    if not places:
        return entry, {}
    body = list(entry.body)
    taken = {row: body[place] for row, place in places.items()}
    for place in places.values():
        body[place] = b""
    return entry._replace(body=body), taken


class Arguments:
    """Arguments that are stored apart from the history of *db*."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def keep(self, n: int, datas: dict[int, bytes]) -> None:
        """Store the arguments of entry *n*, by row."""
        rows = [(n, row, _sum_of(n, row, data) + data) for row, data in datas.items()]
        self._db.executemany("INSERT OR REPLACE INTO argument VALUES (?, ?, ?)", rows)

    def of(self, n: int, row: int) -> bytes | None:
        """Return the arguments of one row, or None. Raises ArchiveCorrupt."""
        found = self._db.execute("SELECT data FROM argument WHERE n = ? AND row = ?", (n, row)).fetchone()
        return arguments_of(n, row, found[0]) if found else None


def arguments_of(n: int, row: int, stored: bytes) -> bytes:
    """Return the arguments in a row of the table. Raises ArchiveCorrupt if their checksum differs."""
    try:
        is_as_written = _sum_of(n, row, stored[_SUM:]) == stored[:_SUM]
    except TypeError:  # a value has another type
        is_as_written = False
    if not is_as_written:
        raise ArchiveCorrupt(f"arguments {row} of history entry {n} are corrupted: their checksum differs")
    return stored[_SUM:]


def _sum_of(n: int, row: int, data: bytes) -> bytes:
    return crc32(data, crc32(b"%d %d" % (n, row))).to_bytes(_SUM, "little")
