"""
The index for searches of the history: what the rows of an entry are about, and which entries have a value.

``facet`` has a row per entry that may have outcomes (``ParsedEntry.searched``): the function, queue, owner, tags and
name of each record or change. A change has those of the record that was valid then. So a search reads no records: they
may be far away, or deleted. Other entries with records, such as those of puts, have the facets in themselves.

``posting`` has a row per value and place, if the place has changes with this value. The place of a word (``failed``) is
an entry. The place of a facet (``queue:email``), or of a word with a facet (``failed|queue:email``), is a block of 64
entries, whose facets the reader checks: many small entries share a row. A value is stored as its CRC-32; a wrong
candidate only costs time. Reading backwards finds at once what *fired* or *succeeded*, so these words are not values. A
change without a known record is under the value ``UNKNOWN``, which every search by facets reads too.

Entries that somebody asked for have their values too (``asked_by``): among a million fires they are few.

``label`` finds what waits with an owner, a name or a tag (``lookups``).

All these are written in the transaction of their entry. ``posting`` is cut into segments of 65,536 entries, which stay
in memory while they are filled.

``prefix`` says which parts of the history may have a schedule whose id begins with a text. It has Bloom filters: one
per block of the history and per length in ``LENGTHS``, over the first characters of the ids whose outcomes are in the
block. A search for ``mail-acme*`` asks the filters of length 8 for ``mail-acm``, and reads only the blocks that may
have it, one in fifty of the others by mistake. A block has some 4,000 changes. A filter has 8 to 16 bits per different
prefix: 9 bytes per run with random uuids, and less for ids that share prefixes. They are built behind the log, when the
archive has nothing else to do: the ids of a run cost 3 µs. A search reads the part behind the last block directly.
"""

import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from typing import Final
from zlib import crc32

from zsched.archive import body
from zsched.archive.counts import CountWriter
from zsched.archive.schema import POSTING_BITS
from zsched.core.clock import Clock
from zsched.core.entry import UnknownEntry
from zsched.core.facets import NO_FACETS, Facets, FacetsOfRows
from zsched.core.log.kinds import ParsedEntry, kinds_telling, parse
from zsched.core.occurrences.changes import Change, record_key_of
from zsched.core.occurrences.outcomes import SEARCHED, What
from zsched.core.runs.run import ANOTHER_END
from zsched.core.runs.run_id import RunKey

BLOCK_BITS: Final = 6
UNKNOWN: Final = "?"
_PLAIN: Final = What.FIRED.value
_KNOWN: Final = 50_000  # entries with facets in memory; the others are read again
_NONE: Final = FacetsOfRows([NO_FACETS])
_NO_ROWS: Final = FacetsOfRows([])  # of an entry whose run ids are all malformed

FacetRow = tuple[int, bytes, int]  # n, body, sum
RecordPlace = tuple[int, int]  # a record: the number of its entry, and its row
_Found = tuple[str, Facets, bool]  # the word and facets of a change, and whether it is the end of a run
LENGTHS: Final = (3, 5, 8, 12, 16, 24)  # characters
PREFIX_IDS: Final = 4096  # in a block, at least, but for one with very many small entries
_ENTRIES: Final = 65_536  # of any kind in a block, at most
_BITS: Final = 8  # per prefix, at least
_PROBES: Final = 3
_SEARCHED: Final = body.of_kinds(kinds_telling(*SEARCHED))
PrefixRow = tuple[int, int, int, bytes, int]  # length, first_n, last_n, bits, sum
NumberRange = tuple[int, int]  # numbers of entries, both included


