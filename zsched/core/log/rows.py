"""
Rows: the changes of log entries to the state of a namespace, one shape for each change.

Each kind of entry gives its changes as rows (``kinds.ParsedEntry.rows``). An archive folds them into its state
(``archive.fold``), and needs neither kinds nor texts. The changed keys follow from the rows, too. A *key* is a
schedule, (id, ''), or a run, (id, rest of the run id). A waiting one-shot has both keys.

Rows are not frozen: an entry has up to 5,000, and a frozen value takes five times as long to make. No code changes
them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from zsched.core.occurrences.outcomes import Outcome, outcome_of
from zsched.core.occurrences.policy import Passed
from zsched.core.runs.run_id import RunKey

Key = tuple[str, str]


class Touch(NamedTuple):
    """A change of *key* by an entry; ``t_us`` of a restored row is the time of the change that it repeats."""

    key: Key
    t_us: int
    is_restored: bool = False


@dataclass(slots=True)
class Row(ABC):
    """One change. ``t_us``: the original time of a repeated change; None: the time of its entry."""

    t_us: int | None = field(default=None, kw_only=True)

    @abstractmethod
    def ids(self) -> Iterable[str]:
        """Return the schedules that it concerns."""

    @abstractmethod
    def keys(self) -> Iterator[Key]:
        """Yield the keys that it changes."""

    def touches(self, entry_us: int) -> Iterator[Touch]:
        """Yield the same, each with its time; *entry_us* is the time of the entry."""
        t_us, is_restored = (entry_us, False) if self.t_us is None else (self.t_us, True)
        for key in self.keys():
            yield Touch(key, t_us, is_restored)


@dataclass(slots=True)
class OfSchedule(Row):
    """A row of one schedule."""

    id: str

    def ids(self) -> Iterable[str]:
        return (self.id,)

    def keys(self) -> Iterator[Key]:
        yield self.id, ""


@dataclass(slots=True)
class OfOccurrence(OfSchedule):
    """A row of one schedule, and of the run that waits or waited there (``run``, or '')."""

    run: str

    def keys(self) -> Iterator[Key]:
        yield self.id, ""
        if self.run:
            yield self.id, self.run


@dataclass(slots=True)
class OfRuns(Row):
    """A row of many runs."""

    at: Sequence[RunKey]

    def ids(self) -> Iterable[str]:
        return [id for id, _ in self.at]

    def keys(self) -> Iterator[Key]:
        yield from self.at


@dataclass(slots=True)
class OfOneShots(OfRuns):
    """A row of many one-shots."""

    def keys(self) -> Iterator[Key]:
        for id, run in self.at:
            yield id, ""
            yield id, run


# -- schedules ------------------------------------------------------------------------------------


@dataclass(slots=True)
class OneShotsPut(Row):
    """
    One-shots wait. The entry has the record of each, in the row of its number. ``replaced``: ids that existed.
    ``paused``: ids that are paused.
    """

    at: Sequence[str]
    dues: Sequence[int]
    run_suffix: str
    replaced: Set[str]
    paused: Set[str]

    def ids(self) -> Iterable[str]:
        return self.at

    def keys(self) -> Iterator[Key]:
        for id, due_ms in zip(self.at, self.dues, strict=True):
            yield id, ""
            yield id, f"{due_ms}{self.run_suffix}"


@dataclass(slots=True)
class Placed(OfOccurrence):
    """
    A schedule is at *place*, and replaces an earlier one. The entry has its record, in row *number*. ``keeps_note``: it
    keeps its note.
    """

    place: str
    due_ms: int | None
    nominal_ms: int | None = None
    last: str | None = None
    note: str | None = None
    keeps_note: bool = False
    number: int = 0
    state: str = ""


@dataclass(slots=True)
class Forgotten(OfOccurrence):
    """A schedule is deleted. Its open runs stay."""

    run: str = ""


@dataclass(slots=True)
class Paused(OfSchedule):
    """A schedule is paused; *note* has the reason."""

    due_ms: int | None
    note: str


@dataclass(slots=True)
class Resumed(OfSchedule):
    """A schedule is resumed. ``is_skipped``: occurrences in the pause do not fire, and *nominal_ms* is the next."""

    due_ms: int | None
    nominal_ms: int | None
    is_skipped: bool


@dataclass(slots=True)
class Replanned(OfSchedule):
    """A waiting occurrence has another time by the new rules of its zone."""

    nominal_ms: int
    new_nominal_ms: int
    new_due_ms: int


@dataclass(slots=True)
class Counted(Row):
    """
    A schedule has another state. It is a mere count: no story tells it, and no history wins by it over another one. So
    the row concerns nothing.
    """

    id: str
    state: str

    def ids(self) -> Iterable[str]:
        return ()

    def keys(self) -> Iterator[Key]:
        return iter(())


@dataclass(slots=True)
class Quarantined(OfSchedule):
    """A schedule cannot be planned or pushed. ``due_ms`` is None if its due time was not a number."""

    lane: str
    due_ms: int | None
    reason: str


@dataclass(slots=True)
class Advanced(OfOccurrence):
    """
    One occurrence of a recurring schedule, its result, and the next one; see advance.lua, LOGS. ``nominal_ms`` is None
    and ``run`` '' if no occurrence fires.
    """

    word: str
    nominal_ms: int | None
    next_nominal_ms: int | None
    next_due_ms: int | None
    passed: tuple[Passed, ...]
    why: str
    jitter_ms: int = 0

    @property
    def outcome(self) -> Outcome:
        """Its result."""
        return outcome_of(self.word)


# -- runs -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class OneShotsFired(OfOneShots):
    """Waiting one-shots were pushed. ``uncertain``: runs that a lost history may have pushed already."""

    uncertain: Set[RunKey] = frozenset()


@dataclass(slots=True)
class OneShotsLeft(OfOneShots):
    """Waiting one-shots are gone, and were not pushed."""


@dataclass(slots=True)
class RunPushed(Row):
    """A run was pushed. The entry has its record, in row *number*."""

    id: str
    run: str
    due_ms: int | None
    note: str | None = None
    number: int = 0

    def ids(self) -> Iterable[str]:
        return (self.id,)

    def keys(self) -> Iterator[Key]:
        yield self.id, self.run


@dataclass(slots=True)
class PushedByRule(OfSchedule):
    """Runs of a recurring schedule were pushed on request. ``is_last``: it is the schedule's last run."""

    runs: Sequence[str]
    is_last: bool

    def keys(self) -> Iterator[Key]:
        if self.is_last:
            yield self.id, ""
        for run in self.runs:
            yield self.id, run


@dataclass(slots=True)
class RunsOver(OfRuns):
    """Runs are over."""


@dataclass(slots=True)
class Mentioned(OfRuns):
    """The entry names runs, or schedules by their keys, without a change of their state."""
