"""The BLOB of an entry's texts: their number, their lengths (32 bits each, little-endian), the texts."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from zlib import crc32

from zsched.core.log import Entry, Position
from zsched.errors import ArchiveCorrupt

_LENGTH = 4  # bytes


def pack(texts: Sequence[bytes]) -> bytes:
    """The BLOB of *texts*."""
    lengths = array("I", [len(texts), *map(len, texts)])
    if sys.byteorder != "little":
        lengths.byteswap()
    return lengths.tobytes() + b"".join(texts)


def unpack(body: bytes) -> list[bytes]:
    """The texts of a BLOB."""
    count = int.from_bytes(body[:_LENGTH], "little")
    lengths = array("I", body[_LENGTH : _LENGTH * (count + 1)])
    if sys.byteorder != "little":
        lengths.byteswap()
    texts, end = [], _LENGTH * (count + 1)
    for length in lengths:
        texts.append(body[end : end + length])
        end += length
    return texts


def entry_checksum(epoch: int, seq: int | None, t_us: int, kind: str, body: bytes) -> int:
    """CRC-32 over all that an entry says."""
    return crc32(body, crc32(f"{epoch} {seq} {t_us} {kind}".encode()))


HistoryRow = tuple[int, int, int | None, int, str, bytes, int]  # n, epoch, seq, t, kind, body, sum
COLUMNS = "n, epoch, seq, t, kind, body, sum"


def history_row(n: int, entry: Entry, body: bytes, *, is_ours: bool = False) -> HistoryRow:
    """The row of *entry*. *is_ours*: it stands for no entry of the log, so has no seq."""
    epoch, seq, t_us = entry.position
    kept = None if is_ours else seq
    return n, epoch, kept, t_us, entry.kind, body, entry_checksum(epoch, kept, t_us, entry.kind, body)


def entry_of(row: HistoryRow) -> Entry:
    """The entry in a row. Raises ArchiveCorrupt when it is not what was written."""
    n, epoch, seq, t_us, kind, body, sum = row
    try:
        is_as_written = entry_checksum(epoch, seq, t_us, kind, body) == sum
    except TypeError:  # a value has another type
        is_as_written = False
    if not is_as_written:
        raise ArchiveCorrupt(f"history entry {n} is not what was written: its checksum differs")
    return Entry(Position(epoch, seq or 0, t_us), kind, unpack(body))


def of_kinds(kinds: Iterable[str]) -> str:
    """Return the SQL condition that an entry is of one of *kinds*."""
    return f"kind IN ({', '.join(map(repr, kinds))})"


def position_of(text: str | None) -> Position | None:
    """The position that ``str`` gave; None for None."""
    return None if text is None else Position.parse(text)
