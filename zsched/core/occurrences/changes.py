"""
Changes: what happened to a schedule, for stories, listings and counts, and as a search finds it. ``core.log`` reads
them from entries.

**Search**: the query, its results, and its places. A run without a known end is reported as *queued*. Only RQ knows
whether a worker has it or has just ended it. So a query for one kind of runs also gets the open runs; the caller
updates them from RQ (``runs.as_seen``) and keeps the wanted ones (``kept``). An occurrence that a recovery skipped is a
skipped occurrence without a run: its push was lost with the old Redis.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final, NamedTuple, Self

from zsched.core.entry import Position
from zsched.core.facets import NO_FACETS, Facets, question_number, question_text
from zsched.core.model import iso, json_of
from zsched.core.occurrences.outcomes import OF_RUNS, PUSHES, RESTORED_RUNS, What
from zsched.core.options.allowed import LimitedBy
from zsched.core.runs.attempts import without_tracebacks
from zsched.core.runs.run import OPEN, OVER, Run, RunStatus, ended_run, facts_of, of_facts, pushed
from zsched.core.runs.run_id import RunKey, run_key

# Reasons for enqueuing that identify the kind of run.
BACKFILL: Final = "backfill"  # its occurrence had passed without a run
RUN_NOW: Final = "run now"

RUN_OVER: Final = "over"  # a run was withdrawn: it was in its queue again
PUSHED_PLAINLY: Final = frozenset({What.FIRED, What.FOUND})
BADLY_OVER: Final = OVER - {RunStatus.SUCCEEDED}


@dataclass(frozen=True, slots=True)
class Change:
    """
    One change to one schedule, read from one entry.

    ``nominal_ms``: the nominal time of an occurrence, or the new next time of a schedule. ``next_ms``: the next time of
    a recurring schedule after it, or the deadline that was missed. ``first_ms`` to ``last_ms`` are *count* occurrences.
    ``why``: reason, note or mark. ``by``: who asked for it, as a client says; None: a daemon did it. ``changed``: the
    options that a put changed, as texts. ``record``: the facts of a run that is over, for ``runs.ended_run``.
    ``jitter_ms``: the due time of an occurrence minus its nominal time.

    A reader of the history adds what other entries say. ``ready_us``: the entry after its due time that put, resumed or
    moved the schedule of a firing; of that put, resume or move, its own time; 0: there was none, or the reader did not
    look for it. ``term_us`` and ``led_us``, of a late occurrence: the beginning of the last term before it, and the
    last entry of a leader before that term. ``limited_by``: of a put whose definition the reader knows.

    A search adds the ``run`` of an occurrence that was pushed, the ``facets`` if they are known, and the ``cursor``:
    its place in the search, to continue after it.
    """

    id: str
    what: What
    at_us: int
    entry: str
    run_id: str | None = None
    nominal_ms: int | None = None
    next_ms: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    count: int = 1
    why: str = ""
    by: str | None = None
    record: str = ""
    jitter_ms: int = 0
    changed: tuple[str, ...] = ()
    ready_us: int = 0
    term_us: int = 0
    led_us: int = 0
    limited_by: LimitedBy | None = None
    run: Run | None = None
    facets: Facets | None = None
    cursor: str = ""

    @property
    def word(self) -> str:
        """The word by which a search finds it: its outcome, or the status of the run that ended."""
        return self.why if self.what is What.RUN_ENDED else self.what.value

    @property
    def is_firing(self) -> bool:
        """True if the schedule's run was pushed: at its time, by *run now*, or again after Redis had lost it."""
        is_at_once = self.what is What.ENQUEUED and self.why == RUN_NOW
        return is_at_once or self.what is What.FIRED or self.what in RESTORED_RUNS

    @property
    def is_of_schedule(self) -> bool:
        """True if it says what became of the schedule itself, and not of a run that goes its own way."""
        return self.is_firing or not (self.is_of_over_run or self.what in (*OF_RUNS, What.RETRIED, What.ENQUEUED))

    @property
    def is_of_over_run(self) -> bool:
        """True if it took a run that was over out of its queue."""
        return self.what is What.WITHDRAWN and self.why == RUN_OVER

    @property
    def due_ms(self) -> int | None:
        """The due time of its occurrence: ``jitter_ms`` after its nominal time."""
        return None if self.nominal_ms is None else self.nominal_ms + self.jitter_ms

    @property
    def late_ms(self) -> float | None:
        """Milliseconds from the due time, or from ``ready_us``, to the firing or the decision that it is too late."""
        if self.what not in (What.FIRED, What.EXPIRED) or self.due_ms is None:
            return None
        return (self.at_us - max(self.due_ms * 1000, self.ready_us)) / 1000  # whole numbers: exact to the µs

    @property
    def named_run(self) -> Run | None:
        """Its run, with the name that the schedule had then."""
        return self.run and self.run._replace(name=(self.facets or NO_FACETS).name)

    def to_dict(self) -> dict[str, Any]:
        """Return the change for JSON, without defaults and tracebacks; ``of_dict`` is the inverse."""
        given = {each.name: getattr(self, each.name) for each in fields(Change)}
        shown = {name: value for name, value in given.items() if value != _DEFAULTS.get(name)}
        if self.run is not None:
            attempts = without_tracebacks(self.run.attempts)
            run = self.run._replace(attempts=attempts) if self.run.attempts else self.run
            shown["run"] = run.id, run.status.value, facts_of(run)
        return shown | {"what": self.what.value}

    def shown(self) -> dict[str, Any]:
        """Return the change for JSON that people read, by ``json_of``. Every key is always present and stable."""
        times = "nominal_at", "due_at", "late_s", "next_at", "first_at", "last_at"
        names = "id", "what", "at", "entry", "run_id", *times, "count", "why", "by", "changed"
        return json_of(self, *names, at=iso(self.at_us // 1000), entry=self.entry)

    def shown_occurrence(self) -> dict[str, Any]:
        """Return the same with its run and facets; the keys are stable."""
        of_schedule = json_of(self.facets or NO_FACETS, "func", "queue", "tags", "owner", "name")
        return self.shown() | of_schedule | {"run": self.run and self.run.to_dict(), "cursor": self.cursor}

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Self:
        """Return the change that ``to_dict`` was called on. Raises KeyError, TypeError, ValueError."""
        return cls(**{name: _READERS[name](value) if name in _READERS else value for name, value in given.items()})


_DEFAULTS: Final = {each.name: each.default for each in fields(Change)}
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "what": What,
    "changed": tuple,
    "limited_by": lambda value: LimitedBy(*value),
    "run": lambda value: of_facts(*value),
    "facets": lambda value: Facets.of_texts(*value),
}


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
    def parse(cls, text: str) -> Self:
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
    def of_dict(cls, given: dict[str, Any]) -> Self:
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
