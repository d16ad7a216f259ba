"""
Kinds of log entries: the questions that every reader may ask an entry, and one class per kind that answers them.

A kind is one subclass of ``ParsedEntry`` and nothing else: its name registers it, and it answers all questions. Which
schedules and runs did it touch, and what is the state then (``rows``)? What happened (``changes``)? What does a counter
add (``counts``)? Which records does it carry, and where do their arguments stand (``record_of``, ``owners``,
``payloads``)? A reader asks and compares no kinds; a kind that is new needs no new reader.

An entry is parsed when the first question needs it, and once. Errors of that are converted by ``reading``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, overload

from zsched.core.changes import Change, What
from zsched.core.entry import Entry, Texts, UnknownEntry, reading, rows_of, text
from zsched.core.log.rows import Key, Row, Touch
from zsched.core.run_id import ID, RunKey, nominal_ms_of, run_id_of, run_key, usual_keys
from zsched.core.runs import Run, RunStatus

OWN: Final = "schedule:"  # before the names of a recurring schedule's own fields in a record

T = TypeVar("T")
Given = tuple[str, Texts]  # lane, '' where there is none (an enqueued run); the record of ``core.difference.Held``


class once(Generic[T]):
    """
    Decorator of a method without arguments: a property that is computed once for each instance, where the value then
    stands under the method's name.

    ``functools.cached_property`` does the same, and takes a lock before Python 3.12: 0.7 µs each, which an archive pays
    for every entry of the log.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Note the method's name."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> T | Self:
        """Compute the value, and put it into the instance, where Python finds it the next time."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


@dataclass(frozen=True, slots=True)
class Counts:
    """
    Numbers that a counter adds for an entry. ``happened``: how often what happened, and why where that is counted
    apart: (FIRED, uncertain), (SKIPPED, missed). ``due_ms``: when that was due which it fired.
    """

    happened: Counter[tuple[What, str]] = field(default_factory=Counter)
    due_ms: Sequence[int] = ()


class ParsedEntry:
    """An entry of a kind, with the answers of a kind that concerns no schedule."""

    kind: ClassVar[str] = ""
    whats: ClassVar[frozenset[What]] = frozenset()  # all that ``changes`` may tell
    is_leaders: ClassVar[bool] = False  # no one but a leader writes it
    is_logged: ClassVar[bool] = True  # it stands in the log, and not in archives alone
    has_records: ClassVar[bool] = False

    def __init__(self, entry: Entry, run_suffix: str = "") -> None:
        """*run_suffix* is the namespace's part of run ids."""
        self.entry, self.run_suffix = entry, run_suffix
        self.at_us = entry.position.t_us
        self.dropped: list[str] = []  # malformed ids that were left out; nobody but another writer makes one

    def __init_subclass__(cls, *, kind: str) -> None:
        """Register the class as that of *kind*."""
        if kind in KINDS:
            raise TypeError(f"two classes for log entries of the kind {kind!r}")
        cls.kind = kind
        KINDS[kind] = cls

    @classmethod
    def of(cls, entry: Entry) -> Self | None:
        """*entry*, if it is of this kind; else None."""
        return cls(entry) if entry.kind == cls.kind else None

    # -- questions --------------------------------------------------------------------------------

    def rows(self) -> Iterable[Row]:
        """Yield the changes to the state, in order."""
        return ()

    def changes(self) -> Iterator[Change]:
        """Yield the changes that people are told of, schedule by schedule."""
        return iter(())

    def outcomes(self) -> Iterator[Change]:
        """``changes`` without schedules that were put back: a recovery writes one for each."""
        return self.changes()

    def sentence(self) -> str:
        """Say what happened, in an entry that concerns no schedule."""
        return "nothing of any schedule"

    def counts(self) -> Counts:
        """Count what happened. A kind whose entries carry thousands counts without a ``Change`` for each."""
        found = Counts(due_ms=(due_ms := list[int]()))
        for change in self.outcomes():
            found.happened[change.what, change.why if change.what is What.SKIPPED else ""] += change.count
            if change.what is What.FIRED and change.due_ms is not None:
                due_ms.append(change.due_ms)
        return found

    def ended_runs(self) -> Iterable[Run]:
        """The runs that it says are over."""
        return ()

    def end_statuses(self) -> Mapping[RunStatus, int]:
        """Count the runs that it says ended, by status."""
        return {}

    def only_ends(self, statuses: Collection[RunStatus]) -> Entry | None:
        """The entry with the ends of runs alone that ended in one of *statuses*, None without any; quick."""
        return None

    def narrowed(self, id: str) -> Entry:
        """The entry with what it says of schedule *id*, at least; quick."""
        return self.entry

    @property
    def is_by_rule(self) -> bool:
        """True if the run that it pushed is of a recurring schedule, and has that one's record."""
        return False

    # -- records ----------------------------------------------------------------------------------

    def record_of(self, number: int) -> Given:
        """Lane and record in row *number*. Raises UnknownEntry."""
        raise UnknownEntry(f"entry {self.entry.position.id} ({self.entry.kind}) holds no record")

    def owners(self) -> Sequence[Key]:
        """Keys of the schedules or runs whose records stand in the rows."""
        return ()

    def payloads(self) -> Mapping[int, int]:
        """Return the place in the body of each row's arguments; a row that another writer broke may have none."""
        return {}

    # -- for subclasses ---------------------------------------------------------------------------

    @once
    def fields(self) -> dict[bytes, bytes]:
        """The entry's fields before its rows."""
        return self.entry.fields()

    def _field(self, name: bytes) -> str:
        return text(self.fields[name])

    def _shown(self, name: bytes) -> str:
        """A field for people to read, whatever the form of the entry."""
        body = self.entry.body
        return text(dict(zip(body[::2], body[1::2], strict=False)).get(name, b"?"))

    def _stored(self) -> Iterator[tuple[str, str, str]]:
        """Id, words and text of each row, as they stand."""
        for id, words, other in rows_of(self.entry.body):
            yield text(id), text(words), text(other)

    @once
    def run_rows(self) -> list[tuple[RunKey, str, str]]:
        """Key, words and text of each row, in an entry with rows of runs; malformed run ids are dropped."""
        keyed = ((self._key(run_id), words, other) for run_id, words, other in self._stored())
        return [(key, words, other) for key, words, other in keyed if key is not None]

    def _change(self, id: str, what: What, **more: Any) -> Change:
        return Change(id, what, self.at_us, self.entry.position.id, **more)

    def _change_of(self, key: RunKey, what: What, why: str = "", **more: Any) -> Change:
        """A change that is told of the run at *key*."""
        id, run = key
        return self._change(id, what, run_id=run_id_of(id, run), nominal_ms=nominal_ms_of(run), why=why, **more)

    def _key(self, run_id: str) -> RunKey | None:
        """The key of *run_id*; None, and it is dropped, when it is malformed."""
        key = run_key(run_id)
        if key is None:
            self.dropped.append(run_id)
        return key

    def _keys(self, name: bytes) -> list[RunKey]:
        """The keys of the run ids that stand in a field by spaces, but for malformed ones, which are dropped."""
        value = self.fields.get(name)
        if not value:
            return []
        run_ids = text(value)
        if (usual := usual_keys(run_ids)) is not None:
            return usual
        return [key for run_id in run_ids.split() if (key := self._key(run_id)) is not None]

    def _is_id(self, id: str) -> bool:
        is_one = ID.fullmatch(id) is not None
        if not is_one:
            self.dropped.append(id)
        return is_one

    def _payloads_in(self, spans: Iterable[tuple[int, int]]) -> dict[int, int]:
        """Find the value of ``data`` in each of *spans*, first and last place of pairs in the body."""
        body = self.entry.body
        return {
            row: at + 1
            for row, (first, last) in enumerate(spans)
            for at in range(first, last, 2)
            if body[at] == b"data"
        }


