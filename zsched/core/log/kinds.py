"""
Kinds of log entries: the questions that every reader may ask an entry, and one class per kind that answers them.

A kind is one subclass of ``ParsedEntry`` and nothing else: its name registers it, and it answers all questions. Which
schedules and runs did it change, and what is their new state (``rows``)? What happened (``changes``)? What does a
counter add (``counts``)? Which records does it have, and where are their arguments (``record_of``, ``owners``,
``payloads``)? Readers ask these questions and never compare kinds, so a new kind needs no change in readers.

An entry is parsed once, when the first question needs it. Questions are asked inside of a ``with`` block of it, which
converts the errors of a malformed entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar

from zsched.core.entry import Entry, UnknownEntry, UnreadableEntry, expect, rows_of, text
from zsched.core.facets import Facets, FacetsOfRows
from zsched.core.log.rows import Row
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import SEARCHED, Outcome, What, outcome_of
from zsched.core.occurrences.policy import Passed
from zsched.core.record import Key, Place, Record, RecordFields
from zsched.core.runs.run import Run, RunStatus
from zsched.core.runs.run_id import ID, RunKey, nominal_ms_of, run_id_of, run_key, usual_keys
from zsched.core.wording import truncated

T = TypeVar("T")
_MALFORMED: Final = (ValueError, KeyError, IndexError, TypeError)  # raised while a malformed entry is parsed
KINDS: Final[dict[str, type[ParsedEntry]]] = {}  # by name; ``zsched.core.log`` imports the modules of all of them


class once(cached_property[T]):
    """
    Decorator of a method without arguments: a property that is computed once per instance.

    It takes no lock, as ``cached_property`` does before Python 3.12: 0.7 µs each, for every log entry that an archive
    reads.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> T:  # type: ignore[override]  # never of the class
        """Compute the value, and store it in the instance, where Python finds it the next time."""
        instance.__dict__[self.attrname] = value = self.func(instance)
        return value


class LoggedPut(NamedTuple):
    """A schedule's record in an entry. ``replaces``: the entry is a put, and the schedule existed before."""

    entry: str
    record: Record
    replaces: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """
    Numbers that a counter adds for an entry. ``happened``: numbers of changes, with their reasons if these are counted
    separately: (FIRED, uncertain), (SKIPPED, missed). ``due_ms``: due times of fired occurrences.
    """

    happened: Counter[tuple[What, str]] = field(default_factory=Counter)
    due_ms: Sequence[int] = ()


