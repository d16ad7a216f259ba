"""
Counts of the past, as an archive keeps them: what became of occurrences, by spans of time, and by rows of a timeline.

A row is a recurring schedule, or the one-shots of a function; or a queue, a tag, or a function. One-shots have no ids
and no tags here: a row for each would be the history once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, Self

from zsched.core.facets import NO_FACETS, Facets, question_number, question_text
from zsched.core.model import Schedule
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import LEFT_OUT, OUTCOMES, What
from zsched.core.runs.run import BAD, RunStatus

MINUTE_MS: Final = 60_000
LATE: Final = "late"  # it fired a second or more after its due time: also counted as fired
COUNTED_LATE_MS: Final = 1000
FAILED: Final = "failed"  # a run ended badly
_BAD: Final = {status.value for status in (*BAD, RunStatus.EXPIRED)}
_WITH_REASON: Final = (*LEFT_OUT, What.EXCLUDED, What.UNKNOWN)
_LONGEST: Final = 60  # characters of a reason


# In an answer: the place of a span, a word and its number; and a row: its name, if it is of one-shots, and its counts.
CountedCell = tuple[int, str, int]
CountedRow = tuple[str, bool, Sequence[CountedCell]]


class RowsBy(Enum):
    """Subject of a row of a timeline."""

    SCHEDULE = "schedule"
    QUEUE = "queue"
    TAG = "tag"
    FUNCTION = "function"

    def names(self, id: str, of: Facets | Schedule) -> Sequence[str]:
        """Return the names of the rows of a schedule."""
        return {RowsBy.SCHEDULE: [id], RowsBy.QUEUE: [of.queue], RowsBy.TAG: of.tags, RowsBy.FUNCTION: [of.func]}[self]


def counted_word(change: Change) -> str:
    """Return the word under which *change* is counted, with its reason if it has one: ``skipped missed``; else ''."""
    if change.what is What.RUN_ENDED:
        return FAILED if change.why in _BAD else ""
    if change.what not in OUTCOMES:
        return ""
    if change.what is What.FIRED and (change.late_ms or 0.0) >= COUNTED_LATE_MS:
        return LATE
    reason = change.why.partition(":")[0][:_LONGEST] if change.what in _WITH_REASON else ""
    return f"{change.what.value} {reason}".rstrip()


class Series(NamedTuple):
    """Changes that are counted together: those with a *word* of a recurring schedule *id*, or of one-shots ('')."""

    id: str
    facets: Facets
    word: str

    @classmethod
    def of(cls, id: str, facets: Facets, word: str) -> Self:
        """Return the series of a change of schedule *id*."""
        if facets.is_rule:
            return cls(id, facets, word)
        return cls("", Facets(facets.func, facets.queue, facets.owner), word)

    def rows(self, by: RowsBy) -> Sequence[str]:
        """Return the names of the rows that it belongs to."""
        return by.names(self.id or self.facets.func, self.facets)


@dataclass(frozen=True, slots=True)
class WantedCounts:
    """
    Counts of *number* spans of *step* minutes from minute *start* on, for which the conditions hold; and the first
    *most* rows *by* something, by failures and then by occurrences; no rows without *by*.
    """

    start: int
    step: int
    number: int
    facets: Facets = NO_FACETS
    match: str | None = None
    by: RowsBy | None = None
    most: int = 0

    def has(self, series: Series) -> bool:
        """Return True if *series* is wanted. One-shots have no ids, so a *match* excludes them."""
        is_matching = self.match is None or (series.id != "" and fnmatchcase(series.id, self.match))
        return is_matching and series.facets.has(self.facets)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON; ``of_dict`` is the inverse."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return given | {"by": None if self.by is None else self.by.value, "facets": list(self.facets)}

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Self:
        """Return it from its ``to_dict``. Raises KeyError, TypeError, ValueError."""
        start, step, number, most = (question_number(given[name]) for name in ("start", "step", "number", "most"))
        by, match = (given["by"] and RowsBy(given["by"])), given["match"]
        facets = Facets.of_texts(*given["facets"])
        return cls(start, step, number, facets, None if match is None else question_text(match), by, most)
