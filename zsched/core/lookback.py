"""
Occurrences and runs read from the log backwards: the newest are wanted, and the log is long.

Backwards, the end of a run comes before its push: at its push, the end of a run is known if it has one. A run with its
end only was pushed before the oldest entry that was read; it comes last. A run without an end in the log is reported as
*queued*. Only RQ knows whether a worker has it or has just ended it. So a query for one kind of runs also gets the
newest open runs; the caller updates them from RQ (``runs.as_seen``) and keeps the wanted ones (``kept``). An occurrence
that a recovery skipped is a skipped occurrence without a run: its push was lost with the old Redis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final, NamedTuple

from zsched.core.attempts import without_tracebacks
from zsched.core.changes import Change
from zsched.core.entry import Position
from zsched.core.facets import NO_FACETS, Facets
from zsched.core.outcomes import OUTCOMES, PUSHES, What
from zsched.core.run_id import RunKey, run_key
from zsched.core.runs import OPEN, OVER, Run, RunStatus, ended_as, ended_run, facts_of, of_facts, pushed
from zsched.errors import show

MOST_OPEN: Final = 1000  # open runs that may have a wanted status in RQ
LOOKED_FOR: Final = (*OUTCOMES, What.RUN_ENDED, What.RUN_AGAIN, What.FOUND)  # changes of occurrences and runs
PUSHED_PLAINLY: Final = frozenset({What.FIRED, What.FOUND})
_WHOLE: Final = 2**62  # bound of whole numbers in a question: SQLite's integers have 64 bits
BADLY_OVER: Final = OVER - {RunStatus.SUCCEEDED}


@dataclass(frozen=True, slots=True)
class Occurrence(Change):
    """
    An occurrence, its result, and its ``run``; None if it was not pushed. ``facets``: None if they are not known.
    ``cursor``: its place in a search, to continue after it.
    """

    run: Run | None = None
    facets: Facets | None = None
    cursor: str = ""

    @classmethod
    def of(cls, change: Change, run: Run | None = None, facets: Facets | None = None, cursor: str = "") -> Occurrence:
        """Return *change* with its *run*."""
        of_change = {each.name: getattr(change, each.name) for each in fields(Change)}
        return cls(**of_change, run=run, facets=facets, cursor=cursor)

    @property
    def named_run(self) -> Run | None:
        """Its run, with the name that the schedule had then."""
        return self.run and self.run._replace(name=(self.facets or NO_FACETS).name)

    @property
    def key(self) -> tuple[What, str, str | None]:
        """The identity of the change in its entry."""
        return self.what, self.id, self.run_id

    def with_run(self, run: Run | None) -> Occurrence:
        """Return the same with another *run*."""
        return replace(self, run=run)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON, without tracebacks; ``of_dict`` is the inverse."""
        shown = Change.to_dict(self)  # not super(): @dataclass(slots=True) creates a new class
        if self.run is not None:
            attempts = without_tracebacks(self.run.attempts)
            run = self.run._replace(attempts=attempts) if self.run.attempts else self.run
            shown["run"] = [run.id, run.status.value, facts_of(run)]
        if self.facets is not None:
            shown["facets"] = list(self.facets)
        return shown | {"cursor": self.cursor}

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Occurrence:
        """Return the occurrence from its ``to_dict``. Raises KeyError, TypeError, ValueError."""
        values = dict(given)
        run, facets, cursor = values.pop("run", None), values.pop("facets", None), values.pop("cursor", "")
        known = None if facets is None else _facets(*facets)
        return cls.of(Change.of_dict(values), None if run is None else of_facts(*run), known, cursor)

    def shown(self) -> dict[str, Any]:
        """Return it for JSON that people read; the keys are stable."""
        facets = self.facets or NO_FACETS
        of_schedule = {"func": facets.func or None, "queue": facets.queue or None, "tags": list(facets.tags)}
        of_schedule |= {"owner": facets.owner or None, "name": facets.name or None}
        run = None if self.run is None else self.run.to_dict()
        return Change.shown(self) | of_schedule | {"run": run, "cursor": self.cursor}


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
        epoch, seq, t_us, n, row = (_number(int(each)) for each in place.split("-"))
        if run_id and run_key(run_id) is None:
            raise ValueError(f"{run_id!r:.80} is no run id")
        return cls(Position(epoch, seq, t_us), n, row, run_id)

    @property
    def order(self) -> tuple[int, int, int]:
        """The sort key of cursors in one log."""
        return *self.position.order, self.row

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
        values = {name: _CHECKS.get(name, lambda value: value)(value) for name, value in given.items()}
        whats, statuses = frozenset(map(What, values.pop("whats"))), frozenset(map(RunStatus, values.pop("statuses")))
        facets = _facets(*values.pop("facets"))
        return cls(whats, statuses, int(values.pop("limit")), facets=facets, **values)


def _facets(func: Any, queue: Any, owner: Any, tags: Any, name: Any) -> Facets:
    """Return the facets of their ``list``. Raises as ``question_text``."""
    func, queue, owner, name = map(question_text, (func, queue, owner, name))
    return Facets(func, queue, owner, tuple(map(question_text, tags)), name)


