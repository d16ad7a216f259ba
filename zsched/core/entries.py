"""
The forms of entries of the log that carry more than plain fields: what the scripts' headers say under LOGS, as values.

Each reader raises UnknownEntry for what it cannot read. A row whose id can be no id of ours is left out, and told to
``dropped`` where that is given: nobody but a foreign hand writes one. ``core.log`` has the entry itself.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from zsched.core.log import Entry, Position, Texts, any_milliseconds, expect, ids_of, milliseconds, reading, text
from zsched.core.policy import Passed, Range, Why
from zsched.core.run_id import ID, RunKey, run_key

Dropped = list[str]  # malformed ids that were left out

_QUARANTINED = re.compile(r"(\S+) (high|normal|low) (\S+) (.*)")


class Puts(NamedTuple):
    """A ``put`` entry: one-shots of one shape. ``paused`` and ``replaced``: ids that stay paused; that were there."""

    lane: str
    shared: Texts  # field and value texts that all rows share
    ids: list[str]
    dues: list[int]
    datas: Texts
    replaced: frozenset[str]
    paused: frozenset[str]

    @classmethod
    def of(cls, entry: Entry) -> Puts:
        """Raises UnknownEntry."""
        with reading(entry):
            body = entry.body
            expect(body[0] == b"lane" and body[2] == b"fields")
            first = 4 + 2 * int(body[3])
            expect(body[first] == b"rows")
            rows = body[first + 2 : first + 2 + 4 * int(body[first + 1])]
            rest = body[first + 2 + len(rows) :]
            extra = dict(zip(rest[::2], rest[1::2], strict=True))
            expect(len(rows) == 4 * int(body[first + 1]))
            return cls(
                lane=text(body[1]),
                shared=body[4:first],
                ids=[id.decode() for id in rows[::4]],
                dues=[int(due) for due in rows[1::4]],
                datas=rows[3::4],
                replaced=ids_of(extra.get(b"replaced")),
                paused=ids_of(extra.get(b"paused")),
            )


class PutRecurring(NamedTuple):
    """A ``put_recurring`` entry. ``due_ms`` is None when the schedule stays ended."""

    id: str
    due_ms: int | None
    is_paused: bool
    schedule: dict[str, bytes]
    template: Texts

    @classmethod
    def of(cls, entry: Entry) -> PutRecurring:
        """Raises UnknownEntry."""
        with reading(entry):
            body = entry.body
            expect(body[0] == b"id" and body[2] == b"due" and body[4] == b"schedule")
            first = 6 + 2 * int(body[5])
            schedule = {name.decode(): value for name, value in zip(body[6:first:2], body[7:first:2], strict=True)}
            expect(body[first] == b"template")
            last = first + 2 + 2 * int(body[first + 1])
            expect(len(body) >= last)
            return cls(
                id=body[1].decode(),
                due_ms=milliseconds(body[3]),
                is_paused=body[last:] == [b"paused", b"1"],
                schedule=schedule,
                template=body[first + 2 : last],
            )


class Enqueued(NamedTuple):
    """An ``enqueue`` entry: a run that was pushed at once; ``retry_of``: which run it repeats, None when none."""

    run_id: str
    is_at_front: bool
    fields: Texts  # of its job
    retry_of: str | None

    @classmethod
    def of(cls, entry: Entry) -> Enqueued:
        """Raises UnknownEntry."""
        with reading(entry):
            body = entry.body
            last = ENQUEUED_HEAD + 2 * int(body[5])
            expect(len(body) >= last)
            rest = dict(zip(body[last::2], body[last + 1 :: 2], strict=True))
            of = rest.get(b"of")
            return cls(text(body[1]), body[3] == b"1", body[ENQUEUED_HEAD:last], text(of) if of else None)


ENQUEUED_HEAD = 6  # texts before the pairs of an ``enqueue`` entry


class Backfilled(NamedTuple):
    """A ``backfill`` entry: runs of a recurring schedule for occurrences that passed."""

    id: str
    run_ids: list[str]

    @classmethod
    def of(cls, entry: Entry) -> Backfilled:
        """Raises UnknownEntry."""
        with reading(entry):
            fields = entry.fields()
            run_ids = text(fields[b"runs"]).split()
            return cls(text(fields[b"id"]), [run_id for run_id in run_ids if run_key(run_id) is not None])


class Quarantined(NamedTuple):
    """A schedule that cannot be planned or pushed. ``due_ms`` is None if its due time was no number."""

    id: str
    lane: str
    due_ms: int | None
    reason: str


class Fired(NamedTuple):
    """
    A ``fire`` entry. Each text is parsed by itself, so a malformed one loses only itself. ``uncertain``: keys of the
    *runs* that a lost history may have pushed. ``cancelled``: run keys, each with its status in RQ.
    """

    runs: list[RunKey]
    uncertain: frozenset[RunKey]
    skipped: list[RunKey]
    expired: list[RunKey]
    cancelled: list[tuple[RunKey, str]]
    quarantined: list[Quarantined]

    @classmethod
    def of(cls, entry: Entry, dropped: Dropped | None = None) -> Fired:
        """Parse *entry*. Raises UnknownEntry."""
        with reading(entry):
            fields = entry.fields()
            runs, uncertain, skipped, expired = (
                _run_keys(text(fields.get(name, b"")).split(), dropped)
                for name in (b"runs", b"uncertain", b"skipped", b"expired")
            )
            cancelled = []
            for word in text(fields.get(b"cancelled", b"")).split():
                run_id, _, status = word.partition("=")
                cancelled += [(key, status) for key in _run_keys([run_id], dropped)]
            bad = list(quarantined(fields.get(b"quarantined"), dropped))
            return cls(runs, frozenset(uncertain), skipped, expired, cancelled, bad)


class Advanced(NamedTuple):
    """One line of an ``advance`` entry; see advance.lua, LOGS. ``nominal_ms`` is None where no occurrence fires."""

    id: str
    word: str
    nominal_ms: int | None
    next_nominal_ms: int | None
    next_due_ms: int | None
    passed: tuple[Passed, ...]
    why: str
    jitter_ms: int = 0

    @property
    def is_pushed(self) -> bool:
        """Whether a run went to its queue, or waits for the one before it to be over."""
        return self.word in ("fired", "deferred", "uncertain")


class Ended(NamedTuple):
    """One row of an ``end`` entry: a run that is over. ``facts`` is JSON; ``core.runs.of_row`` reads it."""

    run_id: str
    status: str
    facts: str


class Again(NamedTuple):
    """One row of an ``again`` entry: a run whose worker died is in its queue again, for its ``attempt``-th time."""

    run_id: str
    attempt: int
    why: str


class Released(NamedTuple):
    """One row of an ``unblock`` entry: a run that waited for others (``overlap="queue"``) is in its queue."""

    run_id: str
    why: str


class Replanned(NamedTuple):
    """One row of a ``replan`` entry: an occurrence that waits is at another time by the new rules of its zone."""

    id: str
    nominal_ms: int
    new_nominal_ms: int
    new_due_ms: int


class Restored(NamedTuple):
    """
    One row of a ``restore`` entry; see restore.lua. A schedule and what it became, or a run: ``open`` (pushed again),
    ``skipped``, ``held`` (RQ has it already), ``refused``. ``t_us`` is of its last change in the history that was lost.
    """

    id: str
    run: str
    place: str
    lane: str
    due_ms: int | None
    t_us: int
    note: str | None
    job: Texts  # of the job, or of the template of runs
    own: Texts  # of a recurring schedule

    @property
    def is_schedule(self) -> bool:
        """Whether it says where a schedule is now; else it is of a run."""
        return self.place not in _RUN_PLACES

    def texts(self) -> list[bytes]:
        """The row as it stands in the entry, and as restore.lua takes it."""
        due = b"-" if self.due_ms is None else b"%d" % self.due_ms
        head = [self.id.encode(), self.run.encode(), self.place.encode(), self.lane.encode(), due, b"%d" % self.t_us]
        sizes = b"%d %d" % (len(self.job), len(self.own))
        return [*head, (self.note or "").encode(), sizes, *self.job, *self.own]


_RUN_PLACES = ("open", "skipped", "held", "refused")
RESTORED_HEAD = 8  # texts before the pairs of a row


def restored(entry: Entry, places: Container[bytes] | None = None) -> Iterator[tuple[int, Restored]]:
    """
    The rows of a ``restore`` entry, each with where it begins in the body; of some *places* alone if they are given.
    Raises UnknownEntry.
    """
    with reading(entry):
        body = entry.body
        expect(body[0] == b"reason" and body[2] == b"archive" and body[4] == b"rows")
        at = 6
        for _ in range(int(body[5])):
            first = at + RESTORED_HEAD
            sizes = body[first - 1].partition(b" ")
            first_own = first + int(sizes[0])
            after = first_own + int(sizes[2])
            expect(len(body) >= after)
            if places is None or body[at + 2] in places:
                id, run, place, lane, due, t_us, note = (text(each) for each in body[at : first - 1])
                due_ms = any_milliseconds(due)
                job, own = body[first:first_own], body[first_own:after]
                yield at, Restored(id, run, place, lane, due_ms, int(t_us), note or None, job, own)
            at = after


def merged(entry: Entry) -> list[Position]:
    """The ends of histories of which nothing is missing where a ``merged`` entry stands. Raises UnknownEntry."""
    with reading(entry):
        return [Position.parse(line) for line in text(entry.fields()[b"positions"]).splitlines()]


def ended(entry: Entry, dropped: Dropped | None = None) -> Iterator[Ended]:
    """The rows of an ``end`` entry. Raises UnknownEntry."""
    with reading(entry):
        for line in text(entry.fields()[b"rows"]).split("\n"):
            row = Ended(*line.split(" ", 2))
            if _is_run(row.run_id, dropped):
                yield row


def again(entry: Entry, dropped: Dropped | None = None) -> Iterator[Again]:
    """The rows of an ``again`` entry. Raises UnknownEntry."""
    with reading(entry):
        for line in text(entry.fields()[b"rows"]).split("\n"):
            run_id, attempt, why = line.split(" ", 2)
            row = Again(run_id, int(attempt), why)
            if _is_run(run_id, dropped):
                yield row


def released(entry: Entry, dropped: Dropped | None = None) -> Iterator[Released]:
    """The rows of an ``unblock`` entry. Raises UnknownEntry."""
    with reading(entry):
        for line in text(entry.fields()[b"rows"]).split("\n"):
            row = Released(*line.split(" ", 1))
            if _is_run(row.run_id, dropped):
                yield row


def replanned(entry: Entry, dropped: Dropped | None = None) -> Iterator[Replanned]:
    """The rows of a ``replan`` entry. Raises UnknownEntry."""
    with reading(entry):
        for line in text(entry.fields()[b"rows"]).split("\n"):
            id, nominal, new_nominal, new_due = line.split(" ")
            row = Replanned(id, int(nominal), int(new_nominal), int(new_due))
            if _is_id(id, dropped):
                yield row


def advanced(entry: Entry, dropped: Dropped | None = None) -> Iterator[Advanced]:
    """The lines of an ``advance`` entry. Raises UnknownEntry."""
    with reading(entry):
        fields = entry.fields()
        rows = _advanced(text(fields[b"moves"])) if b"moves" in fields else _advanced_before(text(fields[b"rows"]))
        for row in rows:
            if _is_id(row.id, dropped):
                yield row


def _advanced(lines: str) -> Iterator[Advanced]:
    for line in lines.split("\n"):
        id, word, nominal, next_nominal, next_due, passed, why = line.split(" ", 6)
        nominal, _, jitter = nominal.partition("+")
        times = milliseconds(nominal), milliseconds(next_nominal), milliseconds(next_due)
        yield Advanced(id, word, *times, _passed(passed), "" if why == "-" else why, int(jitter or 0))


def _advanced_before(lines: str) -> Iterator[Advanced]:
    """The same from logs of before there were catch-up policies: what passed was coalesced."""
    for line in lines.split("\n"):
        id, word, nominal, next_nominal, next_due, first, last, count, why = line.split(" ", 8)
        passed = _passed("-" if count == "0" else f"coalesced:{first}:{last}:{count}")
        times = int(nominal), milliseconds(next_nominal), milliseconds(next_due)
        yield Advanced(id, word, *times, passed, "" if why == "-" else why)


def _passed(told: str) -> tuple[Passed, ...]:
    """``<why>:<first ms>:<last ms>:<count>`` by commas."""
    if told == "-":
        return ()
    parts = (one.split(":") for one in told.split(","))
    return tuple(Passed(Why(why), Range(int(first), int(last), int(count))) for why, first, last, count in parts)


def quarantined(lines: bytes | None, dropped: Dropped | None = None) -> Iterator[Quarantined]:
    """Lines "<id> <lane> <due ms> <reason>"; one that is none is left out."""
    for line in text(lines).split("\n") if lines else ():
        found = _QUARANTINED.fullmatch(line)
        if found is not None and ID.fullmatch(found[1]):
            yield Quarantined(found[1], found[2], any_milliseconds(found[3]), found[4])
        elif dropped is not None:
            dropped.append(line)


def _run_keys(run_ids: Iterable[str], dropped: Dropped | None) -> list[RunKey]:
    """Schedule id and the rest of each run id."""
    return [key for run_id in run_ids if (key := _key_of(run_id, dropped)) is not None]


def _key_of(run_id: str, dropped: Dropped | None) -> RunKey | None:
    key = run_key(run_id)
    if key is None and dropped is not None:
        dropped.append(run_id)
    return key


def _is_run(run_id: str, dropped: Dropped | None) -> bool:
    return _key_of(run_id, dropped) is not None


def _is_id(id: str, dropped: Dropped | None) -> bool:
    is_one = ID.fullmatch(id) is not None
    if not is_one and dropped is not None:
        dropped.append(id)
    return is_one