class ParsedEntry:
    """An entry of a kind, with the answers of a kind that concerns no schedule."""

    kind: ClassVar[str]
    whats: ClassVar[frozenset[What]]  # all kinds of change in ``changes``
    is_leaders: ClassVar[bool]  # only leaders write it
    is_logged: ClassVar[bool] = True  # it is in the log, not only in archives
    has_records: ClassVar[bool] = False
    is_restored: ClassVar[bool] = False  # its rows repeat changes, each with the time of that change
    is_searched: ClassVar[bool] = False  # it may have changes that a search finds

    def __init__(self, entry: Entry, run_suffix: str = "") -> None:
        """*run_suffix* is the namespace's part of run ids."""
        self.entry, self.run_suffix = entry, run_suffix
        self.at_us = entry.position.t_us
        self.by = text(entry.by) if entry.by else None
        self.dropped: list[str] = []  # malformed ids, left out; only another writer makes them

    def __init_subclass__(cls, *, kind: str, whats: Collection[What] = (), is_leaders: bool = False) -> None:
        """Register the class for *kind*; "": it is a base of others."""
        if kind in KINDS:
            raise TypeError(f"two classes for log entries of the kind {kind!r}")
        cls.kind, cls.whats, cls.is_leaders = kind, frozenset(whats), is_leaders
        cls.is_searched = not cls.whats.isdisjoint(SEARCHED)
        if kind:
            KINDS[kind] = cls

    @classmethod
    def of(cls, entry: Entry) -> Self | None:
        """Parse *entry* if it is of this kind; else return None."""
        return cls(entry) if entry.kind == cls.kind else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Convert the error of a question to a malformed entry. Raises UnreadableEntry."""
        if error is not None and isinstance(error, _MALFORMED):
            which, reason = f"log entry {self.entry.position.id} ({self.entry.kind})", truncated(repr(error))
            raise UnreadableEntry(f"{which} cannot be read: {reason}") from error

    # -- questions --------------------------------------------------------------------------------

    def rows(self) -> Iterable[Row]:
        """Yield the changes to the state, in order."""
        return ()

    def touches(self) -> Iterator[tuple[Key, int]]:
        """Yield as the function of this name."""
        for row in self.rows():
            at_us = row.t_us if self.is_restored and isinstance(row, Record) else self.at_us
            for key in row.changed_keys():
                yield key, at_us

    def changes(self) -> Iterator[Change]:
        """Yield the changes that are shown to users, schedule by schedule."""
        return iter(())

    def outcomes(self) -> Iterator[Change]:
        """Yield ``changes`` without restored schedules, which may be very many."""
        return self.changes()

    def searched(self) -> Iterable[Change]:
        """
        Yield the changes that a search of the history finds: outcomes of occurrences, and ends of runs that did not
        succeed, each with its ``word``.
        """
        return self.outcomes()

    def only_fired(self) -> Sequence[RunKey] | None:
        """Return the keys of fired one-shots if the entry has no other changes; else None. Fast."""
        return None

    def sentence(self) -> str:
        """Return a sentence on an entry that concerns no schedule."""
        return "nothing of any schedule"

    def counts(self) -> Counts:
        """Count the changes. Kinds with thousands of rows count without a ``Change`` for each."""
        found = Counts(due_ms=(due_ms := list[int]()))
        for change in self.outcomes():
            found.happened[change.what, change.why if change.what is What.SKIPPED else ""] += change.count
            if change.what is What.FIRED and change.due_ms is not None:
                due_ms.append(change.due_ms)
        return found

    def fired(self) -> Iterable[tuple[str, int]]:
        """Yield id and due time of each occurrence that fired; those of ``Counts.due_ms``."""
        for change in self.outcomes():
            if change.what is What.FIRED and change.due_ms is not None:
                yield change.id, change.due_ms

    def made_due(self) -> Iterable[str]:
        """Return the schedules that may fire only since this entry, which is later than their due times. Fast."""
        return ()

    def ended_runs(self) -> Iterable[Run]:
        """Yield the runs that ended by this entry."""
        return ()

    def end_statuses(self) -> Mapping[RunStatus, int]:
        """Count the runs that ended by this entry, by status."""
        return {}

    def retries(self) -> Mapping[str, str]:
        """Return the runs that repeat others, by the run that they repeat."""
        return {}

    def ends_of_reruns(self) -> Mapping[str, RunStatus]:
        """Return the ends of extra runs of an occurrence, as retries are, by run. Fast."""
        return {}

    def only_ends(self, statuses: Collection[RunStatus]) -> Entry | None:
        """Return the entry with only the ends in one of *statuses* or of requeued runs; None without any. Fast."""
        return None

    def narrowed(self, id: str) -> Entry:
        """Return the entry with at least its rows of schedule *id*. Fast."""
        return self.entry

    @property
    def is_by_rule(self) -> bool:
        """True if its pushed run belongs to a recurring schedule, and has that schedule's record."""
        return False

    # -- records ----------------------------------------------------------------------------------

    def record_of(self, number: int) -> Record:
        """Return the record in row *number*. Raises UnknownEntry."""
        raise UnknownEntry(f"entry {self.entry.position.id} ({self.entry.kind}) holds no record")

    def fields_of_records(self) -> Sequence[RecordFields]:
        """Return the fields of all its records."""
        return ()

    def owners(self) -> Sequence[Key]:
        """Return the keys of the schedules or runs with records in the rows."""
        return ()

    def facets(self) -> FacetsOfRows:
        """Return the facets of its records. Those of a shape are read once: no row has others."""
        records, known = [self.record_of(number) for number in range(len(self.owners()))], dict[int, Facets]()
        for source in (record.shape or record for record in records):
            if id(source) not in known:
                known[id(source)] = Facets.of(source)
        return FacetsOfRows.of([known[id(record.shape or record)] for record in records])

    def logged_put(self, id: str) -> LoggedPut | None:
        """Return the record of schedule *id*, not of its runs."""
        for number, (owner, _) in enumerate(self.owners()):
            record = self.record_of(number) if owner == id else None
            if record is not None and record.is_schedule and record.place is not Place.GONE:
                return LoggedPut(self.entry.position.id, record, self.replaces(number))
        return None

    def replaces(self, number: int) -> bool:
        """Return True if row *number* is a put of a schedule that existed before."""
        return False

    def payloads(self) -> Mapping[int, int]:
        """Return the place in the body of each row's arguments; a row that another writer broke may be missing."""
        return {}

    # -- for subclasses ---------------------------------------------------------------------------

    @once
    def fields(self) -> dict[bytes, bytes]:
        """The entry's fields before its rows."""
        return self.entry.fields()

    def _field(self, name: bytes) -> str:
        return text(self.fields[name])

    def _shown(self, name: bytes) -> str:
        """Return a field for display, even of a malformed entry."""
        body = self.entry.body
        return text(dict(zip(body[::2], body[1::2], strict=False)).get(name, b"?"))

    def _stored(self) -> Iterator[tuple[str, str, str]]:
        """Yield id, words and text of each row, unparsed."""
        for id, words, other in rows_of(self.entry.body):
            yield text(id), text(words), text(other)

    @once
    def run_rows(self) -> list[tuple[RunKey, str, str]]:
        """Return key, words and text of each row of an entry of runs; malformed run ids are dropped."""
        keyed = ((self._key(run_id), words, other) for run_id, words, other in self._stored())
        return [(key, words, other) for key, words, other in keyed if key is not None]

    @once
    def runs(self) -> list[RunKey]:
        """Return the keys of the runs in the entry's field ``runs``."""
        expect(b"runs" in self.fields)
        return self._keys(b"runs")

    def _change(self, id: str, what: What, **more: Any) -> Change:
        return Change(id, what, self.at_us, self.entry.position.id, by=self.by, **more)

    def _change_of(self, key: RunKey, what: What, why: str = "", **more: Any) -> Change:
        """Return a change of the run at *key*."""
        id, run = key
        return self._change(id, what, run_id=run_id_of(id, run), nominal_ms=nominal_ms_of(run), why=why, **more)

    def _of_word(self, id: str, word: str, other: str, **more: Any) -> Iterator[Change]:
        """Yield the change, if any, of an outcome's *word*; an unknown word is its own reason."""
        outcome = outcome_of(word)
        if outcome.what is not None:
            why = word if outcome is Outcome.UNKNOWN else outcome.why(other)
            yield self._change(id, outcome.what, why=why, **more)

    def _passed(self, id: str, passed: Iterable[Passed], **more: Any) -> Iterator[Change]:
        """Yield the changes of occurrences that are only recorded."""
        for one in passed:
            times = {"first_ms": one.first_ms, "last_ms": one.last_ms, "count": one.number}
            yield from self._of_word(id, one.why, one.note, **more, **times)

    def _key(self, run_id: str) -> RunKey | None:
        """Return the key of *run_id*; a malformed id is dropped and gives None."""
        key = run_key(run_id)
        if key is None:
            self.dropped.append(run_id)
        return key

    def _keys(self, name: bytes) -> list[RunKey]:
        """Return the keys of the run ids in a field, separated by spaces; malformed ids are dropped."""
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