KINDS: Final[dict[str, type[ParsedEntry]]] = {}  # by name; ``zsched.core.log`` imports the modules of all of them


def parse(entry: Entry, run_suffix: str = "") -> ParsedEntry:
    """*entry* as its kind reads it. Raises UnknownEntry for a kind that this version does not know."""
    kind = KINDS.get(entry.kind)
    if kind is None or not (kind.is_logged or entry.position.seq == 0):
        raise UnknownEntry(f"log entry {entry.position.id} is of the unknown kind {entry.kind!r}")
    return kind(entry, run_suffix)


def kinds_telling(*whats: What) -> list[str]:
    """The kinds whose entries may tell of one of *whats*."""
    return [name for name, kind in KINDS.items() if not kind.whats.isdisjoint(whats)]


def kinds_telling_only(whats: frozenset[What]) -> list[str]:
    """The kinds whose entries tell of some of *whats* and of nothing else."""
    return [name for name, kind in KINDS.items() if kind.whats and kind.whats <= whats]


def kinds_with_records() -> list[str]:
    """The kinds whose entries carry records."""
    return [name for name, kind in KINDS.items() if kind.has_records]


def is_leaders(entry: Entry) -> bool:
    """Return True if no one but a leader writes entries of that kind."""
    kind = KINDS.get(entry.kind)
    return kind is not None and kind.is_leaders


def leaders_kinds() -> list[str]:
    """
    The kinds that a leader alone writes. Not ``end`` and ``pause``, which clients write too, nor what a recovery does.
    """
    return [name for name, kind in KINDS.items() if kind.is_leaders]


def changes(entry: Entry, run_suffix: str = "") -> Iterator[Change]:
    """
    Yield the changes that *entry* tells, schedule by schedule; none for kinds that concern no schedule.

    Raises:
        UnknownEntry: its kind or form is not known here.
    """
    parsed = parse(entry, run_suffix)
    with reading(entry):
        yield from parsed.changes()


def outcomes(entry: Entry, run_suffix: str = "") -> Iterator[Change]:
    """The same without schedules that were put back. Raises as ``changes``."""
    parsed = parse(entry, run_suffix)
    with reading(entry):
        yield from parsed.outcomes()


def narrowed(entry: Entry, id: str) -> Entry:
    """*entry* with what it says of schedule *id*, at least; quick, also of one that tells of thousands."""
    kind = KINDS.get(entry.kind)
    return entry if kind is None else kind(entry).narrowed(id)


def touches(entry: Entry, run_suffix: str) -> Iterator[Touch]:
    """Yield the schedules and runs that *entry* changed. Raises as ``changes``."""
    parsed = parse(entry, run_suffix)
    with reading(entry):
        for row in parsed.rows():
            yield from row.touches(entry.position.t_us)
