"""Changes: what happened to a schedule, for stories, listings and counts. ``core.log`` reads them from entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

from zsched.core.facets import NO_FACETS, Facets
from zsched.core.model import iso, json_of
from zsched.core.occurrences.outcomes import OF_RUNS, RESTORED_RUNS, What
from zsched.core.options.allowed import LimitedBy
from zsched.core.runs.attempts import without_tracebacks
from zsched.core.runs.run import Run, facts_of, of_facts

# Reasons for enqueuing that identify the kind of run.
BACKFILL: Final = "backfill"  # its occurrence had passed without a run
RUN_NOW: Final = "run now"

RUN_OVER: Final = "over"  # a run was withdrawn: it was in its queue again


@dataclass(frozen=True, slots=True)
class Change:
    """
    One change to one schedule, read from one entry.

    ``nominal_ms``: the nominal time of an occurrence, or the new next time of a schedule. ``next_ms``: the next time of
    a recurring schedule after it. ``first_ms`` to ``last_ms`` are *count* occurrences. ``why``: reason, note or mark.
    ``by``: who asked for it, as a client says; None: a daemon did it. ``changed``: the options that a put
    changed, as texts. ``record``: the facts of a run that is over, for ``runs.ended_run``.
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
        facets = self.facets or NO_FACETS
        of_schedule = {"func": facets.func or None, "queue": facets.queue or None, "tags": list(facets.tags)}
        of_schedule |= {"owner": facets.owner or None, "name": facets.name or None}
        return self.shown() | of_schedule | {"run": self.run and self.run.to_dict(), "cursor": self.cursor}

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Change:
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
