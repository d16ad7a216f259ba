"""
Pushed runs in the history of an archive: what became of a push, and the push of an ended run.

A run is open if the state has it. Otherwise its end is in one of the next entries of its id. The push of an ended run
is found by its time, which the end has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Final

from zsched.archive.history import History
from zsched.archive.index import another_end, key_of
from zsched.archive.schema import POSTING_BITS, first_since
from zsched.core.log.kinds import kinds_telling
from zsched.core.log.lives import EndEntry
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.search import is_push, record_key_of, run_that_ended
from zsched.core.runs.run import Run, pushed

_OF_ONE_RUN: Final = 200  # entries of an id after the push, among which the run's end is searched
_OF_ONE_TIME: Final = 10  # entries that are searched for a push: all entries of a bootstrap have one t
_LATER_ENDS: Final = "SELECT n FROM posting WHERE segment = ? AND value = ? AND n > ? ORDER BY n DESC"
_IS_OPEN: Final = "SELECT note FROM live WHERE life = ? AND id = ? AND run = ? AND place = 'open'"
_AT: Final = "SELECT n FROM entry WHERE n >= ? AND n < ? AND t = ?"
_TELLING: Final = {EndEntry.kind, *kinds_telling(What.PUSHED_AGAIN, What.FOUND, What.ENQUEUED, What.RUN_AGAIN)}


class PushedRuns:
    """The pushed runs of *history*. An entry that has many of them is read once."""

    def __init__(self, history: History) -> None:
        self._history, self._db = history, history.db
        self._by_run = lru_cache(maxsize=100)(self._read)
        self._numbers_at = lru_cache(maxsize=100)(self._read_numbers)

    def run_of(self, push: Change, n: int) -> tuple[Run, bool] | None:
        """
        Return the run of *push* in entry *n*, and True if a later entry pushed it again; None if a recovery skipped it:
        it is not a run any more.
        """
        run_id = push.run_id or ""
        is_open = self._db.execute(_IS_OPEN, (self._history.life, *record_key_of(push))).fetchone() is not None
        is_superseded, attempt = False, 1
        for later_n, kind in islice(self._history.numbers(push.id, n + 1, is_forwards=True), _OF_ONE_RUN):
            for change in self._by_run(later_n).get(run_id, ()) if kind in _TELLING else ():
                if change.what is What.RUN_ENDED and not is_open:
                    return run_that_ended(self.last_end(run_id, later_n, change)[1]), is_superseded
                if change.what is What.SKIPPED and not is_open:
                    return None
                is_superseded = is_superseded or is_push(change)
                attempt = change.count if change.what is What.RUN_AGAIN else attempt
        return pushed(run_id, push.at_us, push.why == "uncertain")._replace(attempt=attempt), is_superseded

    def last_end(self, run_id: str, n: int, end: Change) -> tuple[int, Change]:
        """Return the number and the change of the last end of a run that ended by *end* in entry *n*."""
        value = key_of(another_end(run_id))
        for segment in range(self._history.last_n >> POSTING_BITS, (n >> POSTING_BITS) - 1, -1):
            for (later_n,) in self._db.execute(_LATER_ENDS, (segment, value, n)):
                if later := self._by_run(later_n).get(run_id):
                    return later_n, later[-1]
        return n, end

    def push_at(self, t_us: int, run_id: str) -> tuple[int, Change] | None:
        """Return the number of the entry with the push of *run_id* at *t_us*, and the push; None if it is not there."""
        for n in self._numbers_at(t_us):
            for change in self._by_run(n).get(run_id, ()):
                if is_push(change):
                    return n, change
        return None

    def with_push(self, ended: Change) -> Change:
        """Return *ended* with its push instead of its end; unchanged if the push is not in the archive."""
        t_us = None if ended.run is None else ended.run.fired_us
        push = None if t_us is None else self.push_at(t_us, ended.run_id or "")
        if push is None:
            return ended
        found = self._history.with_ready(push[1], push[0])
        return replace(found, run=ended.run, facets=ended.facets, cursor=ended.cursor)

    def _read(self, n: int) -> Mapping[str, Sequence[Change]]:
        """Return the changes in entry *n*, by run id."""
        found = defaultdict[str, list[Change]](list)
        for change in self._history.changes_in(self._history.entry(n)):
            found[change.run_id or ""].append(change)
        return found

    def _read_numbers(self, t_us: int) -> list[int]:
        """Return the numbers of the first entries with exactly this time."""
        n = first_since(self._db, t_us, self._history.last_n)
        return [found for (found,) in self._db.execute(_AT, (n, n + _OF_ONE_TIME, t_us))]
