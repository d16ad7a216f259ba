"""
The record of a schedule or of a run: the one form in which it goes from Redis to the log, to an archive, and back.

A record has a place (where it is, and when it is due) and fields, as Redis holds them: ``job``, of the waiting job, of
the run, or of the template of a recurring schedule's runs; and ``own``, of a recurring schedule's hash. Both are names
and values in turn. Views for people read a record: ``storage.reader`` as a schedule, ``core.runs.run`` as a run.

Records that were put together share a *shape*: a record with the fields that they have in common. ``job`` and ``own``
of each are then only the rest: its arguments, and its rule. A ``Portion`` writes records as texts, each shape once:
for restore.lua and restore_runs.lua, and for entries of the kinds ``restore`` and ``scan``. ``records_in`` reads them.

Records are not frozen: a merge makes one for each schedule, and a frozen value takes five times as long to make. No
code changes them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Final

from zsched.core.entry import Texts, bounded_ms, expect, milliseconds, text
from zsched.core.runs.run_id import run_id_of

STATE: Final = re.compile(r"[a-z]+=[0-9]{1,16}(,[a-z]+=[0-9]{1,16})*")  # lua/lib/state.lua
_SKIP: Final = re.compile(r"\bskip=([0-9]{1,16})")
PROGRESS: Final = re.compile(
    r"([0-9]{1,16}|-) ([A-Za-z0-9_-]+) ([a-z0-9=,-]+) ([0-9]+-[0-9]+-[0-9]+)"
)  # lua/lib/progress.lua
_ROW_HEAD: Final = 2  # texts before the fields in a row: id, words
_ROW_WORDS: Final = 11  # the last one is the note, which may have blanks

# Fields that change during the life of a run or schedule. They are no part of the request.
_OF_JOB: Final = frozenset(
    b"status created_at enqueued_at started_at ended_at last_heartbeat worker_name enqueue_at_front zs_over"
    b" zs_uncertain zs_deadline zs_stop zs_version".split()
)
_OF_OWN: Final = frozenset(b"version created_at updated_at ended_at".split())
_ANEW: Final = frozenset([b"version", b"ended_at"])  # those of a schedule that a restore writes anew
_OF_ROWS: Final = frozenset(b"data zs_sig trigger digest anchor created_at updated_at".split())  # in no shape


RecordFields = tuple["Record | None", Texts, Texts]  # shape, job and own of a record
Key = tuple[str, str]  # of a schedule: its id and ""; of a run: its schedule's id, and the rest of the run's id


class Place(StrEnum):
    """A place of a schedule or run. Only rows of a restore have those from GONE on."""

    DUE = "due"
    PAUSED = "paused"
    QUARANTINE = "quarantine"
    ENDED = "ended"
    OPEN = "open"  # a run that was pushed, and is not over; in a restore it is pushed again
    GONE = "gone"  # the schedule is over, and is taken out
    SKIPPED = "skipped"  # an open run that is not pushed again, as its schedule demands
    HELD = "held"  # an open run that RQ has already
    REFUSED = "refused"  # an open run that cannot be pushed again: its queue is broken
    OVER = "over"  # a run that is over, and that RQ has once more: taken out of its queue, or ended as it was
    AGAIN = "again"  # such a run that ran once more, or will


_OF_RUNS: Final = frozenset({Place.OPEN, Place.SKIPPED, Place.HELD, Place.REFUSED, Place.OVER, Place.AGAIN})


@dataclass(slots=True)
class Record:
    """
    A schedule, or an open run.

    ``run``: the part of the run id after the schedule's id; "" for a recurring schedule. ``due_ms`` is None if it has
    no time. ``last``: the id of a recurring schedule's last run. ``state``: its counts and skips
    (lua/lib/state.lua). ``note``: "<since ms> <reason>" of a paused or quarantined schedule; ``uncertain`` for a run.
    ``t_us``: the time of its last change in an archive's history. ``places``: where Redis has it, such as ``normal``,
    ``normal:mail`` (throttled) or ``paused``: another program may have put it into several places.
    ``shape``: the record with the fields that it shares with others, or None. ``n`` and ``row``: the entry in an
    archive's history, and the row in it, with its fields.
    """

    id: str
    run: str
    place: Place
    lane: str
    due_ms: int | None
    job: Texts
    own: Texts = ()
    nominal_ms: int | None = None
    last: str | None = None
    note: str | None = None
    t_us: int = 0
    state: str = ""
    shape: Record | None = None
    n: int = 0
    row: int = 0
    places: Sequence[str] = field(default=(), compare=False)

    @property
    def key(self) -> Key:
        """Its id and run, which nothing else has."""
        return self.id, self.run

    def ids(self) -> Iterable[str]:
        """Return the schedule that it concerns."""
        return (self.id,)

    def changed_keys(self) -> Iterator[Key]:
        """Yield the keys that it changes in an entry: of a schedule also its waiting run, of a run only that."""
        if self.is_schedule:
            yield self.id, ""
        if self.run:
            yield self.id, self.run

    @property
    def run_id(self) -> str | None:
        """The id of the run, or of the one-shot's; None for a recurring schedule."""
        return run_id_of(self.id, self.run) if self.run else None

    @property
    def is_schedule(self) -> bool:
        """True for a schedule; False for a run that was pushed."""
        return self.place not in _OF_RUNS

    @property
    def is_open(self) -> bool:
        """True for an open run, pushed again or held by RQ."""
        return self.place in (Place.OPEN, Place.HELD)

    @property
    def is_at_its_time(self) -> bool:
        """True if it has a due time, and the run of a one-shot has that time; False if another writer moved it."""
        return self.due_ms is not None and (not self.run or self.run.partition("-")[0] == str(self.due_ms))

    def job_fields(self) -> dict[bytes, bytes]:
        """Return the values of ``job`` by name, with those of the shape."""
        return _by_name(self.job) if self.shape is None else _by_name(self.shape.job) | _by_name(self.job)

    def own_fields(self) -> dict[bytes, bytes]:
        """Return the values of ``own`` by name, with those of the shape."""
        return _by_name(self.own) if self.shape is None else _by_name(self.shape.own) | _by_name(self.own)

    def whole(self) -> Record:
        """Return the record with all of its fields, without a shape."""
        if self.shape is None:
            return self
        return replace(self, job=[*self.shape.job, *self.job], own=[*self.shape.own, *self.own], shape=None)

    def shaped(self) -> Record:
        """Return the record with a shape, which has all of its fields that a row need not have."""
        if self.shape is not None or not (self.lane or self.job or self.own):
            return self
        job, own = _without(self.job, _OF_ROWS), _without(self.own, _OF_ROWS)
        shape = Record("", "", Place.DUE, self.lane, None, job, own)
        return replace(self, job=_without(self.job, job[::2]), own=_without(self.own, own[::2]), shape=shape)

    def request(self) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
        """Return the fields of job and schedule that a caller asked for: those that no run or firing changes."""
        job = {name: value for name, value in self.job_fields().items() if name not in _OF_JOB}
        return job, {name: value for name, value in self.own_fields().items() if name not in _OF_OWN}

    def is_same(self, other: Record) -> bool:
        """Return True if both have the same place, the same due time and the same request."""
        mine = self.run, self.place, self.lane, self.due_ms, self.nominal_ms, self.last, self.note
        theirs = other.run, other.place, other.lane, other.due_ms, other.nominal_ms, other.last, other.note
        return mine == theirs and self.request() == other.request()

    def to_keep(self) -> Record:
        """Return the record without the fields that a restore writes anew; quick if it has none of them."""
        if _OF_JOB.isdisjoint(self.job[::2]) and _ANEW.isdisjoint(self.own[::2]):
            return self
        return replace(self, job=_without(self.job, _OF_JOB), own=_without(self.own, _ANEW))