class IndexWriter:
    """Writes the index of *db*. Nothing is written before ``flush``."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._known: dict[int, FacetsOfRows] = {}  # of entries with records
        self._rows: list[FacetRow] = []
        self._postings: set[tuple[int, int, int]] = set()
        self._labels: list[tuple[int, int, int]] = []
        self._posted: dict[_Found, int] = {}  # the last block with these values
        self._counts = CountWriter(db)

    def records(self, n: int, parsed: ParsedEntry) -> None:
        """Add entry *n* with its records, and its changes if it has any."""
        facets = parsed.facets()
        self._remember(n, facets)
        self._labels += [(n >> POSTING_BITS, key_of(word), n) for one in facets.distinct for word in one.labels()]
        if parsed.is_searched:
            self._rows.append(facet_row(n, facets))
            self._post(n, with_facets(facets, parsed, parsed.searched()))

    def add_changes(self, n: int, changes: Sequence[Change], sources: Iterable[RecordPlace | None]) -> None:
        """Add entry *n* without records: its changes, in the order of ``ParsedEntry.searched``, and their records."""
        facets = [NO_FACETS if source is None else self._of(source[0]).at(source[1]) for source in sources]
        self._rows.append(facet_row(n, FacetsOfRows.of(facets)))
        self._post(n, list(zip(changes, facets, strict=True)))

    def asked(self, n: int, by: str) -> None:
        """Add entry *n*, which *by* asked for."""
        self._postings |= {(n >> POSTING_BITS, key_of(value), n) for value in (asked_by(by), asked_by(None))}

    def fired(self, n: int, t_us: int, runs: Sequence[RunKey], sources: Sequence[RecordPlace | None]) -> None:
        """Add entry *n*, of *t_us*, of the fired *runs* of one-shots. Fast if their records have the same facets."""
        of = {number: self._of(number) for number in {source[0] if source else 0 for source in sources}}
        found = next(iter(of.values()), _NO_ROWS)
        if found.order or any(each != found for each in of.values()):
            places = (source or (0, 0) for source in sources)
            found = FacetsOfRows.of([of[number].at(row) for number, row in places])
        self._rows.append(facet_row(n, found))
        self._counts.fired(t_us, runs, found)
        for one in found.distinct:
            self._add(n, (_PLAIN, one, False))

    def flush(self) -> None:
        """Write, in the caller's transaction."""
        self._db.executemany("INSERT OR REPLACE INTO facet VALUES (?, ?, ?)", self._rows)
        self._db.executemany("INSERT OR IGNORE INTO posting VALUES (?, ?, ?)", sorted(self._postings))
        self._db.executemany("INSERT OR IGNORE INTO label VALUES (?, ?, ?)", sorted(self._labels))
        self._counts.flush()
        self._rows.clear()
        self._labels.clear()
        self._postings.clear()

    def forget(self) -> None:
        """Free the memory of what was read or written."""
        self._known.clear()
        self._posted.clear()
        self._counts.forget()

    def _post(self, n: int, told: Sequence[tuple[Change, Facets]]) -> None:
        for one, facets in told:
            self._counts.add(one, facets)
        for found in {(one.word, facets, one.what is What.RUN_ENDED) for one, facets in told}:
            self._add(n, found)
        for one, _ in told:
            if one.what is What.RUN_ENDED and ANOTHER_END in one.record:
                self._postings.add((n >> POSTING_BITS, key_of(another_end(one.run_id or "")), n))

    def _add(self, n: int, found: _Found) -> None:
        word, segment, block = found[0], n >> POSTING_BITS, n >> BLOCK_BITS
        if word != _PLAIN:
            self._postings.add((segment, key_of(word), n))
        if self._posted.get(found) != block:
            if len(self._posted) >= _KNOWN:
                self._posted.clear()
            self._posted[found] = block
            self._postings.update((segment, key_of(value), block) for value in _values_of(*found))

    def _of(self, n: int) -> FacetsOfRows:
        """Return the facets of the records in entry *n*."""
        if n not in self._known:
            self._remember(n, facets_at(self._db, n) or _NONE)
        return self._known[n]

    def _remember(self, n: int, facets: FacetsOfRows) -> None:
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[n] = facets


def facets_at(db: sqlite3.Connection, n: int) -> FacetsOfRows | None:
    """Return the facets of the rows of entry *n*; None if neither the index nor the entry has them."""
    row = db.execute("SELECT n, body, sum FROM facet WHERE n = ?", (n,)).fetchone()
    if row is not None:
        return facets_in(row)
    row = db.execute(f"SELECT {body.COLUMNS} FROM entry WHERE n = ?", (n,)).fetchone()
    with suppress(UnknownEntry):
        if row is not None and (parsed := parse(body.entry_of(row))).has_records:
            with parsed:
                return parsed.facets()
    return None


def with_facets(
    stored: FacetsOfRows | None, parsed: ParsedEntry, told: Iterable[Change]
) -> list[tuple[Change, Facets]]:
    """
    Return the changes *told* of an entry, each with its facets: of its record, or else in its place among *stored*.
    NO_FACETS if they are not known.
    """
    if stored is None or not parsed.has_records:
        return [(one, NO_FACETS if stored is None else stored.at(row)) for row, one in enumerate(told)]
    of = {owner: stored.at(row) for row, owner in enumerate(parsed.owners())}
    return [(one, of.get(record_key_of(one), NO_FACETS)) for one in told]


def facet_row(n: int, facets: FacetsOfRows) -> FacetRow:
    """Return the row of the table for entry *n*."""
    stored = _packed(facets.distinct[0]) if len(facets.distinct) == 1 else _packed_all(facets)
    return n, stored, body.checksum(n, stored)


