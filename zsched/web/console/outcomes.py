"""Marks of occurrences, each with a shape of its own and not only a colour; and the strip of a schedule's last ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import PUSHES
from zsched.core.runs.run import BAD, RunStatus
from zsched.core.story.sentences import reason_text
from zsched.core.wording import rough_duration

STRIP: Final = 20  # occurrences
LATE_MS: Final = 1000.0  # a firing is shown as late from here on


class Mark(StrEnum):
    """The shape of an occurrence on the timeline and in a strip: its word, and what it ``means``."""

    means: str

    SUCCEEDED = "succeeded", "ran"  # filled
    LATE = "late", "ran late"  # filled, darker: it fired a second or more after its time
    OPEN = "open", "queued or running"  # a ring with a point
    BAD = "failed", "failed, lost or expired"  # filled, with a cross in it
    LEFT_OUT = "left-out", "did not run"  # a cross
    EXPECTED = "expected", "to come"  # hollow

    def __new__(cls, word: str, means: str) -> Mark:
        """Make a member."""
        mark = str.__new__(cls, word)
        mark._value_, mark.means = word, means
        return mark


def mark_of(one: Change) -> Mark:
    """Return the mark of an occurrence with an outcome."""
    if one.what not in PUSHES:
        return Mark.LEFT_OUT
    run = one.run
    if run is not None and (run.status in BAD or run.status in (RunStatus.EXPIRED, RunStatus.CANCELLED)):
        return Mark.BAD
    if run is not None and run.status in (RunStatus.QUEUED, RunStatus.RUNNING):
        return Mark.OPEN
    return Mark.LATE if (one.late_ms or 0.0) >= LATE_MS else Mark.SUCCEEDED


def words_of(one: Change) -> str:
    """Return what became of an occurrence, and why: ``skipped: the run before was not over``."""
    parts = [one.what.value if one.run is None or one.what not in PUSHES else one.run.status.value]
    if one.count > 1:
        parts[0] = f"{one.count:,} {parts[0]}"
    if one.late_ms is not None and one.late_ms >= LATE_MS:
        parts.append(f"{rough_duration(one.late_ms)} late")
    why = one.run.error if one.run is not None and one.run.error else reason_text(one)
    text = ", ".join(parts)
    return f"{text}: {why}" if why and why != parts[0] else text


@dataclass(frozen=True, slots=True)
class Strip:
    """The last occurrences of a schedule, the oldest first: a mark each, and the lateness of the last firing."""

    marks: list[tuple[Mark, Change, str]]

    @classmethod
    def of(cls, newest_first: list[Change]) -> Strip:
        """Return the strip of some occurrences."""
        return cls([(mark_of(one), one, words_of(one)) for one in reversed(newest_first)])

    @property
    def late_ms(self) -> float | None:
        """The lateness of the last firing."""
        return next((max(one.late_ms, 0.0) for _, one, _ in reversed(self.marks) if one.late_ms is not None), None)

    @property
    def summary(self) -> str:
        """``18 ran, 2 did not run``: for those who do not see it."""
        counts = [(sum(max(one.count, 1) for each, one, _ in self.marks if each is mark), mark.means) for mark in Mark]
        return ", ".join(f"{number} {means}" for number, means in counts if number) or "no occurrence yet"
