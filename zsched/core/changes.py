"""Changes: what happened to a schedule, for stories, listings and counts. ``core.log`` reads them from entries."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Final

from zsched.core.allowed import LimitedBy
from zsched.core.model import iso, seconds


class What(Enum):
    """A kind of change to a schedule."""

    PUT = "put"  # created, or changed when it was there
    FOUND = "found"  # a new archive read it from Redis
    PAUSED = "paused"
    RESUMED = "resumed"
    REPLANNED = "replanned"  # the rules of its zone changed: the waiting occurrence has another time
    FIRED = "fired"  # a run was pushed to its queue at its time
    ENQUEUED = "enqueued"  # a run was pushed on request
    RETRIED = "retried"  # a run that was over was pushed once more, as a new run: ``why`` is its id
    SKIPPED = "skipped"  # an occurrence was not pushed: overlap, paused, uncertain, missed, limit, rule_changed
    EXPIRED = "expired"  # an occurrence was not pushed: later than its deadline
    COALESCED = "coalesced"  # occurrences were left out in favour of a later one
    DUPLICATE = "duplicate"  # its run existed already: not pushed again
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"  # it cannot be planned or pushed; the reason is recorded
    ENDED = "ended"  # its rule gives no more occurrences
    RUN_ENDED = "run_ended"  # a run is over: ``why`` is its status, ``record`` the rest
    RUN_AGAIN = "run_again"  # a run's worker died: it is in its queue again
    STOPPING = "stopping"  # the worker of a run was asked to stop it
    RELEASED = "released"  # a run that waited for others was put into its queue, which RQ would not have done
    RESTORED = "restored"  # Redis had lost it, and holds it again
    PUSHED_AGAIN = "pushed_again"  # Redis had lost an open run: it is in its queue again
    HELD = "held"  # Redis had lost an open run, but RQ has it again from a worker: not pushed again
    RAN_AGAIN = "ran_again"  # Redis went back to a time before a run was over: a worker executed or has it once more
    WITHDRAWN = "withdrawn"  # Redis went back to an older state and held it again: taken out, as it was over


# Outcomes of an occurrence or of a requested run.
OUTCOMES: Final = (
    What.FIRED, What.ENQUEUED, What.RETRIED, What.SKIPPED, What.EXPIRED, What.COALESCED, What.DUPLICATE,
    What.CANCELLED, What.QUARANTINED, What.PUSHED_AGAIN, What.HELD, What.RAN_AGAIN, What.WITHDRAWN,
)  # fmt: skip
OF_RUNS: Final = frozenset({What.RUN_ENDED, What.RUN_AGAIN, What.STOPPING, What.RELEASED})  # the schedule is unchanged
RESTORED_RUNS: Final = frozenset({What.PUSHED_AGAIN, What.HELD, What.RAN_AGAIN})  # Redis lost something of a run
PUSHES: Final = frozenset({What.FIRED, What.ENQUEUED, What.RETRIED, *RESTORED_RUNS})
TOLD: Final = frozenset({*OUTCOMES, What.RUN_ENDED, What.FOUND})  # a search of the history finds some of them
RAN: Final = PUSHES | {What.FOUND}  # changes that may mean that a run was pushed


# Reasons for enqueuing that identify the kind of run.
BACKFILL: Final = "backfill"  # its occurrence had passed without a run
RUN_NOW: Final = "run now"

RUN_OVER: Final = "over"  # a run was withdrawn: it was in its queue again
RULE_CHANGED: Final = "rule_changed"  # an occurrence was skipped: it was overdue when its schedule got another rule
WAITS_FOR: Final = "waits for "  # a fired run is not in its queue: the run with the id that follows is not over


@dataclass(frozen=True, slots=True)
class Change:
    """
    One change to one schedule, read from one entry.

    ``nominal_ms``: the nominal time of an occurrence, or the new next time of a schedule. ``next_ms``: the next time of
    a recurring schedule after it. ``first_ms`` to ``last_ms`` are *count* occurrences. ``why``: reason, note or mark.
    ``by``: who asked for it, as a client says; None: a daemon did it. ``changed``: the options that a put
    changed, as texts. ``record``: the facts of a run that is over, for ``runs.ended_run``.
    ``jitter_ms``: the due time of an occurrence minus its nominal time. ``ready_us``: the entry after its due time that
    put, resumed or moved the schedule of a firing (``lateness.with_ready``); of that put, resume or move, its own time;
    0: there was none, or the reader did not look for it. ``limited_by``: of a put whose definition the reader knows.
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
    limited_by: LimitedBy | None = None

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

    def to_dict(self) -> dict[str, Any]:
        """Return the change for JSON; ``of_dict`` is the inverse."""
        given = {each.name: getattr(self, each.name) for each in fields(Change)}  # not those of an Occurrence
        shown = {name: value for name, value in given.items() if value not in (None, "", ())}
        for name in ("jitter_ms", "ready_us"):
            if not shown[name]:
                del shown[name]
        return shown | {"what": self.what.value}

    def shown(self) -> dict[str, Any]:
        """
        Return the change for JSON that people read: instants by ``iso``, durations in seconds. Every key is always
        present and stable.
        """
        return {
            "id": self.id,
            "what": self.what.value,
            "at": iso(self.at_us // 1000),
            "entry": self.entry,
            "run_id": self.run_id,
            "nominal_at": iso(self.nominal_ms),
            "due_at": iso(self.due_ms),
            "late_s": seconds(self.late_ms),
            "next_at": iso(self.next_ms),
            "first_at": iso(self.first_ms),
            "last_at": iso(self.last_ms),
            "count": self.count,
            "why": self.why or None,
            "by": self.by,
            "changed": list(self.changed),
        }

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Change:
        """Return the change that ``to_dict`` was called on."""
        limited_by = None if given.get("limited_by") is None else LimitedBy(*given["limited_by"])
        read = {"what": What(given["what"]), "changed": tuple(given.get("changed", ())), "limited_by": limited_by}
        return cls(**given | read)
