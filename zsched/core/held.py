"""What Redis holds of a schedule or run, as a bootstrap reads it and an archive keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from zsched.core.log import Texts


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
