"""Changes: what happened to a schedule, for stories, listings and counts. ``core.log`` reads them from entries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Final

from zsched.core.model import iso


class What(Enum):
    """A kind of change to a schedule."""

    PUT = "put"  # created, or changed when it was there
    FOUND = "found"  # an archive began here and read it from Redis
    PAUSED = "paused"
    RESUMED = "resumed"
    REPLANNED = "replanned"  # the rules of its zone changed: what waits is at another time
    FIRED = "fired"  # a run was pushed to its queue at its time
    ENQUEUED = "enqueued"  # a run was pushed because somebody asked for it
    SKIPPED = "skipped"  # an occurrence was not pushed: overlap, paused, uncertain, missed, limit
    EXPIRED = "expired"  # an occurrence was not pushed: later than its deadline
    COALESCED = "coalesced"  # occurrences were left out in favour of a later one
    DUPLICATE = "duplicate"  # its run was there already: not pushed again
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"  # it cannot be planned or pushed; the reason is recorded
    ENDED = "ended"  # its rule gives no more occurrences
    RUN_ENDED = "run_ended"  # a run is over: why is its status, record the rest
    RUN_AGAIN = "run_again"  # a run's worker died: it is in its queue again
    RELEASED = "released"  # a run that waited for others is in its queue, as RQ would never put it there
    RESTORED = "restored"  # Redis had lost it, and holds it again
    PUSHED_AGAIN = "pushed_again"  # Redis had lost a run that was not over: it is in its queue again
    HELD = "held"  # Redis had lost a run that was not over, and RQ has it by a worker's hand: not pushed again
    WITHDRAWN = "withdrawn"  # a Redis that went back held it again: taken out, as it was over


# What can become of an occurrence or of a run that was asked for.
OUTCOMES: Final = (
    What.FIRED, What.ENQUEUED, What.SKIPPED, What.EXPIRED, What.COALESCED, What.DUPLICATE, What.CANCELLED,
    What.QUARANTINED, What.PUSHED_AGAIN, What.HELD, What.WITHDRAWN,
)  # fmt: skip
OF_RUNS: Final = frozenset({What.RUN_ENDED, What.RUN_AGAIN, What.RELEASED})  # a schedule goes on as it was
PUSHES: Final = frozenset({What.FIRED, What.ENQUEUED, What.PUSHED_AGAIN, What.HELD})
RAN: Final = PUSHES | {What.FOUND}  # what may say that a run was pushed


# Why a run was enqueued, where that tells what it is.
BACKFILL: Final = "backfill"  # its occurrence had passed without one
RUN_NOW: Final = "run now"
RETRY_OF: Final = "retry of "  # the run whose id follows

WAITS_FOR: Final = "waits for "  # why a run that fired is not in its queue: the one whose id follows is not over


@dataclass(frozen=True, slots=True)
class Change:
    """
    One change to one schedule, told by one entry.

    ``nominal_ms`` is the time that an occurrence had, or that a schedule has from now on; ``next_ms`` what
    comes after a recurring one's. ``first_ms`` to ``last_ms`` are *count* occurrences. ``why``: reason, note or
    mark; ``by``: who is written down as having put it; ``record``: of a run that is over, as ``runs.ended_run`` reads
    it; ``jitter_ms``: how much later than its nominal time an occurrence was due.
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

    @property
    def due_ms(self) -> int | None:
        """The due time of its occurrence: ``jitter_ms`` after its nominal time."""
        return None if self.nominal_ms is None else self.nominal_ms + self.jitter_ms

    @property
    def late_ms(self) -> float | None:
        """Milliseconds from the due time until it was fired, or found to be too late."""
        if self.what not in (What.FIRED, What.EXPIRED) or self.due_ms is None:
            return None
        return (self.at_us - self.due_ms * 1000) / 1000  # of whole numbers: exact to the µs

    def to_dict(self) -> dict[str, Any]:
        """Return the change for JSON; ``of_dict`` is the inverse."""
        told = {name: value for name, value in asdict(self).items() if value not in (None, "")}
        if not self.jitter_ms:
            del told["jitter_ms"]
        return told | {"what": self.what.value}

    def shown(self) -> dict[str, Any]:
        """
        Return the change for JSON that people read: instants by ``iso``, every key always; the keys are a promise.
        """
        late_ms = self.late_ms
        return {
            "id": self.id,
            "what": self.what.value,
            "at": iso(self.at_us // 1000),
            "entry": self.entry,
            "run_id": self.run_id,
            "nominal_at": iso(self.nominal_ms),
            "due_at": iso(self.due_ms),
            "late_ms": None if late_ms is None else round(late_ms, 3),
            "next_at": iso(self.next_ms),
            "first_at": iso(self.first_ms),
            "last_at": iso(self.last_ms),
            "count": self.count,
            "why": self.why or None,
            "by": self.by,
        }

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Change:
        """The change that ``to_dict`` told."""
        return cls(**given | {"what": What(given["what"])})
