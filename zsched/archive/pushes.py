"""
Runs and their pushes: what became of a pushed run, and the push of an ended run, in the history of an archive.

A run is open if the state has it. Otherwise its end is in one of the next entries of its id. The push of an ended run
is found by its time, which the end has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

from zsched.archive import body
from zsched.archive.history import ENTRY, History
from zsched.archive.index import another_end, key_of
from zsched.archive.schema import POSTING_BITS, first_since
from zsched.core.log import kinds_telling
from zsched.core.log.lives import EndEntry
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.search import Occurrence, is_push, run_that_ended
from zsched.core.runs.run import Run, pushed

_OF_ONE_RUN: Final = 200  # entries of an id after the push, among which the run's end is searched
_OF_ONE_TIME: Final = 10  # entries that are searched for a push: all entries of a bootstrap have one t
_LATER_ENDS: Final = "SELECT n FROM posting WHERE segment = ? AND value = ? AND n > ? ORDER BY n DESC"
_IS_OPEN: Final = "SELECT note FROM live WHERE life = ? AND id = ? AND run = ? AND place = 'open'"


class RunOfPush(NamedTuple):
    """The run of a push. ``is_superseded``: a later entry pushed it again."""

    run: Run
    is_superseded: bool


class RunsOfPushes:
    """Finds what became of pushed runs."""

    def __init__(self, history: History) -> None:
        self._history, self._db = history, history.db
        self._life = history.life
        self._ends = lru_cache(maxsize=32)(self._read_ends)

    def of(self, push: Change, n: int) -> RunOfPush | None:
        """Return the run of *push* in entry *n*; None if a recovery skipped it: it is no run any more."""
        run_id, id = push.run_id or "", push.id
        open = self._db.execute(_IS_OPEN, (self._life, id, run_id[len(id) + 1 :])).fetchone()
        is_superseded, attempt = False, 1
        for later_n in islice(self._later(id, n), _OF_ONE_RUN):
            kind = self._db.execute("SELECT kind FROM entry WHERE n = ?", (later_n,)).fetchone()
            if kind is None:
                continue
            if kind[0] == EndEntry.kind:
                end = self._ends(later_n).get(run_id)
                if end is not None and open is None:
                    _, last = self.last_end(run_id, later_n, end)
                    return RunOfPush(run_that_ended(last), is_superseded)
            elif kind[0] in _AGAIN:
                for change in self._changes(later_n):
                    if change.run_id == run_id:
                        if change.what is What.SKIPPED and open is None:
                            return None
                        is_superseded = is_superseded or is_push(change)
                        attempt = change.count if change.what is What.RUN_AGAIN else attempt
        run = pushed(run_id, push.at_us, push.why == "uncertain")._replace(attempt=attempt)
        return RunOfPush(run, is_superseded)

    def last_end(self, run_id: str, n: int, end: Change) -> tuple[int, Change]:
        """Return the number and the change of the last end of a run that ended by *end* in entry *n*."""
        value = key_of(another_end(run_id))
        for segment in range(self._history.last_n >> POSTING_BITS, (n >> POSTING_BITS) - 1, -1):
            for (later_n,) in self._db.execute(_LATER_ENDS, (segment, value, n)):
                if (later := self._ends(later_n).get(run_id)) is not None:
                    return later_n, later
        return n, end

    def _later(self, id: str, n: int) -> Iterator[int]:
        query, key = "SELECT n FROM touch WHERE segment = ? AND key = ? AND n > ? ORDER BY n", crc32(id.encode())
        for segment in self._history.segments_between(n, self._history.last_n):
            for (later_n,) in self._db.execute(query, (segment, key, n)):
                yield later_n

    def _changes(self, n: int) -> list[Change]:
        row = self._db.execute(f"{ENTRY} WHERE n = ?", (n,)).fetchone()
        return [] if row is None else list(self._history.changes_in(body.entry_of(row)))

    def _read_ends(self, n: int) -> Mapping[str, Change]:
        return {change.run_id or "": change for change in self._changes(n)}


_AGAIN: Final = frozenset(kinds_telling(What.PUSHED_AGAIN, What.FOUND, What.ENQUEUED, What.RUN_AGAIN))


class PushesOfRuns:
    """Finds the pushes of ended runs by their time; all pushes of one entry at once."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._at = lru_cache(maxsize=100)(self._read)

    def at(self, t_us: int, run_id: str) -> Change | None:
        """Return the push of *run_id* at *t_us*; None if it is not in the archive."""
        return self._at(t_us).get(run_id, (0, None))[1]

    def of(self, ended: Occurrence) -> Occurrence:
        """Return *ended* with its push instead of its end; unchanged if the push is not in the archive."""
        t_us = None if ended.run is None else ended.run.fired_us
        n, push = (0, None) if t_us is None else self._at(t_us).get(ended.run_id, (0, None))
        if push is None:
            return ended
        return Occurrence.of(self._history.with_ready(push, n), ended.run, ended.facets, ended.cursor)

    def _read(self, t_us: int) -> Mapping[str | None, tuple[int, Change]]:
        """Return the pushes in the first entries with exactly this time, by run id, with the numbers of the entries."""
        db, n = self._history.db, first_since(self._history.db, t_us, self._history.last_n)
        found = db.execute(f"{ENTRY} WHERE n >= ? AND n < ? AND t = ?", (n, n + _OF_ONE_TIME, t_us))
        changes = ((row[0], change) for row in found for change in self._history.changes_in(body.entry_of(row)))
        return {change.run_id: (n, change) for n, change in changes if is_push(change)}
