"""
Occurrences of a schedule that ran, found in the history: a backfill leaves them out.

A run is never pushed before its time. So the pushes for a period are after the first entry of that period, but maybe
much later: runs may be late, or backfilled. So all entries of the schedule from there on are read, in parts: the caller
gets the result of one part and asks for the next, and the daemon can answer others in between. A part takes at most
0.5 s, for 30,000 entries of one run each, or 3,000 entries of 200 runs (measured; the file cached, two shared cores).

Not guaranteed: runs before the time since when an archive is complete; entries from a time when the server's clock was
set back, because their times are not in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from zsched.archive import body
from zsched.archive.file import converted
from zsched.archive.history import ENTRY, History
from zsched.archive.schema import first_since
from zsched.core.clock import Clock, SystemClock
from zsched.core.log import Entry, kinds_telling
from zsched.core.log.fires import AdvanceEntry
from zsched.core.occurrences.backfill import ran_at
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import RAN, What
from zsched.core.occurrences.search import is_push

_LOOKED_FOR_MS: Final = 500.0
_MOST: Final = 20_000  # occurrences in one answer
_ENTRIES: Final = (
    f"SELECT {', '.join(f'entry.{name}' for name in body.COLUMNS.split(', '))} FROM touch JOIN entry USING (n)"
    " WHERE segment = ? AND key = ? AND n > ?"
)


_ENTRIES_AT_ONCE: Final = 100_000  # of any kind in one look for suppressed occurrences
_MOST_SUPPRESSED: Final = 200  # in one look
_EARLY_US: Final = 60_000_000  # a push is searched from this long before its time: run_now pushes a one-shot early


class Part(NamedTuple):
    """
    Result of reading a part of the history. ``archive``: its id; ``read_to``: the number of the last entry read, None
    at the end.
    """

    archive: str
    times_ms: list[int]
    read_to: int | None


class Ran:
    """The occurrences that ran, by *history*."""

    def __init__(self, history: History, clock: Clock | None = None) -> None:
        self._history, self._clock = history, clock or SystemClock()

    def of(self, id: str, start_ms: int, end_ms: int, read_to: dict[str, int]) -> Part:
        """
        Return the occurrences of schedule *id* in [start_ms, end_ms) that ran, ascending, from the entries after
        ``read_to[archive id]``.
        """
        until_ms, found = self._clock.monotonic_ms() + _LOOKED_FOR_MS, set[int]()
        with converted(self._history.path):
            archive = str(self._history.db.execute("SELECT value FROM fact WHERE name = 'archive'").fetchone()[0])
            first_n = first_since(self._history.db, start_ms * 1000, self._history.last_n)
            behind_n = max(read_to.get(archive, 0), first_n - 1)
            for n, entry in self.entries(id, behind_n):
                times = (ran_at(change) for change in self._history.changes_in(entry, id) if change.id == id)
                found.update(ms for ms in times if ms is not None and start_ms <= ms < end_ms)
                if self._clock.monotonic_ms() >= until_ms or len(found) >= _MOST:
                    return Part(archive, sorted(found), n)
        return Part(archive, sorted(found), None)

    def entries(self, id: str, behind_n: int) -> Iterator[tuple[int, Entry]]:
        key, query = crc32(id.encode()), f"{_ENTRIES} AND {body.of_kinds(kinds_telling(*RAN))} ORDER BY n"
        for segment in self._history.segments:
            for row in self._history.db.execute(query, (segment, key, behind_n)):
                yield row[0], body.entry_of(row)


class Suppressed:
    """
    Suppressed occurrences of *history*: ``advance`` did not push them because a job of their run existed, and this
    history never pushed that run. Another program made that job.

    A run with a time before the beginning of the archive's history is never reported. Not guaranteed: that all reported
    runs were suppressed. A lost history without an archive may have pushed them, or ``run_now`` more than a minute
    before their time. Occurrences may be missed in a period to which the server's clock was set back later.
    """

    def __init__(self, history: History) -> None:
        self._history, self._ran = history, Ran(history)

    def before(self, t_us: int) -> int:
        """Return the number of the last entry before *t_us*."""
        with converted(self._history.path):
            return first_since(self._history.db, t_us, self._history.last_n) - 1

    def look(self, behind_n: int) -> tuple[list[Change], int]:
        """Return the suppressed occurrences after entry number *behind_n*, and the number of the last entry read."""
        until_n, found, asked = min(behind_n + _ENTRIES_AT_ONCE, self._history.last_n), [], 0
        query = f"{ENTRY} WHERE n > ? AND n <= ? AND kind = '{AdvanceEntry.kind}' AND instr(body, ?) ORDER BY n"
        with converted(self._history.path):
            rows = self._history.db.execute(query, (behind_n, until_n, AdvanceEntry.DUPLICATE)).fetchall()
            for row in rows:
                for change in self._history.changes_in(body.entry_of(row)):
                    if change.what is What.DUPLICATE and asked < _MOST_SUPPRESSED:
                        asked += 1
                        found += [change] if self._is_suppressed(change) else []
        return found, until_n

    def _is_suppressed(self, duplicate: Change) -> bool:
        nominal_us = (duplicate.nominal_ms or 0) * 1000
        if self._history.complete_since is None or (
            self._history.complete_since != "start" and int(self._history.complete_since) > nominal_us
        ):
            return False
        behind_n = first_since(self._history.db, nominal_us - _EARLY_US, self._history.last_n) - 1
        changes = (
            change
            for _, entry in self._ran.entries(duplicate.id, behind_n)
            for change in self._history.changes_in(entry)
        )
        return not any(is_push(change) and change.run_id == duplicate.run_id for change in changes)
