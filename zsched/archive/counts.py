"""
Counts of outcomes by minute, quarter, hour and day (UTC), for timelines of any length.

``series`` has what is counted together (``core.occurrences.counts``), ``count`` the numbers. Both are written in the
transaction of their entry, at its time. They are a cache: ``recount`` counts entries again.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from zsched.archive.history import History
from zsched.core.facets import Facets, FacetsOfRows
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.counts import COUNTED_LATE_MS, FAILED, LATE, RowsBy, Series, WantedCounts, counted_word
from zsched.core.occurrences.outcomes import LEFT_OUT, What
from zsched.core.pages import grouped
from zsched.core.runs.run_id import RunKey, nominal_ms_of

UNITS: Final = (1, 15, 60, 1440)  # minutes, each a multiple of the one before
MINUTE_US: Final = 60_000_000
_KNOWN: Final = 50_000  # series in memory
_ADD: Final = "INSERT INTO count VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number"
_FIND: Final = "SELECT series FROM series WHERE id = ? AND facets = ? AND word = ?"
_NEW: Final = "INSERT INTO series(id, facets, word) VALUES (?, ?, ?) RETURNING series"
_SERIES: Final = "SELECT series, id, facets, word FROM series"
_SUMS: Final = (
    "SELECT {keys}, sum(number) FROM"
    " (SELECT (at - ?) / ? AS place, series, number FROM count WHERE unit = ? AND at >= ? AND at < ?)"
    " JOIN series USING (series) {among} GROUP BY {keys} HAVING sum(number) > 0"
)
_AMONG: Final = "WHERE series IN (SELECT value FROM json_each(?))"
_BAD: Final = (FAILED, *(one.value for one in LEFT_OUT))


class CountWriter:
    """Writes the counts of *db*, in the caller's transaction; the numbers at ``flush``."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._series: dict[Series, int] = {}
        self._new = Counter[tuple[int, int]]()  # by minute and series

    def add(self, change: Change, facets: Facets) -> None:
        """Count *change*, if it is an outcome or a bad end, of a schedule or run with *facets*."""
        if word := counted_word(change):
            self._add(change.at_us, Series.of(change.id, facets, word), change.count)

    def fired(self, t_us: int, runs: Sequence[RunKey], facets: FacetsOfRows) -> None:
        """Count the fired *runs* of one-shots. Fast if they were all in time."""
        latest_ms = t_us // 1000 - COUNTED_LATE_MS
        if min((nominal_ms_of(run) or 0 for _, run in runs), default=0) > latest_ms and not facets.order:
            self._add(t_us, Series.of("", facets.at(0), What.FIRED.value), len(runs))
            return
        for row, (_, run) in enumerate(runs):
            word = LATE if (nominal_ms_of(run) or 0) <= latest_ms else What.FIRED.value
            self._add(t_us, Series.of("", facets.at(row), word), 1)

    def flush(self, times: int = 1) -> None:
        """Add the numbers, *times*; -1 removes them."""
        found = Counter[tuple[int, int, int]]()
        for (minute, series), number in self._new.items():
            for unit in UNITS:
                found[unit, minute // unit, series] += number
        self._db.executemany(_ADD, sorted((*key, times * number) for key, number in found.items()))
        self._new.clear()

    def forget(self) -> None:
        """Free the memory of what was read or written."""
        self._series.clear()

    def _add(self, t_us: int, series: Series, number: int) -> None:
        self._new[t_us // MINUTE_US, self._series.get(series) or self._number_of(series)] += number

    def _number_of(self, series: Series) -> int:
        if len(self._series) >= _KNOWN:
            self._series.clear()
        key = series.id, series.facets.stored, series.word
        if (row := self._db.execute(_FIND, key).fetchone()) is None:
            row = self._db.execute(_NEW, key).fetchone()
        self._series[series] = int(row[0])
        return int(row[0])


def counts_of(history: History, wanted: WantedCounts) -> dict[str, Any]:
    """
    Return the ``totals`` of the wanted series as [place, word, number]; the ``rows`` as ``CountedRow``, those with
    most bad outcomes first, and the number of ``more_rows``.
    """
    known = {number: Series(id, Facets.parse(facets), word) for number, id, facets, word in history.db.execute(_SERIES)}
    wanted_ones = [number for number, one in known.items() if wanted.has(one)]
    among = None if len(wanted_ones) == len(known) else wanted_ones
    weights, members = dict[str, tuple[int, int]](), dict[str, list[int]]()
    for number, count in _sums(history.db, wanted, among, "series") if wanted.by else ():
        is_bad = known[number].word.partition(" ")[0] in _BAD
        for name in known[number].rows(wanted.by or RowsBy.SCHEDULE):
            bad, all = weights.get(name, (0, 0))
            weights[name] = bad - count * is_bad, all - count
            members.setdefault(name, []).append(number)
    names = sorted(weights, key=lambda name: (weights[name], name))
    rows = {name: members[name] for name in names[: wanted.most]}
    counted, has_once = {*chain(*rows.values())}, wanted.by is RowsBy.SCHEDULE
    sums = _sums(history.db, wanted, counted, "place, series")
    cells = grouped((number, (place, known[number].word, count)) for place, number, count in sums)
    return {
        "totals": list(_sums(history.db, wanted, among, "place, word")),
        "rows": [
            (name, has_once and not known[numbers[0]].id, [*chain(*(cells[number] for number in numbers))])
            for name, numbers in rows.items()
        ],
        "more_rows": len(names) - len(rows),
    }


def _sums(
    db: sqlite3.Connection, wanted: WantedCounts, among: Iterable[int] | None, keys: str
) -> Iterator[tuple[Any, ...]]:
    """
    Return the sums of the series *among* these, or of all, by *keys* from ``place`` (of a span), ``series``, ``word``.
    """
    unit = next(one for one in reversed(UNITS) if wanted.start % one == 0 == wanted.step % one)
    first, step = wanted.start // unit, wanted.step // unit
    given = [first, step, unit, first, first + step * wanted.number]
    if among is None:
        return db.execute(_SUMS.format(keys=keys, among=""), given)
    return db.execute(_SUMS.format(keys=keys, among=_AMONG), [*given, json.dumps(list(among))])
