"""
The tables of an archive, their version, and where in them an entry is.

========  ======================================================================================
fact      what the file is about: archive id, namespace, position, complete since, …
entry     history, append-only in the order in which it was learnt (``n``): the log's entries as they
          stood in Redis, each with a checksum; and ``scan`` entries, what a bootstrap read from Redis
touch     which entries concern which schedule: (segment, CRC-32 of its id, n)
live      the state: a row per schedule that has a place, and per run that was fired and not ended. Its
          record is not here but in entry ``n``, ``row``
argument  what was taken out of entries of live schedules with ``keep_args = false``
========  ======================================================================================

Random ids make an index slow once it outgrows the page cache: every insert dirties a page of its own. So
``touch`` is cut into segments of 65,536 rows, each small enough to stay in memory while it is filled, and
never written again; who looks for an id asks every segment (10 µs each). Measured with random uuids:
240,000 rows/s, where one index over all did 40,000. ``live`` holds places and numbers only, and a
transaction takes up to a second of changes, sorted, so a page is written once for many.

``life`` numbers the states: a bootstrap builds the next one beside the one that counts.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from zsched.core.log import Position

APPLICATION_ID: Final = 0x7A736368  # "zsch", in the file's header: this is no other program's database
VERSION: Final = 3  # raised with the tables, and with how entries stand in them; others are refused
SEGMENT_BITS: Final = 16

_TABLES: Final = """
CREATE TABLE fact(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE entry(n INTEGER PRIMARY KEY, epoch INTEGER, seq INTEGER, t INTEGER, kind TEXT, body BLOB, sum INTEGER);
CREATE INDEX entry_seq ON entry(seq) WHERE seq IS NOT NULL;
CREATE INDEX entry_term ON entry(n) WHERE kind = 'term';
CREATE INDEX entry_end ON entry(n) WHERE kind = 'end';
CREATE TABLE touch(segment INTEGER, key INTEGER, n INTEGER, PRIMARY KEY (segment, key, n)) WITHOUT ROWID;
CREATE TABLE live(
  life INTEGER, id TEXT, run TEXT, place TEXT, due INTEGER, nominal INTEGER, last TEXT, note TEXT,
  t INTEGER, n INTEGER, row INTEGER, sum INTEGER, PRIMARY KEY (life, id, run)
) WITHOUT ROWID;
CREATE TABLE argument(n INTEGER, row INTEGER, data BLOB, PRIMARY KEY (n, row)) WITHOUT ROWID;
"""


def create(db: sqlite3.Connection) -> None:
    """The tables, in a new file. One transaction."""
    header = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
    db.executescript(f"BEGIN IMMEDIATE; {_TABLES} {header} COMMIT;")


def last_n(db: sqlite3.Connection) -> int:
    """The number of the last entry; 0 when there is none."""
    return int(db.execute("SELECT max(n) FROM entry").fetchone()[0] or 0)


def number_of(db: sqlite3.Connection, position: Position, known_from: int = 0) -> int | None:
    """The number of the log's entry at *position*, behind number *known_from*; None when it is not there."""
    query = "SELECT n FROM entry WHERE seq = ? AND epoch = ? AND t = ? AND n > ?"
    found = db.execute(query, (position.seq, position.epoch, position.t_us, known_from)).fetchone()
    return found[0] if found else None


def first_since(db: sqlite3.Connection, since_us: int, last_n: int) -> int:
    """The number of the first entry with t >= *since_us*, or last_n + 1. Entries are in the order of t."""
    low, high = 0, last_n + 1  # low: before it, high: not before it
    while high - low > 1:
        middle = (low + high) // 2
        found = db.execute("SELECT n, t FROM entry WHERE n >= ? ORDER BY n LIMIT 1", (middle,)).fetchone()
        if found is None or found[0] >= high or found[1] >= since_us:
            high = middle
        else:
            low = found[0]
    return high


def segments(db: sqlite3.Connection) -> range:
    """The segments of ``touch``, the oldest first."""
    return range((db.execute("SELECT max(segment) FROM touch").fetchone()[0] or 0) + 1)
