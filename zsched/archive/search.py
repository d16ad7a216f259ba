"""
Search the history of an archive, the newest first: occurrences with their outcomes, and runs, by status, id and facets.

A search is a sequence of looks. Each takes half a second at most, and returns a ``SearchPart``: the hits so far, and a
cursor to continue from. So the first hits arrive at once, a search may take as long as it needs, and the daemon answers
others in between. It is over when the cursor is None: then the beginning of the history, or ``since_us``, was reached.

**Order.** An occurrence is in the place of its outcome: a push, or the decision not to push. A run that did not succeed
is found by its end, so a search for such runs (``Wanted.words``) is in the order of the ends.

**Entries that are read.** With an id: those that ``touch`` has. With words or facets: those that ``posting`` has
(``index``). Else all entries with outcomes. If a pattern of ids has a literal part, SQLite skips entries without it.

**Open runs** are few in most archives, and random in the state: a search for them alone reads the state once per part.
If there are too many, it reads the pushes instead.

A ``SearchCursor`` is a place in the log, so another archive can continue a search. Its *n* counts only if the archive
has that very entry at n. Not guaranteed: the order of entries from a time when the server's clock
was set back, and of bootstraps' entries in another archive.

``recount`` counts entries again, with the facets that a search shows.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from zsched.archive import body, live
from zsched.archive.counts import CountWriter
from zsched.archive.history import ENTRY, History
from zsched.archive.index import BLOCK_BITS, UNKNOWN, NumberRange, facets_at, facets_in, key_of, ranges, with_facets
from zsched.archive.live import record_in
from zsched.archive.runs import PushedRuns, facets_before
from zsched.archive.schema import POSTING_BITS, number_of
from zsched.core.clock import Clock, SystemClock
from zsched.core.entry import Entry, Position, UnknownEntry
from zsched.core.facets import NO_FACETS, Facets, FacetsOfRows
from zsched.core.log.kinds import kinds_telling, parse
from zsched.core.occurrences.changes import Change, SearchCursor, Wanted, is_push, run_that_ended
from zsched.core.occurrences.outcomes import OUTCOMES, What
from zsched.core.record import Place, Record
from zsched.core.runs.run import pushed
from zsched.core.runs.run_id import nominal_ms_of, run_id_of, run_key

_LOOKED_FOR_MS: Final = 500.0
_LOOKED_FOR_OPEN_MS: Final = 600.0
_OPCODES: Final = 20_000  # of SQLite's machine between two readings of the clock
_LAST: Final = 2**62  # µs: later than any entry
_OPEN_RUNS: Final = (
    f"SELECT {live.COLUMNS} FROM live WHERE life = ? AND place = 'open' AND (t < ? OR (t = ? AND (id, run) > (?, ?)))"
    " AND instr(id, ?) AND t >= ? AND t < ? ORDER BY t DESC, id, run"
)
_MOST: Final = 1000  # hits in one part
_WINDOW: Final = 2000  # entries of any kind between two readings of the clock
_TOLD: Final = body.of_kinds(kinds_telling(*OUTCOMES, What.FOUND))
_COUNTED: Final = body.of_kinds(kinds_telling(*OUTCOMES, What.RUN_ENDED))


class SearchPart(NamedTuple):
    """
    The hits, and how far the search came: the cursor to continue *after*, None at its end; *reached_us*, the time of
    the entry there.
    """

    occurrences: list[Change]
    after: str | None
    reached_us: int | None


class Search:
    """A search for *wanted* in *history*, or in its entries with numbers *between* two, both included."""

    def __init__(
        self, history: History, wanted: Wanted, clock: Clock | None = None, between: NumberRange = (0, _LAST)
    ) -> None:
        self._history, self._db, self._wanted = history, history.db, wanted
        self._clock, self._between = clock or SystemClock(), between
        self._runs = PushedRuns(history)
        # The SQL condition for entries with a wanted id, and its argument.
        literal = [wanted.literal.encode()] if wanted.literal else []
        self._has, self._literal = "AND has(body, ?)" if literal else "", literal
        self._ranges: list[NumberRange] = []  # parts of the history that may have wanted ids, the newest first

    def next_part(self, after_part: str | None = None) -> SearchPart:
        """Return the next part of the search, after the cursor of an earlier one. Raises ValueError."""
        after = None if after_part is None else SearchCursor.parse(after_part)
        until_ms = self._clock.monotonic_ms() + _LOOKED_FOR_MS
        hits: list[Change] = []
        matched = 0
        if self._wanted.are_open and self._wanted.id is None and (after is None or after.run_id):
            part = self._open_runs(after)
            if part is not None:
                return part
        bottom_n, end_n = self._between[0], self._between[1] + 1
        if self._wanted.until_us is not None:
            end_n = min(end_n, self._history.first_since(self._wanted.until_us))
        top_n, top_row = min(self._place_of(after), (end_n, 0))
        if self._wanted.since_us is not None:
            bottom_n = max(bottom_n, self._history.first_since(self._wanted.since_us))
        for n in self._numbers(top_n if top_row else top_n - 1, bottom_n):
            if n > 0:
                for hit, place in self._hits(n, top_row if n == top_n else None):
                    if hit is not None:
                        hits.append(hit)
                        matched += hit.what in self._wanted.whats or (hit.run is not None and hit.run.is_over)
                    is_full = matched >= self._wanted.limit or len(hits) >= _MOST
                    if is_full or self._clock.monotonic_ms() >= until_ms:
                        return SearchPart(hits, str(place), place.position.t_us)
            if self._clock.monotonic_ms() >= until_ms:
                return self._stopped(hits, abs(n))
        return SearchPart(hits, None, None)

    def _open_runs(self, after: SearchCursor | None) -> SearchPart | None:
        """Return the newest open runs after *after*; None if reading the state takes too long."""
        t_us, key = (_LAST, ("", "")) if after is None else (after.position.t_us, run_key(after.run_id) or ("", ""))
        until_ms, wanted = self._clock.monotonic_ms() + _LOOKED_FOR_OPEN_MS, self._wanted
        since_us, until_us = wanted.since_us or 0, wanted.until_us or _LAST
        arguments = self._history.life, t_us, t_us, *key, wanted.literal, since_us, until_us
        hits: list[Change] = []
        self._db.set_progress_handler(lambda: self._clock.monotonic_ms() >= until_ms, _OPCODES)
        try:
            for row in map(record_in, self._db.execute(_OPEN_RUNS, arguments)):
                if (hit := self._open_run(row)) is not None:
                    hits.append(hit)
                if len(hits) >= _MOST:
                    return SearchPart(hits, hits[-1].cursor, row.t_us)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return None
        finally:
            self._db.set_progress_handler(None, 0)
        return SearchPart(hits, None, None)

    def _open_run(self, row: Record) -> Change | None:
        run_id = run_id_of(row.id, row.run)
        stored = facets_at(self._db, row.n)
        facets = NO_FACETS if stored is None else stored.at(row.row)
        if not self._wanted.is_of(row.id) or not facets.has(self._wanted.facets):
            return None
        known = Change(row.id, What.FOUND, row.t_us, "", run_id, nominal_ms_of(row.run), why=Place.OPEN)
        push = self._runs.push_at(row.t_us, run_id)
        run = pushed(run_id, row.t_us, row.note == "uncertain")
        cursor = str(SearchCursor(Position(0, 0, row.t_us), run_id=run_id))
        return replace(known if push is None else push[1], run=run, facets=facets, cursor=cursor)

    def _stopped(self, hits: list[Change], n: int) -> SearchPart:
        row = self._db.execute("SELECT n, epoch, seq, t FROM entry WHERE n >= ? ORDER BY n LIMIT 1", (n,)).fetchone()
        if row is None:
            return SearchPart(hits, None, None)
        position = Position(row[1], row[2] or 0, row[3])
        return SearchPart(hits, str(SearchCursor(position, row[0], 0)), position.t_us)

    def _place_of(self, cursor: SearchCursor | None) -> tuple[int, int]:
        """Return the number of the entry at *cursor*, and the row before which the search continues."""
        if cursor is None:
            return self._history.last_n + 1, 0
        row = self._db.execute("SELECT epoch, seq, t FROM entry WHERE n = ?", (cursor.n,)).fetchone()
        if row is not None and Position(row[0], row[1] or 0, row[2]) == cursor.position:
            return cursor.n, cursor.row
        if (n := number_of(self._db, cursor.position)) is not None:
            return n, cursor.row
        # Behind an open run, runs of the same time may follow: some may be repeated, none is left out.
        return self._history.first_since(cursor.position.t_us + bool(cursor.run_id)), 0

    # -- entries, the newest first ----------------------------------------------------------------

    def _numbers(self, top_n: int, bottom_n: int) -> Iterator[int]:
        """Yield the numbers of entries that may have hits, from *top_n* down to *bottom_n*; -n: progress to n."""
        wanted = self._wanted
        if wanted.id is not None:
            return (n for n, _ in self._history.numbers(wanted.id, bottom_n, top_n + 1))
        self._ranges = ranges(self._db, wanted.prefix, bottom_n, top_n)
        if wanted.words is not None or wanted.facets != NO_FACETS:
            return self._posted(top_n, bottom_n)
        return self._all()

    def _all(self) -> Iterator[int]:
        first = self._db.execute("SELECT min(n) FROM entry").fetchone()[0] or 1
        query = f"SELECT n FROM entry WHERE n >= ? AND n <= ? AND {_TOLD} {self._has} ORDER BY n DESC"
        for low, high in self._ranges:
            for end in range(high, max(low, first) - 1, -_WINDOW):
                begin = max(end - _WINDOW + 1, low, first)
                yield from (n for (n,) in self._db.execute(query, (begin, end, *self._literal)))
                yield -begin

    def _posted(self, top_n: int, bottom_n: int) -> Iterator[int]:
        for segment in range(top_n >> POSTING_BITS, (bottom_n >> POSTING_BITS) - 1, -1):
            yield from (n for n in self._posted_in(segment) if self._is_in_range(abs(n)))
            yield -max(segment << POSTING_BITS, bottom_n, 1)

    def _posted_in(self, segment: int) -> Iterable[int]:
        words = self._wanted.words
        exact = None if words is None else {n for word in words for n in self._places(segment, word)}
        if exact is not None and not exact:
            return ()
        blocks: set[int] | None = None
        heads = [""] if words is None else [f"{word}|" for word in words]
        for value in self._wanted.facets.words():
            values = [f"{head}{each}" for head in heads for each in (value, UNKNOWN)]
            of_value = {block for each in values for block in self._places(segment, each)}
            blocks = of_value if blocks is None else blocks & of_value
        if exact is not None:
            found = sorted((n for n in exact if blocks is None or n >> BLOCK_BITS in blocks), reverse=True)
            return found if blocks is None else filter(self._may_have_facets, found)
        return self._in_blocks(sorted(blocks or (), reverse=True))

    def _is_in_range(self, n: int) -> bool:
        at = bisect_right(self._ranges, -n, key=lambda one: -one[1]) - 1  # they descend
        return at >= 0 and self._ranges[at][0] <= n

    def _places(self, segment: int, value: str) -> Iterator[int]:
        query = "SELECT n FROM posting WHERE segment = ? AND value = ?"
        return (n for (n,) in self._db.execute(query, (segment, key_of(value))))

    def _in_blocks(self, blocks: Sequence[int]) -> Iterator[int]:
        """Yield the entries with outcomes in *blocks* that have the wanted facets."""
        query = (
            "SELECT facet.n, facet.body, facet.sum FROM facet JOIN entry USING (n) WHERE n >= ? AND n < ?"
            f" AND {_TOLD.replace('kind', 'entry.kind')} {self._has.replace('body', 'entry.body')} ORDER BY n DESC"
        )
        for block in blocks:
            for row in self._db.execute(query, (block << BLOCK_BITS, (block + 1) << BLOCK_BITS, *self._literal)):
                if self._is_about(facets_in(row)):
                    yield row[0]
            yield -(block << BLOCK_BITS)

    def _may_have_facets(self, n: int) -> bool:
        facets = facets_at(self._db, n)
        return facets is not None and self._is_about(facets)

    def _is_about(self, facets: FacetsOfRows) -> bool:
        return any(one.has(self._wanted.facets) or one == NO_FACETS for one in facets.distinct)

    # -- hits in an entry ---------------------------------------------------------------------------

    def _hits(self, n: int, before_row: int | None) -> Iterator[tuple[Change | None, SearchCursor]]:
        """Yield the hits in entry *n*, the last first; before row *before_row* if given. None: a row without a hit."""
        row = self._db.execute(f"{ENTRY} WHERE n = ? {self._has}", (n, *self._literal)).fetchone()
        if row is None:  # deleted by age, or without a wanted id
            return
        entry = body.entry_of(row)
        told = told_in(self._db, n, entry, self._history.run_suffix)[:before_row]
        for number, (change, facets) in zip(reversed(range(len(told))), reversed(told), strict=True):
            if self._wanted.is_of(change.id):
                cursor = SearchCursor(entry.position, n, number)
                yield self._hit(n, change, facets, cursor), cursor

    def _hit(self, n: int, change: Change, facets: Facets, cursor: SearchCursor) -> Change | None:
        wanted = self._wanted
        if not self._may_be(change):
            return None
        if facets == NO_FACETS:
            facets = facets_before(self._history, change, n)
        if not facets.has(wanted.facets):
            return None
        found = replace(self._history.with_ready(change, n), facets=facets, cursor=str(cursor))
        if change.what is What.RUN_ENDED:
            if self._runs.last_end(change.run_id or "", n, change)[0] != n:  # it ended again: that end counts
                return None
            return self._runs.with_push(replace(found, run=run_that_ended(change)))
        if not is_push(change):
            return found
        run, is_superseded = self._runs.run_of(change, n) or (None, False)
        is_unwanted = run is None or is_superseded or (run.is_over and run.status not in wanted.statuses)
        if is_unwanted and change.what not in wanted.whats:
            return None
        return replace(found, run=run)  # RQ knows more of an open run

    def _may_be(self, change: Change) -> bool:
        wanted = self._wanted
        if change.what is What.RUN_ENDED:
            return wanted.words is not None and change.why in wanted.statuses
        if change.what in wanted.whats:
            return True
        return wanted.words is None and bool(wanted.statuses) and is_push(change)


def told_in(db: sqlite3.Connection, n: int, entry: Entry, run_suffix: str) -> list[tuple[Change, Facets]]:
    """
    Return the changes of *entry*, number *n*, that a search finds, in order, each with its facets; none if it cannot be
    read.
    """
    with suppress(UnknownEntry), parse(entry, run_suffix) as parsed:
        if told := list(parsed.searched()):
            return with_facets(facets_at(db, n), parsed, told)
    return []


def recount(db: sqlite3.Connection, run_suffix: str, after_n: int) -> CountWriter:
    """Return the unwritten counts of the entries of *db* behind number *after_n*."""
    writer = CountWriter(db)
    for row in db.execute(f"{ENTRY} WHERE n > ? AND {_COUNTED} ORDER BY n", (after_n,)):
        for change, facets in told_in(db, row[0], body.entry_of(row), run_suffix):
            writer.add(change, facets)
    return writer
