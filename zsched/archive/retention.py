"""
Deletion of old history, in small steps.

Entries that the state needs are kept whole at any age: they have the record of a live schedule or an open
run. The needed entries are read from the state once per round, because an index of them would cost a fifth of
the archiving speed (measured). An index row of a deleted entry is harmless (its reader finds nothing), and is
removed segment by segment. The index for searches loses only whole segments; facets are deleted with their entry.
Labels of entries without a live record are deleted at any age: only what waits is searched by them.
"""

import sqlite3
from collections.abc import Iterator
from typing import Final

from zsched.archive.counts import MINUTE_US, UNITS
from zsched.archive.schema import first_since, posted_segments, segments

_AT_ONCE: Final = 1000  # rows in one transaction
_OLD_COUNTS: Final = (
    "DELETE FROM count WHERE (unit, at, series) IN"
    " (SELECT unit, at, series FROM count WHERE unit = ? AND at < ? ORDER BY at LIMIT ?)"
)
_UNUSED_SERIES: Final = "DELETE FROM series WHERE series NOT IN (SELECT series FROM count WHERE unit = ?)"


def pruning(db: sqlite3.Connection, before_us: int, last_n: int) -> Iterator[bool]:
    """
    Delete entries with t < *before_us*, but never the last, number *last_n*: a part before each yield, in the caller's
    transaction. Yield True if the history before *before_us* has gaps by now.
    """
    end, has_gaps = min(first_since(db, before_us, last_n), last_n), False
    is_needed = "SELECT EXISTS (SELECT 1 FROM argument) OR EXISTS (SELECT 1 FROM label)"
    if end <= 1 and not db.execute(is_needed).fetchone()[0]:
        return
    db.execute("DROP TABLE IF EXISTS temp.needed")
    db.execute("CREATE TEMP TABLE needed(n INTEGER, row INTEGER, PRIMARY KEY (n, row)) WITHOUT ROWID")
    db.execute("INSERT OR IGNORE INTO needed SELECT n, row FROM live UNION SELECT n, row FROM deadline")
    yield has_gaps
    for table, key, bound in (("entry", "n", end), ("argument", "n, row", last_n + 1)):
        needed = "SELECT 1 FROM needed WHERE needed.n = one.n"
        needed += " AND needed.row = one.row" if table == "argument" else ""
        query = f"SELECT {key} FROM {table} AS one WHERE n < ? AND NOT EXISTS ({needed}) LIMIT {_AT_ONCE}"
        where = " AND ".join(f"{name} = ?" for name in key.split(", "))
        while gone := db.execute(query, (bound,)).fetchall():
            db.executemany(f"DELETE FROM {table} WHERE {where}", gone)
            if table == "entry":
                db.executemany("DELETE FROM facet WHERE n = ?", gone)
                has_gaps = True
            yield has_gaps
    unneeded = "NOT EXISTS (SELECT 1 FROM needed WHERE needed.n = label.n)"
    for segment in posted_segments(db, last_n, "label"):
        db.execute(f"DELETE FROM label WHERE segment = ? AND {unneeded}", (segment,))
        yield has_gaps
    db.execute("DELETE FROM needed")
    dangling = "NOT EXISTS (SELECT 1 FROM entry WHERE entry.n = touch.n)"
    for segment in segments(db)[:-1] if end > 1 else ():
        db.execute(f"DELETE FROM touch WHERE segment = ? AND n < ? AND {dangling}", (segment, end))
        yield has_gaps
    for segment in posted_segments(db, end, "posting"):
        db.execute("DELETE FROM posting WHERE segment = ?", (segment,))
        yield has_gaps
    db.execute("DELETE FROM prefix WHERE last_n < ?", (end,))
    yield has_gaps
    for unit in UNITS:
        while db.execute(_OLD_COUNTS, (unit, before_us // MINUTE_US // unit, _AT_ONCE)).rowcount:
            yield has_gaps
    db.execute(_UNUSED_SERIES, (UNITS[-1],))
