"""
Occurrences and runs read from the log backwards: the newest are wanted, and the log is long.

Backwards, the end of a run comes before its push: at its push, the end of a run is known if it has one. A run with its
end only was pushed before the oldest entry that was read; it comes last. A run without an end in the log is reported as
*queued*. Only RQ knows whether a worker has it or has just ended it. So a query for one kind of runs also gets the
newest open runs; the caller updates them from RQ (``runs.as_seen``) and keeps the wanted ones (``kept``). An occurrence
that a recovery skipped is a skipped occurrence without a run: its push was lost with the old Redis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, Final

from zsched.core.changes import OUTCOMES, PUSHES, Change, What
from zsched.core.runs import OPEN, OVER, Run, RunStatus, ended_as, ended_run, facts_of, of_facts, pushed

MOST_OPEN: Final = 1000  # open runs that may have a wanted status in RQ
LOOKED_FOR: Final = (*OUTCOMES, What.RUN_ENDED, What.RUN_AGAIN, What.FOUND)  # changes of occurrences and runs


@dataclass(frozen=True, slots=True)
class Occurrence(Change):
    """An occurrence, its result, and its ``run``; None if it was not pushed."""

    run: Run | None = None

    @classmethod
    def of(cls, change: Change, run: Run | None = None) -> Occurrence:
        """Return *change* with its *run*."""
        return cls(**{each.name: getattr(change, each.name) for each in fields(Change)}, run=run)

    def with_run(self, run: Run | None) -> Occurrence:
        """Return the same with another *run*."""
        return replace(self, run=run)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON; ``of_dict`` is the inverse."""
        shown = Change.to_dict(self)  # not super(): @dataclass(slots=True) creates a new class
        return shown if self.run is None else shown | {"run": [self.run.id, self.run.status.value, facts_of(self.run)]}

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Occurrence:
        """Return the occurrence from its ``to_dict``. Raises KeyError, TypeError, ValueError."""
        run = of_facts(*given["run"]) if "run" in given else None
        return cls.of(Change.of_dict({name: value for name, value in given.items() if name != "run"}), run)

    def shown(self) -> dict[str, Any]:
        """Return it for JSON that people read; the keys are stable."""
        return Change.shown(self) | {"run": None if self.run is None else self.run.to_dict()}


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    A query: the newest *limit* occurrences with a change in *whats*, and runs with a status in *statuses*, without
    duplicates; only of schedule *id* if it is given.
    """

    whats: frozenset[What]
    statuses: frozenset[RunStatus]
    limit: int
    id: str | None = None

    @property
    def are_ends(self) -> bool:
        """True if the ends of runs are enough, of any schedules."""
        return not self.whats and self.id is None and bool(self.statuses) and self.statuses <= OVER

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON; ``of_dict`` is the inverse."""
        whats, statuses = ([word.value for word in words] for words in (self.whats, self.statuses))
        return {"whats": sorted(whats), "statuses": sorted(statuses), "limit": self.limit, "id": self.id}

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Wanted:
        """Return the query from its ``to_dict``. Raises KeyError, TypeError, ValueError."""
        whats, statuses = frozenset(map(What, given["whats"])), frozenset(map(RunStatus, given["statuses"]))
        return cls(whats, statuses, int(given["limit"]), given["id"])


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
            if wanted.id not in (None, change.id):
                continue
            if change.what in (What.RUN_ENDED, What.RUN_AGAIN):
                self._note(change)
            elif is_push(change):
                self._meet(change)
            else:
                if change.what is What.SKIPPED and change.run_id is not None:
                    self._skipped.add(change.run_id)
                if change.what in wanted.whats:
                    self._take(Occurrence.of(change))
        return self.is_full

    def see_ends(self, ends: Sequence[Change]) -> bool:
        """Add an entry with nothing but wanted ends of runs, as ``see`` does."""
        self.see(ends)
        return len(self._ends) >= self._wanted.limit

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