def skipped_in(state: str) -> tuple[int, ...]:
    """Return the occurrences that are skipped by hand, of a record's ``state``, in order."""
    return tuple(sorted(map(int, _SKIP.findall(state)))) if state else ()


def skips_text(skipped: Iterable[int]) -> str:
    """Return a state with only these skips: the inverse of ``skipped_in``."""
    return ",".join(f"skip={at_ms}" for at_ms in skipped)


def gone(id: str, run: str = "") -> Record:
    """Return a schedule that is gone, with its waiting *run*; its open runs stay."""
    return Record(id, run, Place.GONE, "", None, ())


class Portion:
    """
    Records, and their texts: ``shapes``, their number, and each as "lane", its lane, "schedule", number of pairs, the
    pairs of ``own``, "template", number of pairs, the pairs of ``job``; then ``rows``, their number, and each as id,
    words, and the texts of ``job`` and ``own``.

    The words are the due time; the number of the shape, from 1; run, place, nominal, last, state, t; the numbers of
    texts of both; and the note. A missing value is -, and for the shape 0. A run that begins with the due time is + and
    its rest, and a nominal time equal to the due time is =. So rows that were put together differ in the first word
    only, and restore.lua reads the others once.
    """

    def __init__(self, rows: Iterable[Record] = ()) -> None:
        self.rows: list[Record] = []
        self._shapes: dict[tuple[str, tuple[bytes, ...], tuple[bytes, ...]], int] = {}
        self._numbers: dict[int, int] = {}  # of the shapes, by identity: quicker
        self._shape_texts: list[bytes] = []
        self._texts: list[bytes] = []
        self._words: tuple[tuple[object, ...], str] = ((), "")  # of the last row, without its due time; and as text
        for row in rows:
            self.add(row)

    @property
    def texts(self) -> list[bytes]:
        """Its texts."""
        shapes, rows = b"%d" % len(self._shapes), b"%d" % len(self.rows)
        return [b"shapes", shapes, *self._shape_texts, b"rows", rows, *self._texts]

    def add(self, row: Record, most: float = inf) -> bool:
        """Add a record. Return False if the texts would then be more than *most*; a first one is always added."""
        one = row if row.shape is not None else row.shaped()
        shape, job, own = one.shape, one.job, one.own
        number = 0 if shape is None else self._numbers.get(id(shape), 0)
        size = len(self._shape_texts) + len(self._texts) + len(job) + len(own)
        if shape is not None and not number:
            size += len(shape.job) + len(shape.own)
        if size > most and self.rows:
            return False
        if shape is not None and not number:
            number = self._add_shape(shape)
        due, run = "-" if one.due_ms is None else str(one.due_ms), one.run or "-"
        run = f"+{run[len(due) :]}" if run.startswith(due) and one.run else run
        nominal = "-" if one.nominal_ms is None else "=" if one.nominal_ms == one.due_ms else one.nominal_ms
        words = number, run, one.place, nominal, one.last, one.state, one.t_us, len(job), len(own), one.note
        if words != self._words[0]:  # rows that were put together have the same
            shown = ["-" if word in (None, "") else str(word) for word in words[:-1]]
            self._words = words, " ".join([*shown, one.note or ""])
        self.rows.append(one)
        self._texts += (one.id.encode(), f"{due} {self._words[1]}".encode(), *job, *own)
        return True

    def _add_shape(self, shape: Record) -> int:
        key = shape.lane, tuple(shape.job), tuple(shape.own)
        if (number := self._shapes.get(key)) is None:
            number = self._shapes[key] = len(self._shapes) + 1
            own, job = b"%d" % (len(shape.own) // 2), b"%d" % (len(shape.job) // 2)
            head = b"lane", shape.lane.encode(), b"schedule", own
            self._shape_texts += (*head, *shape.own, b"template", job, *shape.job)
        self._numbers[id(shape)] = number
        return number


def shapes_in(texts: Texts, at: int) -> tuple[list[Record], int]:
    """
    Return the shapes in *texts* from *at* on, without fields that a restore writes anew; and where the rows begin.

    Raises:
        ValueError, IndexError: they are malformed.
    """
    expect(texts[at] == b"shapes")
    shapes, count, at = list[Record](), int(texts[at + 1]), at + 2
    for _ in range(count):
        first = at + 4
        last = first + 2 * int(texts[at + 3])
        end = last + 2 + 2 * int(texts[last + 1])
        expect((texts[at], texts[at + 2], texts[last]) == (b"lane", b"schedule", b"template"))
        own, job = texts[first:last], texts[last + 2 : end]
        shapes.append(Record("", "", Place.DUE, text(texts[at + 1]), None, job, own).to_keep())
        at = end
    expect(texts[at] == b"rows")
    return shapes, at


def records_in(texts: Texts, at: int, places: Container[str] | None = None) -> Iterator[tuple[int, Record]]:
    """
    Yield the records of a portion, whose *texts* are from *at* to the end, each with the place there where its
    ``job`` begins; only those at *places*, if given.

    Raises:
        ValueError, IndexError: the texts are malformed.
    """
    shapes, at = shapes_in(texts, at)
    count, at = int(texts[at + 1]), at + 2
    for _ in range(count):
        words = text(texts[at + 1]).split(" ", _ROW_WORDS - 1)
        due, number, run, place, nominal, last, state, t_us, job_size, own_size, note = words
        first = at + _ROW_HEAD
        first_own = first + int(job_size)
        after = first_own + int(own_size)
        expect(len(texts) >= after >= first_own >= first and 0 <= int(number) <= len(shapes))
        if places is None or place in places:
            shape = shapes[int(number) - 1] if number != "0" else None
            yield (
                first,
                Record(
                    id=text(texts[at]),
                    run="" if run == "-" else f"{due}{run[1:]}" if run.startswith("+") else run,
                    place=Place(place),
                    lane="" if shape is None else shape.lane,
                    due_ms=milliseconds(due),
                    job=texts[first:first_own],
                    own=texts[first_own:after],
                    nominal_ms=milliseconds(due if nominal == "=" else nominal),
                    last=None if last == "-" else last,
                    note=note or None,
                    t_us=bounded_ms(t_us),
                    state="" if state == "-" else state,
                    shape=shape,
                ),
            )
        at = after
    expect(at == len(texts))


def _by_name(texts: Texts) -> dict[bytes, bytes]:
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _without(texts: Texts, names: Container[bytes]) -> list[bytes]:
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return [each for name, value in pairs if name not in names for each in (name, value)]
