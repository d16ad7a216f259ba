"""
Records in history entries: the fields of a schedule or run, by entry and row, and where its arguments stand.

With ``keep_args = false`` the arguments (RQ's ``data``) of an entry do not stand in the history: they are
kept apart, as long as the state needs them to put a schedule back, and then forgotten.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from zsched.core.log import Entry, Texts, parse, reading
from zsched.core.log.kinds import Given
from zsched.errors import ArchiveCorrupt

_SUM: Final = 4  # bytes of the checksum before arguments that stand apart


@dataclass(frozen=True, slots=True)
class Record:
    """
    Record of a row of the state. ``fields``: RQ's job or, of a recurring schedule, the template of its runs;
    ``schedule``: a recurring schedule's own.
    """

    lane: str
    fields: dict[str, bytes]
    schedule: dict[str, bytes]


def reader(entry: Entry) -> Callable[[int], Given]:
    """
    Return a function that gives the lane and the record in a row of *entry*, which is taken apart once.

    Raises:
        UnknownEntry: the entry is of no known kind. The function raises it, too, for a kind without records.
    """
    parsed = parse(entry)

    def record_of(row: int) -> Given:
        with reading(entry):
            return parsed.record_of(row)

    return record_of


def with_arguments(record: Texts, data: bytes) -> Texts:
    """*record* with arguments that stood apart from it."""
    at = record.index(b"data", 0) + 1
    return [*record[:at], data, *record[at + 1 :]]


def without_arguments(entry: Entry) -> tuple[Entry, dict[int, bytes]]:
    """*entry* with empty arguments, and what they were, by row."""
    with reading(entry):
        places = parse(entry).payloads()
    if not places:
        return entry, {}
    body = list(entry.body)
    taken = {row: body[place] for row, place in places.items()}
    for place in places.values():
        body[place] = b""
    return entry._replace(body=body), taken


class Arguments:
    """Arguments that stand apart from the history of *db*."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def keep(self, n: int, datas: dict[int, bytes]) -> None:
        """Keep the arguments of entry *n*, by row."""
        rows = [(n, row, _sum_of(n, row, data) + data) for row, data in datas.items()]
        self._db.executemany("INSERT OR REPLACE INTO argument VALUES (?, ?, ?)", rows)

    def of(self, n: int, row: int) -> bytes | None:
        """Return the arguments of one row, or None. Raises ArchiveCorrupt."""
        found = self._db.execute("SELECT data FROM argument WHERE n = ? AND row = ?", (n, row)).fetchone()
        return arguments_of(n, row, found[0]) if found else None


def arguments_of(n: int, row: int, stored: bytes) -> bytes:
    """The arguments in a row of the table. Raises ArchiveCorrupt when they are not what was written."""
    if not isinstance(stored, bytes) or _sum_of(n, row, stored[_SUM:]) != stored[:_SUM]:
        raise ArchiveCorrupt(f"arguments {row} of history entry {n} are not what was written: their checksum differs")
    return stored[_SUM:]


def _sum_of(n: int, row: int, data: bytes) -> bytes:
    return crc32(data, crc32(b"%d %d" % (n, row))).to_bytes(_SUM, "little")