def facets_in(row: FacetRow) -> FacetsOfRows:
    """Return the facets in a row of the table. Raises ArchiveCorrupt."""
    n, stored, sum = row
    body.demand_sum(body.checksum, (n, stored), sum, "the facets of history entry %r are", n)
    return _unpacked(stored)


def asked_by(by: str | None) -> str:
    """Return the value whose places are the entries that *by* asked for; None: anybody."""
    return "asked" if by is None else f"asked {by}"


def another_end(run_id: str) -> str:
    """Return the value whose places are the later ends of a run."""
    return f"again {run_id}"


def key_of(value: str) -> int:
    """Return the stored form of a value."""
    return crc32(value.encode())


def _values_of(word: str, facets: Facets, is_end: bool) -> Iterator[str]:
    """Yield the values of a change that have a block as their place. An end is found only together with its word."""
    of_facets = list(facets.words()) or [UNKNOWN]
    if not is_end:
        yield from of_facets
    if word != _PLAIN:
        yield from (f"{word}|{value}" for value in of_facets)


@lru_cache(maxsize=1000)  # many entries have equal facets
def _unpacked(stored: bytes) -> FacetsOfRows:
    order, *distinct = body.unpack(stored)
    return FacetsOfRows(list(map(Facets.parse, distinct)), struct.unpack(f"<{len(order) // 2}H", order))


@lru_cache(maxsize=1000)
def _packed(facets: Facets) -> bytes:
    return body.pack([b"", facets.stored])


def _packed_all(facets: FacetsOfRows) -> bytes:
    order = struct.pack(f"<{len(facets.order)}H", *facets.order)
    return body.pack([order, *(one.stored for one in facets.distinct)])


def build_prefixes(
    db: sqlite3.Connection, run_suffix: str, last_n: int, budget_ms: float, clock: Clock
) -> Iterator[None]:
    """
    Build complete blocks of filters up to entry *last_n* for about *budget_ms*. Yield before each is written.
    """
    until_ms = clock.monotonic_ms() + budget_ms
    while clock.monotonic_ms() < until_ms and (block := _next_block(db, run_suffix, last_n)) is not None:
        yield
        db.executemany("INSERT OR REPLACE INTO prefix VALUES (?, ?, ?, ?, ?)", block)


def _next_block(db: sqlite3.Connection, run_suffix: str, last_n: int) -> list[PrefixRow] | None:
    """Return the filters of the next block; None if it is not complete."""
    first_n = covered_to(db) + 1
    ids, end_n = set[str](), 0
    query = f"SELECT {body.COLUMNS} FROM entry WHERE n >= ? AND n <= ? AND {_SEARCHED} ORDER BY n"
    most_n = min(first_n + _ENTRIES - 1, last_n)
    with closing(db.execute(query, (first_n, most_n))) as rows:
        count = 0
        for row in rows:
            found = _ids_in(row, run_suffix)
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


def _ids_in(row: body.HistoryRow, run_suffix: str) -> list[str]:
    with suppress(UnknownEntry), parse(body.entry_of(row), run_suffix) as parsed:
        keys = parsed.only_fired()
        return [change.id for change in parsed.searched()] if keys is None else [id for id, _ in keys]
    return []


def covered_to(db: sqlite3.Connection) -> int:
    """Return the number of the last entry in a block; 0 if there is none."""
    query = "SELECT last_n FROM prefix WHERE length = ? ORDER BY first_n DESC LIMIT 1"
    found = db.execute(query, (LENGTHS[0],)).fetchone()
    return int(found[0]) if found else 0


def ranges(db: sqlite3.Connection, prefix: str, bottom_n: int, top_n: int) -> list[NumberRange]:
    """Return the parts from *bottom_n* to *top_n* that may have ids with *prefix*, the newest first."""
    if (length := max((one for one in LENGTHS if one <= len(prefix)), default=None)) is None:
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
    return length, first_n, last_n, stored, body.checksum(length, first_n, last_n, stored)


def bits_in(row: PrefixRow) -> bytes:
    """Return the filter in a row of the table. Raises ArchiveCorrupt."""
    body.demand_sum(body.checksum, row[:-1], row[-1], "the prefixes of history entries %r to %r are", *row[1:3])
    return row[3]


def _probes(prefix: str) -> list[int]:
    """Return numbers whose lowest bits are the places of *prefix* in a filter."""
    sum = crc32(prefix.encode())
    return [(sum & 0xFFFFFF) + probe * (sum >> 12 | 1) for probe in range(_PROBES)]
