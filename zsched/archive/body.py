"""
Bodies of history entries: an entry's texts in one BLOB, their checksum, and the records in them.

A BLOB is the type of a length (B or I, as in ``struct``), the number of its texts, their lengths, and the texts. All of
it is deflated (zlib, without a header), with a dictionary of texts that entries often have. So a short entry becomes
small, too: one put of 195 bytes has 96 (measured).

A record has the fields of a schedule or run, by entry and row. With ``keep_args = false`` its arguments (RQ's ``data``)
are not in the history. They are stored separately, as long as the state needs them to restore a schedule, and then
deleted.
"""

import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any, Final
from zlib import crc32

from zsched.core.entry import Entry, Position, Texts
from zsched.core.log.kinds import parse
from zsched.core.record import RecordFields
from zsched.errors import ArchiveCorrupt

_HEAD: Final = 5  # bytes
_SUM: Final = 4  # bytes of the checksum before separate arguments
_LEVEL: Final = 1  # of zlib; with 6 a bulk insert takes half as long again, for 5 % less
_LONG: Final = 8192  # bytes of texts
# Window and memory of zlib, without a header, for short entries and for long ones. Larger tables take longer to make
# than a short entry takes to deflate; a long one takes a third less time with them (measured).
_FOR_SHORT, _FOR_LONG = (-13, 5), (-15, 8)
# Texts as they follow each other in entries, the most frequent last. It is part of the format: no other dictionary can
# read what was written with this one.
_DICTIONARY: Final = (
    b'byshapes1lanenormalschedule3flagsfunctags[""]template4descriptionorigindefaultstatusqueuedtimeout180rows11 '
    b'1795978118628 1795978118628 1795978118628 - - - - trigger{"expr":"1000","gap":"shift","kind":"every","tz":"UTC"}'
    b"B\x16\x00\x00\x00\x02\x07\x04\x06\x06\x01\x0b\x0f\x06\x07\x07\x03\x02\x01\x07\x07\x04\x01$\r\x04*"
    b'bylanenormalfields5descriptionorigindefaulttimeout180zs1zs_tags[""]rows1-1795978118628data'
    b"\x80\x05\x95\x1f\x00\x00\x00\x00\x00\x00\x00(\x8c\x0f\x94NK\x01K\x00\x86\x94}\x94t\x94.(\x8c\x0fNK\x01K\x00\x86}t."
    b'B\x04\x02 \t\x00\x90 \t\x00\x90rows1-1795978118628succeeded{"fired":1795978118628,"queued":1795978118628,'
    b'"started":1795978118628,"ended":1795978118628,"worker":"","queue":"default","timeout":180}'
    b"B\x04\x00\x00\x00\x04\x01\x061\x061rows1fired 1795978118628 1795978119628 -B\x02\x00\x00\x00\x04\x20runs-1795978"
)


def pack(texts: Sequence[bytes]) -> bytes:
    """Return the BLOB of *texts*."""
    lengths = list(map(len, texts))
    width = "I" if max(lengths, default=0) > 255 else "B"
    packed = width.encode() + struct.pack(f"<I{len(texts)}{width}", len(texts), *lengths) + b"".join(texts)
    window, memory = _FOR_SHORT if len(packed) < _LONG else _FOR_LONG
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, window, memory, zdict=_DICTIONARY)
    return deflater.compress(packed) + deflater.flush()


def unpack(blob: bytes) -> list[bytes]:
    """Return the texts of a BLOB."""
    body = _inflated(blob)
    width, count = struct.unpack_from("<cI", body)
    lengths = struct.Struct(f"<{count}{width.decode()}")
    ends = accumulate(lengths.unpack_from(body, _HEAD), initial=_HEAD + lengths.size)
    return [body[start:end] for start, end in pairwise(ends)]


def has(blob: bytes, part: bytes) -> bool:
    """Return True if the texts of a BLOB, one after the other, have *part*. SQLite calls it."""
    with suppress(zlib.error):  # a corrupted one: its reader finds that by the checksum
        return part in _inflated(blob)
    return False


def _inflated(blob: bytes) -> bytes:
    return zlib.decompressobj(_FOR_LONG[0], zdict=_DICTIONARY).decompress(blob)


