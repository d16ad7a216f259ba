"""
The record of a schedule or of a run: the one form in which it goes from Redis to the log, to an archive, and back.

A record has a place (where it is, and when it is due) and fields, as Redis holds them: ``job``, of the waiting job, of
the run, or of the template of a recurring schedule's runs; and ``own``, of a recurring schedule's hash. Both are names
and values in turn. Views for people read a record: ``storage.reader`` as a schedule, ``core.runs.run`` as a run.

``texts`` writes a record as a row, for restore.lua and finish.lua, and for entries of the kinds ``restore`` and
``scan``; ``rows_in`` reads such rows.

Records are not frozen: a merge makes one for each schedule, and a frozen value takes five times as long to make. No
code changes them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from zsched.core.entry import Texts, bounded_ms, expect, milliseconds, text
from zsched.core.runs.run_id import run_id_of

STATE: Final = re.compile(r"[a-z]+=[0-9]{1,9}(,[a-z]+=[0-9]{1,9})*")  # lua/lib/state.lua
ROW_HEAD: Final = 4  # texts before the fields in a row: id, words, "", note

# Fields that change during the life of a run or schedule. They are no part of the request.
_OF_JOB: Final = frozenset(
    b"status created_at enqueued_at started_at ended_at last_heartbeat worker_name dependency_id dependency_ids"
    b" allow_dependency_failures enqueue_at_front zs_uncertain zs_deadline zs_stop zs_version".split()
)
_OF_OWN: Final = frozenset(b"version created_at updated_at ended_at".split())
_ANEW: Final = frozenset([b"version", b"ended_at"])  # those of a schedule that a restore writes anew


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
    no time. ``last``: the id of a recurring schedule's last run. ``state``: its counts, such as
    ``failures=2`` (lua/lib/state.lua). ``note``: "<since ms> <reason>" of a paused or
    quarantined schedule; ``uncertain`` for a run. ``t_us``: the time of its last change in an archive's history.
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

    @property
    def key(self) -> tuple[str, str]:
        """Its id and run, which nothing else has."""
        return self.id, self.run

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
    def is_over(self) -> bool:
        """True for a run that is over, and that RQ has once more; see finish.lua."""
        return self.place in (Place.OVER, Place.AGAIN)

    @property
    def is_at_its_time(self) -> bool:
        """True if it has a due time, and the run of a one-shot has that time; False if another writer moved it."""
        return self.due_ms is not None and (not self.run or self.run.partition("-")[0] == str(self.due_ms))

    def job_fields(self) -> dict[bytes, bytes]:
        """Return the values of ``job`` by name."""
        return dict(zip(self.job[::2], self.job[1::2], strict=True))

    def own_fields(self) -> dict[bytes, bytes]:
        """Return the values of ``own`` by name."""
        return dict(zip(self.own[::2], self.own[1::2], strict=True))

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

    def texts(self) -> list[bytes]:
        """Return the record as a row."""
        due, nominal = _number(self.due_ms), _number(self.nominal_ms)
        words = (
            f"{self.run or '-'} {self.place} {self.lane or '-'} {due} {nominal} {self.last or '-'}"
            f" {self.state or '-'} {self.t_us} {len(self.job)} {len(self.own)}"
        )
        return [self.id.encode(), words.encode(), b"", (self.note or "").encode(), *self.job, *self.own]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _without(texts: Texts, names: frozenset[bytes]) -> list[bytes]:
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return [each for name, value in pairs if name not in names for each in (name, value)]


def rows_in(texts: Texts, at: int, places: Container[str] | None = None) -> Iterator[tuple[int, Record]]:
    """
    Yield the rows in *texts* from *at* to the end, each with its place there; only those at *places*, if given.

    Raises:
        ValueError, IndexError: the rows are malformed.
    """
    while at < len(texts):
        words = text(texts[at + 1]).split(" ")
        run, place, lane, due, nominal, last, state, t_us, job_size, own_size = words
        first = at + ROW_HEAD
        first_own = first + int(job_size)
        after = first_own + int(own_size)
        expect(len(texts) >= after >= first_own >= first)
        if places is None or place in places:
            yield (
                at,
                Record(
                    id=text(texts[at]),
                    run="" if run == "-" else run,
                    place=Place(place),
                    lane="" if lane == "-" else lane,
                    due_ms=milliseconds(due),
                    job=texts[first:first_own],
                    own=texts[first_own:after],
                    nominal_ms=milliseconds(nominal),
                    last=None if last == "-" else last,
                    state="" if state == "-" else state,
                    note=text(texts[first - 1]) or None,
                    t_us=bounded_ms(t_us),
                ),
            )
        at = after
