"""
Rows: the changes of log entries to the state of a namespace.

Each kind of entry gives its changes as rows (``kinds.ParsedEntry.rows``). An archive folds them into its state
(``archive.fold``), and needs neither kinds nor texts. The changed keys follow from the rows, too. A *key* is a
schedule, (id, ''), or a run, (id, rest of the run id). A waiting one-shot has both keys.

A new schedule or run is a ``Record``, also one that is gone or over. The classes here are later changes, and the many
one-shots of a put. Rows are not frozen: an entry has up to 5,000, and a frozen value takes five times as long to make.
No code changes them but the archive's, which keeps the records.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from zsched.core.entry import Texts
from zsched.core.occurrences.outcomes import Outcome, outcome_of
from zsched.core.occurrences.policy import Passed
from zsched.core.record import Key, Place, Record
from zsched.core.runs.job import job_pairs
from zsched.core.runs.run_id import RunKey


class Row(Protocol):
    """One change."""

    def ids(self) -> Iterable[str]:
        """Return the schedules that it concerns."""

    def changed_keys(self) -> Iterator[Key]:
        """Yield the keys that it changes."""


@dataclass(slots=True)
class OfSchedule:
    """A row of one schedule."""

    id: str

    def ids(self) -> Iterable[str]:
        return (self.id,)

    def changed_keys(self) -> Iterator[Key]:
        yield self.id, ""


class OfNothing:
    """A row that concerns no schedule or run: no story tells it, and no history wins by it over another one."""

    __slots__ = ()

    def ids(self) -> Iterable[str]:
        return ()

    def changed_keys(self) -> Iterator[Key]:
        return iter(())


@dataclass(slots=True)
class OfRuns:
    """A row of many runs."""

    at: Sequence[RunKey]

    def ids(self) -> Iterable[str]:
        return [id for id, _ in self.at]

    def changed_keys(self) -> Iterator[Key]:
        yield from self.at


@dataclass(slots=True)
class OfOneShots(OfRuns):
    """A row of many one-shots."""

    def changed_keys(self) -> Iterator[Key]:
        for id, run in self.at:
            yield id, ""
            yield id, run


# -- schedules ------------------------------------------------------------------------------------


@dataclass(slots=True)
class OneShotsPut:
    """
    One-shots of a *shape* wait: in a put each is only a time, its data, and the name of that. ``replaced``: ids that
    existed. ``paused``: ids that are paused.
    """

    shape: Record
    at: Sequence[str]
    dues: Sequence[int]
    names: Texts
    datas: Texts
    run_suffix: str
    replaced: Set[str]
    paused: Set[str]

    def ids(self) -> Iterable[str]:
        return self.at

    def changed_keys(self) -> Iterator[Key]:
        for id, run in self.runs():
            yield id, ""
            yield id, run

    def runs(self) -> list[RunKey]:
        """Return the keys of their runs."""
        return [(id, f"{due_ms}{self.run_suffix}") for id, due_ms in zip(self.at, self.dues, strict=True)]

    def record_of(self, number: int) -> Record:
        """Return the record of one of them."""
        id, due_ms, shape = self.at[number], self.dues[number], self.shape
        place = Place.PAUSED if id in self.paused else Place.DUE
        job = job_pairs(self.names[number], self.datas[number])
        return Record(id, f"{due_ms}{self.run_suffix}", place, shape.lane, due_ms, job, t_us=shape.t_us, shape=shape)


@dataclass(slots=True)
class Paused(OfSchedule):
    """A schedule is paused; *note* has the reason."""

    due_ms: int | None
    note: str


@dataclass(slots=True)
class NamedTexts(OfNothing):
    """Calendars and known failures that were put or deleted: by name, t of the change and the text, as in Redis."""

    texts: dict[str, str]


@dataclass(slots=True)
class Skips(OfSchedule):
    """
    Occurrences of a schedule that are skipped by hand, or not any more: ``times``; then its next one, and its state.
    ``passed``: excluded ones up to that.
    """

    times: Sequence[int]
    is_taken_back: bool
    nominal_ms: int
    due_ms: int
    state: str
    passed: tuple[Passed, ...]


@dataclass(slots=True)
class Resumed(OfSchedule):
    """
    A schedule is resumed. ``due_ms`` is None if it ended. ``passed``: the occurrences until *nominal_ms*, the next, if
    those in the pause do not fire. ``author``: who paused it until then.
    """

    due_ms: int | None
    nominal_ms: int | None = None
    passed: tuple[Passed, ...] = ()
    author: str = ""


@dataclass(slots=True)
class Replanned(OfSchedule):
    """A waiting occurrence has another time by new rules of its zone or calendars. ``passed``: excluded ones."""

    nominal_ms: int
    new_nominal_ms: int
    new_due_ms: int
    passed: tuple[Passed, ...] = ()


@dataclass(slots=True)
class Counted(OfNothing):
    """A schedule has another state: a mere count."""

    id: str
    state: str


@dataclass(slots=True)
class Quarantined(OfSchedule):
    """A schedule cannot be planned or pushed. ``due_ms`` is None if its due time was not a number."""

    due_ms: int | None
    reason: str


@dataclass(slots=True)
class Advanced(OfSchedule):
    """
    One occurrence of a recurring schedule, its result, and the next one; see advance.lua, LOGS. ``nominal_ms`` is None
    and ``run`` '' if no occurrence fires.
    """

    run: str
    word: str
    nominal_ms: int | None
    next_nominal_ms: int | None
    next_due_ms: int | None
    passed: tuple[Passed, ...]
    why: str
    jitter_ms: int = 0

    def changed_keys(self) -> Iterator[Key]:
        yield self.id, ""
        if self.run:
            yield self.id, self.run

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
class PushedByRule(OfSchedule):
    """Runs of a recurring schedule were pushed on request. ``is_last``: it is the schedule's last run."""

    runs: Sequence[str]
    is_last: bool

    def changed_keys(self) -> Iterator[Key]:
        if self.is_last:
            yield self.id, ""
        for run in self.runs:
            yield self.id, run


@dataclass(slots=True)
class RunsOver(OfRuns):
    """Runs are over: ``ended`` has the status and the facts of each."""

    ended: Sequence[tuple[str, str]] = ()


@dataclass(slots=True)
class DeadlinesMissed(OfRuns):
    """The deadlines of occurrences passed, by the runs that they have or would have; no state is changed."""

    def changed_keys(self) -> Iterator[Key]:
        return iter(())


@dataclass(slots=True)
class Mentioned(OfRuns):
    """The entry names runs, or schedules by their keys, without a change of their state."""
