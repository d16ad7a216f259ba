"""
The BLOB of an entry's texts: their number (32 bits), the bytes of a length (1, 2 or 4), their lengths, the texts.
Numbers are little-endian.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from zlib import crc32

from zsched.core.log import Entry, Position
from zsched.errors import ArchiveCorrupt

_HEAD = 5  # bytes
_TYPES = {1: "B", 2: "H", 4: "I"}  # of ``array``, by the bytes of a length


def pack(texts: Sequence[bytes]) -> bytes:
    """The BLOB of *texts*."""
    sizes = list(map(len, texts))
    longest = max(sizes, default=0)
    width = 1 if longest < 1 << 8 else 2 if longest < 1 << 16 else 4
    lengths = array(_TYPES[width], sizes)
    if sys.byteorder != "little":
        lengths.byteswap()
    return b"".join([len(texts).to_bytes(4, "little"), bytes([width]), lengths.tobytes(), *texts])


def unpack(body: bytes) -> list[bytes]:
    """The texts of a BLOB."""
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