class RecordsEntry(ParsedEntry, kind=""):
    """An entry with a record in each row."""

    has_records = True
    found: once[list[tuple[int, Record]]]  # the records, each with the place in the body where its ``job`` begins

    def rows(self) -> Iterable[Record]:
        for number, (_, record) in enumerate(self.found):
            record.row = number
            yield record

    def record_of(self, number: int) -> Record:
        return self.found[number][1]

    def fields_of_records(self) -> Sequence[RecordFields]:
        return [(record.shape, record.job, record.own) for _, record in self.found]

    def owners(self) -> Sequence[Key]:
        return [record.key for _, record in self.found]

    def payloads(self) -> Mapping[int, int]:
        named = ((number, at, list(record.job[::2])) for number, (at, record) in enumerate(self.found))
        return {number: at + 2 * names.index(b"data") + 1 for number, at, names in named if b"data" in names}


def parse(entry: Entry, run_suffix: str = "") -> ParsedEntry:
    """Return *entry*, parsed by its kind. Raises UnknownEntry for a kind that this version does not know."""
    kind = KINDS.get(entry.kind)
    if kind is None or not (kind.is_logged or entry.position.seq == 0):
        raise UnknownEntry(f"log entry {entry.position.id} is of the unknown kind {entry.kind!r}")
    return kind(entry, run_suffix)


def kinds_telling(*whats: What) -> list[str]:
    """Return the kinds of entries that may have a change in *whats*."""
    return [name for name, kind in KINDS.items() if not kind.whats.isdisjoint(whats)]


def kinds_telling_only(whats: frozenset[What]) -> list[str]:
    """Return the kinds of entries that have changes, but only some in *whats*."""
    return [name for name, kind in KINDS.items() if kind.whats and kind.whats <= whats]


def is_leaders(entry: Entry) -> bool:
    """Return True if only leaders write entries of that kind."""
    kind = KINDS.get(entry.kind)
    return kind is not None and kind.is_leaders


def leaders_kinds() -> list[str]:
    """
    Return the kinds that only leaders write: not ``end`` and ``pause``, which clients write too, nor a recovery's.
    """
    return [name for name, kind in KINDS.items() if kind.is_leaders]


def changes(entry: Entry, run_suffix: str = "") -> Iterator[Change]:
    """
    Yield the changes in *entry*, schedule by schedule; none for kinds that concern no schedule.

    Raises:
        UnknownEntry: its kind or form is not known here.
    """
    with parse(entry, run_suffix) as parsed:
        yield from parsed.changes()


def narrowed(entry: Entry, id: str) -> Entry:
    """Return *entry* with at least its rows of schedule *id*. Fast, also for an entry with thousands of rows."""
    kind = KINDS.get(entry.kind)
    return entry if kind is None else kind(entry).narrowed(id)


def touches(entry: Entry, run_suffix: str) -> Iterator[tuple[Key, int]]:
    """
    Yield the keys that *entry* changed, each with the time in µs; of a restored row, the time of the change that it
    repeats. Raises as ``changes``.
    """
    with parse(entry, run_suffix) as parsed:
        yield from parsed.touches()
