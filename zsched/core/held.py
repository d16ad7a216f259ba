"""One schedule or run as Redis holds it, or should: read by a bootstrap, known to an archive."""

from __future__ import annotations

from dataclasses import dataclass

from zsched.core.log import Texts, text
from zsched.core.log.kinds import OWN

# What changes as a run or schedule goes its way; it says nothing of what was asked for.
_OF_RUN = frozenset(
    "status created_at enqueued_at started_at ended_at last_heartbeat worker_name dependency_id dependency_ids".split()
    + "allow_dependency_failures enqueue_at_front zs_uncertain zs_deadline zs_stop".split()
)
_MOVING = frozenset(name.encode() for name in _OF_RUN)
_OF_SCHEDULE = frozenset("version created_at updated_at nominal last ended_at failures".split())


@dataclass(frozen=True, slots=True)
class Held:
    """
    A schedule as Redis holds it, or a run that is not over: ``run`` is what follows the id in its run id, '' for a
    recurring schedule; ``place`` is due, paused, quarantine, ended or open. ``record``: field and value texts, those
    of a recurring schedule's own hash after ``schedule:``.
    """

    id: str
    run: str
    place: str
    lane: str
    due_ms: int | None
    nominal_ms: int | None
    last: str | None
    note: str | None
    record: Texts

    def split(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """The record's fields: those of the job or template, and a recurring schedule's own."""
        pairs = {text(name): value for name, value in zip(self.record[::2], self.record[1::2], strict=True)}
        own = {name.removeprefix(OWN): value for name, value in pairs.items() if name.startswith(OWN)}
        return {name: value for name, value in pairs.items() if not name.startswith(OWN)}, own

    def asked_for(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """``split`` without what changes as time goes by."""
        job, own = self.split()
        return (
            {name: value for name, value in job.items() if name not in _OF_RUN},
            {name: value for name, value in own.items() if name not in _OF_SCHEDULE},
        )

    def job_asked_for(self) -> Texts:
        """The same of a one-shot or a run of it, as texts; quick where nothing changed."""
        if _MOVING.isdisjoint(self.record[::2]):
            return self.record
        pairs = zip(self.record[::2], self.record[1::2], strict=True)
        return [each for name, value in pairs if name not in _MOVING for each in (name, value)]

    def is_same(self, other: Held) -> bool:
        """Return True if both say the same of a schedule: its place, its due time, and what was asked for."""
        mine = self.run, self.place, self.due_ms, self.nominal_ms, self.last, self.note
        theirs = other.run, other.place, other.due_ms, other.nominal_ms, other.last, other.note
        return mine == theirs and self.lane == other.lane and self.asked_for() == other.asked_for()
