"""
Rows: what the entries of the log change in the state of a namespace, one shape for each change.

A kind of entry says what it did as rows (``kinds.ParsedEntry.rows``). An archive folds them into its state
(``archive.fold``), and knows neither kinds nor texts. What an entry touched follows from them too: a *key* is a
schedule, (id, ''), or a run, (id, what follows it in the run id). A one-shot that waits is touched under both.

Rows are not frozen, as an entry has up to 5,000 and a frozen value takes five times as long to make; nobody changes
them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from zsched.core.policy import Passed
from zsched.core.run_id import RunKey

Key = tuple[str, str]


class Touch(NamedTuple):
    """An entry changed what is at *key*; ``t_us`` of a restored row is that of the change that it repeats."""

    key: Key
    t_us: int
    is_restored: bool = False


@dataclass(slots=True)
class Row(ABC):
    """One change. ``t_us``: when it was done, of one that is repeated; None: when its entry was written."""

    t_us: int | None = field(default=None, kw_only=True)

    @abstractmethod
    def ids(self) -> Iterable[str]:
        """The schedules that it concerns."""

    @abstractmethod
    def keys(self) -> Iterator[Key]:
        """Yield the keys that it touches."""

    def touches(self, entry_us: int) -> Iterator[Touch]:
        """The same, each with its time; *entry_us* is that of the entry."""
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
    """A row of one schedule, and of the run that waits or waited there; ``run`` is '' where there is none."""

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
    One-shots wait; the record of each stands in the entry, in the row of its number. ``replaced`` and ``paused``: ids
    that were there; that stay paused.
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
    A schedule is at *place*, whatever was there before. Its record stands in the entry, in row *number*.
    ``keeps_note``: the note is the one that it had.
    """

    place: str
    due_ms: int | None
    nominal_ms: int | None = None
    last: str | None = None
    note: str | None = None
    keeps_note: bool = False
    number: int = 0


@dataclass(slots=True)
class Forgotten(OfOccurrence):
    """A schedule is no more. Its open runs stay."""

    run: str = ""


@dataclass(slots=True)
class Paused(OfSchedule):
    """A schedule is paused; *note* says why."""

    due_ms: int | None
    note: str


@dataclass(slots=True)
class Resumed(OfSchedule):
    """A schedule goes on. ``is_skipped``: what passed in the pause does not fire; *nominal_ms* is then the next."""

    due_ms: int | None
    nominal_ms: int | None
    is_skipped: bool


@dataclass(slots=True)
class Replanned(OfSchedule):
    """An occurrence that waits is at another time by the new rules of its zone."""

    nominal_ms: int
    new_nominal_ms: int
    new_due_ms: int


@dataclass(slots=True)
class Quarantined(OfSchedule):
    """A schedule cannot be planned or pushed. ``due_ms`` is None if its due time was no number."""

    lane: str
    due_ms: int | None
    reason: str


@dataclass(slots=True)
class Advanced(OfOccurrence):
    """
    One occurrence of a recurring schedule, its result, and the next one; see advance.lua, LOGS. ``nominal_ms`` is None
    and ``run`` '' where no occurrence fires.
    """

    word: str
    nominal_ms: int | None
    next_nominal_ms: int | None
    next_due_ms: int | None
    passed: tuple[Passed, ...]
    why: str
    jitter_ms: int = 0

    @property
    def is_pushed(self) -> bool:
        """True if a run went to its queue, or waits for the run before it."""
        return self.word in ("fired", "deferred", "uncertain")


# -- runs -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class OneShotsFired(OfOneShots):
    """One-shots that waited were pushed. ``uncertain``: those that a lost history may have pushed."""

    uncertain: Set[RunKey] = frozenset()


@dataclass(slots=True)
class OneShotsLeft(OfOneShots):
    """One-shots that waited are gone, and were not pushed."""


@dataclass(slots=True)
class RunPushed(Row):
    """A run was pushed whose record stands in the entry, in row *number*."""

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
    """Runs of a recurring schedule were pushed on request. ``is_last``: the schedule has that as its last run."""

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
    """Something is said of runs, or of schedules by their keys, and they are as they were."""
