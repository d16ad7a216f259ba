"""
Occurrences and runs as a search finds them: the query, its results, and its places.

A run without a known end is reported as *queued*. Only RQ knows whether a worker has it or has just ended it. So a
query for one kind of runs also gets the open runs; the caller updates them from RQ (``runs.as_seen``) and keeps the
wanted ones (``kept``). An occurrence that a recovery skipped is a skipped occurrence without a run: its push was lost
with the old Redis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final, NamedTuple

from zsched.core.entry import Position
from zsched.core.facets import NO_FACETS, Facets, question_number, question_text
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import PUSHES, What
from zsched.core.runs.run import OPEN, OVER, Run, RunStatus, ended_run, pushed
from zsched.core.runs.run_id import RunKey, run_key

PUSHED_PLAINLY: Final = frozenset({What.FIRED, What.FOUND})
BADLY_OVER: Final = OVER - {RunStatus.SUCCEEDED}


class SearchCursor(NamedTuple):
    """
    A place in a search: before the change in *row* of the entry with *position*, which had number *n* in its archive.
    With *run_id*: behind that open run, pushed at the position's time.
    """

    position: Position
    n: int = 0
    row: int = 0
    run_id: str = ""

    @classmethod
    def parse(cls, text: str) -> SearchCursor:
        """Return the cursor from its ``str``. Raises ValueError."""
        place, _, run_id = text.partition("/")
        epoch, seq, t_us, n, row = (question_number(int(each)) for each in place.split("-"))
        if run_id and run_key(run_id) is None:
            raise ValueError(f"{run_id!r:.80} is not a run id")
        return cls(Position(epoch, seq, t_us), n, row, run_id)

    def __str__(self) -> str:
        """``parse`` is the inverse."""
        epoch, seq, t_us = self.position
        place = f"{epoch}-{seq}-{t_us}-{self.n}-{self.row}"
        return f"{place}/{self.run_id}" if self.run_id else place


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    A query: the newest *limit* occurrences with a change in *whats*, and runs with a status in *statuses*, without
    duplicates. The other conditions hold for all: schedule *id*, a glob *match* over ids, *facets*, and the time of the
    change, *since_us* <= t < *until_us*.
    """

    whats: frozenset[What]
    statuses: frozenset[RunStatus]
    limit: int
    id: str | None = None
    match: str | None = None
    facets: Facets = NO_FACETS
    since_us: int | None = None
    until_us: int | None = None

    @property
    def words(self) -> frozenset[str] | None:
        """
        The words of the wanted changes (``Change.word``); None if the wanted runs are found by their pushes only,
        because they succeeded or are not over.
        """
        if self.whats & PUSHED_PLAINLY or not self.statuses <= BADLY_OVER:
            return None
        return frozenset(one.value for one in (*self.whats, *self.statuses))

    @property
    def are_open(self) -> bool:
        """True if only runs that are not over are wanted."""
        return not self.whats and bool(self.statuses) and self.statuses <= OPEN

    @property
    def literal(self) -> str:
        """The longest text that every wanted id has; '' if there is none."""
        return self.id or max(re.split(r"\[.*?\]|[*?]", self.match or ""), key=len)

    @property
    def prefix(self) -> str:
        """The text that every wanted id begins with; '' if there is none."""
        return re.split(r"[\[*?]", self.match or "", maxsplit=1)[0]

    def is_of(self, id: str) -> bool:
        """Return True if schedule *id* is wanted."""
        return self.id in (None, id) and (self.match is None or fnmatchcase(id, self.match))

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON; ``of_dict`` is the inverse."""
        whats, statuses = ([word.value for word in words] for words in (self.whats, self.statuses))
        shown = {"whats": sorted(whats), "statuses": sorted(statuses), "limit": self.limit, "facets": list(self.facets)}
        others = {"id": self.id, "match": self.match, "since_us": self.since_us, "until_us": self.until_us}
        return shown | {name: value for name, value in others.items() if value is not None}

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Wanted:
        """Return the query from its ``to_dict``. Raises KeyError, TypeError, ValueError."""
        values = {name: _CHECKS[name](value) if name in _CHECKS else value for name, value in given.items()}
        whats, statuses = frozenset(map(What, values.pop("whats"))), frozenset(map(RunStatus, values.pop("statuses")))
        facets = Facets.of_texts(*values.pop("facets"))
        return cls(whats, statuses, int(values.pop("limit")), facets=facets, **values)


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "id": question_text,
    "match": question_text,
    "since_us": question_number,
    "until_us": question_number,
}


def record_key_of(change: Change) -> RunKey:
    """Return the key of the record of *change* (``ParsedEntry.owners``): of its run, or of its schedule."""
    return change.id, "" if change.run_id is None else change.run_id[len(change.id) + 1 :]


def is_push(change: Change) -> bool:
    """Return True if *change* put a run into its queue, or found it there or with a worker."""
    is_one = change.what in PUSHES or (change.what is What.FOUND and change.why == "open")
    return is_one and change.run_id is not None


def run_that_ended(end: Change) -> Run:
    """Return the run that ended by *end*; unreadable facts are left out."""
    return ended_run(end.run_id or "", end.why, end.record, end.at_us // 1000)


def runs_of(changes: Iterable[Change]) -> list[Run]:
    """Return the runs in *changes* of a schedule, the last pushed first; then those that were pushed before these."""
    runs, before = dict[str, Run](), dict[str, Run]()
    for one in changes:
        id, known = one.run_id or "", runs.get(one.run_id or "")
        if is_push(one):
            runs.pop(id, None)  # its place is that of its newest push
            runs[id] = pushed(id, one.at_us, one.why == "uncertain")
        elif one.what is What.RUN_ENDED:
            run = run_that_ended(one)
            fired_us = run.fired_us if known is None or run.fired_us is not None else known.fired_us
            (before if known is None else runs)[id] = run._replace(fired_us=fired_us)
        elif known is not None and not known.is_over and one.what is What.SKIPPED:
            del runs[id]  # by a recovery: it was not pushed again
        elif known is not None and not known.is_over and one.what is What.RUN_AGAIN:
            runs[id] = known._replace(attempt=one.count)
    earlier = (run for id, run in before.items() if id not in runs)
    return [*reversed(runs.values()), *sorted(earlier, key=lambda run: run.fired_us or 0, reverse=True)]


def kept(found: Iterable[Change], wanted: Wanted) -> list[Change]:
    """Return the occurrences of *found* that are still *wanted* after their update from RQ."""
    matching = (
        one for one in found if one.what in wanted.whats or (one.run is not None and one.run.status in wanted.statuses)
    )
    return list(islice(matching, wanted.limit))
