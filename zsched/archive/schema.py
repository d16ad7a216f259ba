"""
The tables of an archive, their version, and the search for entries.

========  ======================================================================================
fact      what the file is about: archive id, namespace, position, complete since, …
entry     history, append-only, numbered by ``n``: the log's unchanged entries, each with a checksum; and
          ``scan`` entries with the contents of Redis that a bootstrap read
touch     the entries of each schedule: (segment, CRC-32 of its id, n)
live      the state: a row per schedule with a place, and per open run. Entry ``n`` has its record in
          ``row``
facet     function, queue, owner, tags and name of the rows of an entry (``index``)
posting   the entries of each value that a search may ask for: (segment, CRC-32 of the value, n)
label     the entries with records of an owner, a name or a tag: (segment, CRC-32 of the word, n)
series    what is counted together (``counts``): a recurring schedule, or one-shots of a function, and a word
count     the numbers of a series, by minute, quarter, hour and day: (unit, at, series, number)
deadline  schedules with a deadline, run '', and their occurrences without a success, each with its deadline at
          (``deadlines``)
prefix    parts of the history that may have ids with a prefix (``index``)
argument  with ``keep_args = false``: arguments that were taken out of entries of live schedules
========  ======================================================================================

Random ids make an index slow when it is larger than the page cache: every insert changes another page. So
``touch`` is cut into segments of 65,536 rows. A segment stays in memory while it is filled, and is never
written again. A search for an id reads every segment (10 µs each). Measured with random uuids: 240,000
rows/s, and 40,000 with a single index. ``live`` has places and numbers only. A transaction has up to a
second of changes, sorted, so a page is written once for many.

``life`` numbers the states: a bootstrap builds the next state beside the current one.
"""

import sqlite3
from typing import Final

from zsched.core.entry import Position

APPLICATION_ID: Final = 0x7A736368  # "zsch", in the file's header, to recognize archives
VERSION: Final = 9  # of the tables and the storage of entries; files of other versions are refused
SEGMENT_BITS: Final = 16  # of ``touch``: rows in a segment
POSTING_BITS: Final = 16  # of ``posting`` and ``label``: entries in a segment

_TABLES: Final = """
CREATE TABLE fact(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE entry(n INTEGER PRIMARY KEY, epoch INTEGER, seq INTEGER, t INTEGER, kind TEXT, body BLOB, sum INTEGER);
CREATE INDEX entry_seq ON entry(seq) WHERE seq IS NOT NULL;
CREATE INDEX entry_term ON entry(n) WHERE kind = 'term';
CREATE INDEX entry_end ON entry(n) WHERE kind = 'end';
CREATE TABLE touch(segment INTEGER, key INTEGER, n INTEGER, PRIMARY KEY (segment, key, n)) WITHOUT ROWID;
CREATE TABLE facet(n INTEGER PRIMARY KEY, body BLOB, sum INTEGER);
CREATE TABLE posting(segment INTEGER, value INTEGER, n INTEGER, PRIMARY KEY (segment, value, n)) WITHOUT ROWID;
CREATE TABLE label(segment INTEGER, word INTEGER, n INTEGER, PRIMARY KEY (segment, word, n)) WITHOUT ROWID;
CREATE TABLE series(series INTEGER PRIMARY KEY, id TEXT, facets BLOB, word TEXT, UNIQUE (id, facets, word));
CREATE TABLE count(
  unit INTEGER, at INTEGER, series INTEGER, number INTEGER, PRIMARY KEY (unit, at, series)
) WITHOUT ROWID;
CREATE TABLE prefix(
  length INTEGER, first_n INTEGER, last_n INTEGER, bits BLOB, sum INTEGER, PRIMARY KEY (length, first_n)
) WITHOUT ROWID;
CREATE TABLE live(
  life INTEGER, id TEXT, run TEXT, place TEXT, due INTEGER, nominal INTEGER, last TEXT,
  state TEXT, note TEXT, t INTEGER, n INTEGER, row INTEGER, sum INTEGER, PRIMARY KEY (life, id, run)
) WITHOUT ROWID;
CREATE TABLE deadline(
  life INTEGER, id TEXT, run TEXT, at INTEGER, done_by TEXT, tz TEXT, n INTEGER, row INTEGER,
  PRIMARY KEY (life, id, run)
) WITHOUT ROWID;
CREATE INDEX deadline_at ON deadline(life, at) WHERE at IS NOT NULL;
CREATE TABLE argument(n INTEGER, row INTEGER, data BLOB, PRIMARY KEY (n, row)) WITHOUT ROWID;
"""


def create(db: sqlite3.Connection) -> None:
    """Create the tables in a new file, in one transaction."""
    header = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
    db.executescript(f"BEGIN IMMEDIATE; {_TABLES} {header} COMMIT;")


def last_n(db: sqlite3.Connection) -> int:
    """Return the number of the last entry; 0 if there is none."""
    return int(db.execute("SELECT max(n) FROM entry").fetchone()[0] or 0)


def number_of(db: sqlite3.Connection, position: Position, known_from: int = 0) -> int | None:
    """Return the number of the log's entry at *position*, after number *known_from*; None if it is not there."""
    query = "SELECT n FROM entry WHERE seq = ? AND epoch = ? AND t = ? AND n > ?"
    found = db.execute(query, (position.seq, position.epoch, position.t_us, known_from)).fetchone()
    return found[0] if found else None


def first_since(db: sqlite3.Connection, since_us: int, last_n: int) -> int:
    """Return the number of the first entry with t >= *since_us*, or last_n + 1. Entries are in the order of t."""
    low, high = 0, last_n + 1  # low is before the entry, high is not
    while high - low > 1:
        middle = (low + high) // 2
        found = db.execute("SELECT n, t FROM entry WHERE n >= ? ORDER BY n LIMIT 1", (middle,)).fetchone()
        if found is None or found[0] >= high or found[1] >= since_us:
            high = middle
        else:
            low = found[0]
    return high


def posted_segments(db: sqlite3.Connection, before_n: int, table: str) -> range:
    """Return the segments of ``posting`` or ``label`` with no entry from number *before_n* on, the oldest first."""
    first = db.execute(f"SELECT min(segment) FROM {table}").fetchone()[0]
    return range(0 if first is None else first, before_n >> POSTING_BITS)


def segments(db: sqlite3.Connection) -> range:
    """Return the segments of ``touch``, the oldest first."""
    return range((db.execute("SELECT max(segment) FROM touch").fetchone()[0] or 0) + 1)
