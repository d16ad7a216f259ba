"""
Prefixes of ids: which parts of the history may have a schedule whose id begins with a text.

``prefix`` has Bloom filters: one per block of the history and per length in ``LENGTHS``, over the first characters of
the ids whose outcomes are in the block. A search for ``mail-acme*`` asks the filters of length 8 for ``mail-acm``, and
reads only the blocks that may have it, one in fifty of the others by mistake. A block has some 4,000 changes. A filter
has 8 to 16 bits per different prefix: 9 bytes per run with random uuids, and less for ids that share prefixes.

They are built behind the log, when the archive has nothing else to do: the ids of a run cost 3 µs. A search reads the
part behind the last block directly.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final
from zlib import crc32

from zsched.archive import body
from zsched.core.clock import Clock
from zsched.core.entry import UnknownEntry, reading
from zsched.core.log.kinds import kinds_telling, parse
from zsched.core.occurrences.outcomes import SEARCHED

LENGTHS: Final = (3, 5, 8, 12, 16, 24)  # characters
PREFIX_IDS: Final = 4096  # in a block, at least, but for one with very many small entries
_ENTRIES: Final = 65_536  # of any kind in a block, at most
_BITS: Final = 8  # per prefix, at least
_PROBES: Final = 3
_SEARCHED: Final = body.of_kinds(kinds_telling(*SEARCHED))

PrefixRow = tuple[int, int, int, bytes, int]  # length, first_n, last_n, bits, sum
NumberRange = tuple[int, int]  # numbers of entries, both included


class PrefixWriter:
    """Builds the filters of *db*, block by block."""

    def __init__(self, db: sqlite3.Connection, run_suffix: str) -> None:
        self._db, self._suffix = db, run_suffix

    def step(self, last_n: int, budget_ms: float, clock: Clock) -> Iterator[None]:
        """Build complete blocks up to entry *last_n* for about *budget_ms*. Yield before each is written."""
        until_ms = clock.monotonic_ms() + budget_ms
        while clock.monotonic_ms() < until_ms and (block := self._next(last_n)) is not None:
            yield
            self._db.executemany("INSERT OR REPLACE INTO prefix VALUES (?, ?, ?, ?, ?)", block)

    def _next(self, last_n: int) -> list[PrefixRow] | None:
        """Return the filters of the next block; None if it is not complete."""
        first_n = covered_to(self._db) + 1
        ids, end_n = set[str](), 0
        query = f"SELECT {body.COLUMNS} FROM entry WHERE n >= ? AND n <= ? AND {_SEARCHED} ORDER BY n"
        most_n = min(first_n + _ENTRIES - 1, last_n)
        with closing(self._db.execute(query, (first_n, most_n))) as rows:
            count = 0
            for row in rows:
                found = self._ids_in(row)
                ids.update(found)
                count += len(found)
                if count >= PREFIX_IDS:
                    end_n = row[0]
                    break
            else:
                if most_n - first_n + 1 < _ENTRIES:
                    return None
                end_n = most_n
        return [prefix_row(length, first_n, end_n, ids) for length in LENGTHS]

    def _ids_in(self, row: body.HistoryRow) -> list[str]:
        entry = body.entry_of(row)
        try:
            parsed = parse(entry, self._suffix)
            with reading(entry):
                keys = parsed.only_fired()
                return [change.id for change in parsed.searched()] if keys is None else [id for id, _ in keys]
        except UnknownEntry:
            return []


def covered_to(db: sqlite3.Connection) -> int:
    """Return the number of the last entry in a block; 0 if there is none."""
    query = "SELECT last_n FROM prefix WHERE length = ? ORDER BY first_n DESC LIMIT 1"
    found = db.execute(query, (LENGTHS[0],)).fetchone()
    return int(found[0]) if found else 0


def ranges(db: sqlite3.Connection, prefix: str, bottom_n: int, top_n: int) -> list[NumberRange]:
    """Return the parts from *bottom_n* to *top_n* that may have ids with *prefix*, the newest first."""
    length = max((one for one in LENGTHS if one <= len(prefix)), default=None)
    if length is None:
        return [(bottom_n, top_n)]
    behind_n = covered_to(db)
    found = [(max(behind_n + 1, bottom_n), top_n)] if top_n > behind_n else []
    probes = _probes(prefix[:length])
    query = (
        "SELECT length, first_n, last_n, bits, sum FROM prefix WHERE length = ? AND first_n <= ? AND last_n >= ?"
        " ORDER BY first_n DESC"
    )
    for row in db.execute(query, (length, top_n, bottom_n)):
        bits, mask = bits_in(row), len(row[3]) * 8 - 1
        if all(bits[at >> 3] >> (at & 7) & 1 for at in (probe & mask for probe in probes)):
            low, high = max(row[1], bottom_n), min(row[2], top_n)
            if found and found[-1][0] == high + 1:
                found[-1] = (low, found[-1][1])
            else:
                found.append((low, high))
    first = db.execute("SELECT min(first_n) FROM prefix WHERE length = ?", (length,)).fetchone()[0]
    if first is not None and first > bottom_n:  # blocks of old entries were deleted; some of these entries are kept
        found.append((bottom_n, min(first - 1, top_n)))
    return found


def prefix_row(length: int, first_n: int, last_n: int, ids: Iterable[str]) -> PrefixRow:
    """Return the filter of *ids* in a row of the table."""
    prefixes = {id[:length] for id in ids if len(id) >= length}
    size = 8
    while size * 8 < len(prefixes) * _BITS:
        size *= 2
    bits, mask = bytearray(size), size * 8 - 1
    for prefix in prefixes:
        for probe in _probes(prefix):
            at = probe & mask
            bits[at >> 3] |= 1 << (at & 7)
    stored = bytes(bits)
    return length, first_n, last_n, stored, _sum_of(length, first_n, last_n, stored)


def bits_in(row: PrefixRow) -> bytes:
    """Return the filter in a row of the table. Raises ArchiveCorrupt."""
    what = "the prefixes of history entries %r to %r are"
    body.demand_sum(_sum_of, row[:-1], row[-1], what, *row[1:3])
    return row[3]


def _probes(prefix: str) -> list[int]:
    """Return numbers whose lowest bits are the places of *prefix* in a filter."""
    sum = crc32(prefix.encode())
    return [(sum & 0xFFFFFF) + probe * (sum >> 12 | 1) for probe in range(_PROBES)]


def _sum_of(length: int, first_n: int, last_n: int, bits: bytes) -> int:
    return crc32(bits, crc32(b"%d %d %d" % (length, first_n, last_n)))