def demand_sum(sum_of: Callable[..., Any], parts: Iterable[Any], sum: Any, what: str, *which: Any) -> None:
    """Raise ArchiveCorrupt about *what*, with *which* filled in, unless *sum* is the checksum of *parts*."""
    try:
        is_right = sum_of(*parts) == sum
    except (TypeError, AttributeError):  # a value has another type
        is_right = False
    if not is_right:
        raise ArchiveCorrupt(f"{what % which} corrupted: the checksum differs")


def checksum(*parts: Any) -> int:
    """Return the CRC-32 of a row: of the texts of its *parts*, the last of which is bytes."""
    return crc32(parts[-1], crc32(" ".join(map(str, parts[:-1])).encode()))


HistoryRow = tuple[int, int, int | None, int, str, bytes, int]  # n, epoch, seq, t, kind, body, sum
COLUMNS = "n, epoch, seq, t, kind, body, sum"
INSERT: Final = f"INSERT INTO entry({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"


def history_row(n: int, entry: Entry, body: bytes, *, is_ours: bool = False) -> HistoryRow:
    """Return the row of *entry*. *is_ours*: it is not an entry of the log, so it has no seq."""
    epoch, seq, t_us = entry.position
    kept = None if is_ours else seq
    return n, epoch, kept, t_us, entry.kind, body, checksum(epoch, kept, t_us, entry.kind, body)


def entry_of(row: HistoryRow) -> Entry:
    """Return the entry in a row. Raises ArchiveCorrupt if its checksum differs."""
    n, epoch, seq, t_us, kind, body, sum = row
    demand_sum(checksum, row[1:-1], sum, "history entry %r is", n)
    return Entry.kept(Position(epoch, seq or 0, t_us), kind, unpack(body))


def of_kinds(kinds: Iterable[str]) -> str:
    """Return the SQL condition for entries of *kinds*."""
    return f"kind IN ({', '.join(map(repr, kinds))})"


def position_of(text: str | None) -> Position | None:
    """Return the position from its ``str``; None for None."""
    return None if text is None else Position.parse(text)


def fields_in(entry: Entry) -> Sequence[RecordFields]:
    """Return the fields of the records in *entry*, row by row. Raises UnknownEntry."""
    with parse(entry) as parsed:
        return parsed.fields_of_records()


def with_arguments(job: Texts, data: bytes) -> Texts:
    """Return the fields of *job* with its separate arguments."""
    at = 2 * job[::2].index(b"data") + 1
    return [*job[:at], data, *job[at + 1 :]]


def without_arguments(entry: Entry) -> tuple[Entry, dict[int, bytes]]:
    """Return *entry* with empty arguments, and its arguments by row."""
    with parse(entry) as parsed:
        places = parsed.payloads()
    if not places:
        return entry, {}
    body = list(entry.body)
    taken = {row: body[place] for row, place in places.items()}
    for place in places.values():
        body[place] = b""
    return entry._replace(body=body), taken


def keep_arguments(db: sqlite3.Connection, n: int, datas: dict[int, bytes]) -> None:
    """Store the arguments of entry *n*, by row, apart from the history."""
    rows = [(n, row, _sum_of(n, row, data) + data) for row, data in datas.items()]
    db.executemany("INSERT OR REPLACE INTO argument VALUES (?, ?, ?)", rows)


def arguments_at(db: sqlite3.Connection, n: int, row: int) -> bytes | None:
    """Return the arguments that are stored for one row, or None. Raises ArchiveCorrupt."""
    found = db.execute("SELECT data FROM argument WHERE n = ? AND row = ?", (n, row)).fetchone()
    return arguments_of(n, row, found[0]) if found else None


def arguments_of(n: int, row: int, stored: bytes) -> bytes:
    """Return the arguments in a row of the table. Raises ArchiveCorrupt if their checksum differs."""
    what = "arguments %r of history entry %r are"
    demand_sum(lambda: _sum_of(n, row, stored[_SUM:]) + stored[_SUM:], (), stored, what, row, n)
    return stored[_SUM:]


def _sum_of(n: int, row: int, data: bytes) -> bytes:
    return checksum(n, row, data).to_bytes(_SUM, "little")