def question_text(value: Any) -> str:
    """Return *value*, a text in a question to an archive. Raises TypeError, UnicodeEncodeError (a lone surrogate)."""
    if not isinstance(value, str):
        raise TypeError(f"{show(value)} is no text")
    value.encode()
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _WHOLE:
        raise ValueError(f"{show(value)} is no number of a log or time")
    return value


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "id": question_text,
    "match": question_text,
    "since_us": _number,
    "until_us": _number,
}


class Lookback:
    """A search for *wanted*. It gets the changes of the entries, the newest entry first."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._counts_open = wanted.statuses >= OPEN  # otherwise open runs are added, and not counted
        self._found: list[Occurrence] = []
        self._matched = self._open = 0
        self._ends: dict[str, Change] = {}  # of runs without a push so far
        self._attempts: dict[str, int] = {}
        self._runs: dict[str, Run | None] = {}  # None: no longer a run
        self._skipped: set[str] = set()  # runs that were skipped after their newest push

    def see(self, changes: Sequence[Change]) -> bool:
        """Add the changes of one entry, in its order; return True if the search is complete."""
        wanted = self._wanted
        for change in reversed(changes):
            if self.is_full:
                return True
            if not wanted.is_of(change.id):
                continue
            if change.what in (What.RUN_ENDED, What.RUN_AGAIN):
                self._note(change)
            elif not self._has_time(change.at_us):
                continue
            elif is_push(change):
                self._meet(change)
            else:
                if change.what is What.SKIPPED and change.run_id is not None:
                    self._skipped.add(change.run_id)
                if change.what in wanted.whats:
                    self._take(Occurrence.of(change))
        return self.is_full

    def _has_time(self, t_us: int) -> bool:
        since_us, until_us = self._wanted.since_us, self._wanted.until_us
        return (since_us is None or t_us >= since_us) and (until_us is None or t_us < until_us)

    @property
    def is_full(self) -> bool:
        """True if nothing more is wanted."""
        is_only_open = not self._wanted.whats and not self._wanted.statuses & OVER
        return self._matched >= self._wanted.limit or (is_only_open and self._open >= MOST_OPEN)

    def found(self) -> list[Occurrence]:
        """Return the result, the newest first, then the runs that were pushed before the oldest entry read."""
        ends = [end for end in self._ends.values() if ended_as(end.why) in self._wanted.statuses]
        latest = ends[: max(self._wanted.limit - self._matched, 0)]
        before = [Occurrence.of(end, run_that_ended(end)) for end in latest]
        return self._found + newest_first(before)

    def _note(self, change: Change) -> None:
        """Remember the end of a run whose push is further back; changes before its newest push do not count."""
        run_id = change.run_id or ""
        if run_id in self._runs:
            return
        if change.what is What.RUN_ENDED:
            self._ends.setdefault(run_id, change)
        else:
            self._attempts.setdefault(run_id, change.count)

    def _meet(self, push: Change) -> None:
        run_id, wanted = push.run_id or "", self._wanted
        is_wanted, is_new = push.what in wanted.whats, run_id not in self._runs
        if is_new:
            self._runs[run_id] = run = self._run_of(run_id, push)
            if run is None:
                pass
            elif run.status in wanted.statuses and (run.is_over or self._counts_open):
                is_wanted = True
            elif not run.is_over and not is_wanted and wanted.statuses and self._open < MOST_OPEN:
                self._open += 1
                self._found.append(Occurrence.of(push, run))
        if is_wanted:
            self._take(Occurrence.of(push, self._runs[run_id]))

    def _take(self, occurrence: Occurrence) -> None:
        self._matched += 1
        self._found.append(occurrence)

    def _run_of(self, run_id: str, push: Change) -> Run | None:
        """Return the known facts of the run that *push* pushed; only the status if the run is not wanted."""
        end, attempt = self._ends.pop(run_id, None), self._attempts.pop(run_id, 1)
        if end is None and run_id in self._skipped:
            return None
        if end is None:
            return pushed(run_id, push.at_us, push.why == "uncertain")._replace(attempt=attempt)
        status = ended_as(end.why)
        if push.what not in self._wanted.whats and status not in self._wanted.statuses:
            return Run(run_id, status)
        run = run_that_ended(end)
        return run if run.fired_us is not None else run._replace(fired_us=push.at_us)


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


def newest_first(found: Iterable[Occurrence]) -> list[Occurrence]:
    """Return *found*, sorted by the pushes of their runs."""
    return sorted(found, key=lambda one: one.run.fired_us or 0 if one.run else one.at_us, reverse=True)


def kept(found: Iterable[Occurrence], wanted: Wanted) -> list[Occurrence]:
    """Return the occurrences of *found* that are still *wanted* after their update from RQ."""
    matching = (
        one for one in found if one.what in wanted.whats or (one.run is not None and one.run.status in wanted.statuses)
    )
    return list(islice(matching, wanted.limit))
