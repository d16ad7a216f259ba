"""
The log's entries as values, and what each of them says happened to which schedule.

An entry is what one script call appended: its kind, TIME in µs and texts of its own (the scripts'
headers, LOGS). ``(epoch, seq, t_us)`` is its identity: two histories of a Redis can share an id, not
both id and time. ``changes`` tells an entry as one line per schedule, for people; whoever needs the
records themselves reads them with ``Puts`` and ``PutRecurring``.

An entry that cannot be read, because a newer version or a foreign hand wrote it, raises UnknownEntry:
it is kept as it is, reported, and never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, NamedTuple

from zsched.core.clock import LAST_MS
from zsched.core.model import iso
from zsched.core.run_id import schedule_of
from zsched.errors import ZschedError

Texts = Sequence[bytes]

_DIGITS = 18  # of a whole number, at most: what an archive's file can hold
_QUARANTINED = re.compile(r"(.+?) (high|normal|low) (\S+) (.*)")  # a foreign hand's id may have spaces in it


class UnknownEntry(ZschedError):
    """A log entry is of a kind or a form that this version does not know."""


class Position(NamedTuple):
    """The identity of an entry, and so a place in one history."""

    epoch: int
    seq: int
    t_us: int

    @property
    def id(self) -> str:
        """As Redis writes it: ``<epoch>-<seq>``."""
        return f"{self.epoch}-{self.seq}"

    @property
    def order(self) -> tuple[int, int]:
        """Compares like places in one history."""
        return self.epoch, self.seq


class Entry(NamedTuple):
    """One entry of the log. ``body``: its texts after kind and t, in order; all texts when it has no such head."""

    position: Position
    kind: str
    body: Texts

    @classmethod
    def of(cls, id: bytes, texts: Texts) -> Entry:
        """The entry *id* with field and value *texts*, as XRANGE gives them."""
        epoch, _, seq = id.partition(b"-")
        if len(texts) >= 4 and texts[0] == b"kind" and texts[2] == b"t" and _is_whole(texts[3]):
            return cls(Position(int(epoch), int(seq), int(texts[3])), text(texts[1]), texts[4:])
        return cls(Position(int(epoch), int(seq), 0), "", texts)

    @property
    def texts(self) -> list[bytes]:
        """All field and value texts, as they stand in Redis."""
        if not self.kind:
            return list(self.body)
        return [b"kind", self.kind.encode(), b"t", b"%d" % self.position.t_us, *self.body]

    def fields(self) -> dict[bytes, bytes]:
        """Field → value. For kinds without repeated fields."""
        return dict(zip(self.body[::2], self.body[1::2], strict=True))


class What(Enum):
    """What happened to a schedule."""

    PUT = "put"  # created, or changed when it was there
    FOUND = "found"  # an archive began here and read it from Redis
    PAUSED = "paused"
    RESUMED = "resumed"
    FIRED = "fired"  # a run was pushed to its queue at its time
    ENQUEUED = "enqueued"  # a run was pushed because somebody asked for it
    SKIPPED = "skipped"  # an occurrence was not pushed: overlap, paused, uncertain
    COALESCED = "coalesced"  # occurrences were left out in favour of a later one
    DUPLICATE = "duplicate"  # its run was there already: not pushed again
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"  # it cannot be planned or pushed; the reason is recorded
    ENDED = "ended"  # its rule gives no more occurrences


# What can become of an occurrence or of a run that was asked for.
OUTCOMES = (
    What.FIRED, What.ENQUEUED, What.SKIPPED, What.COALESCED, What.DUPLICATE, What.CANCELLED, What.QUARANTINED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """
    What one entry says of one schedule.

    ``nominal_ms`` is the time that an occurrence had, or that a schedule has from now on; ``next_ms`` what
    comes after a recurring one's. ``first_ms`` to ``last_ms`` are *count* occurrences. ``why``: reason, note or
    mark; ``by``: who is written down as having put it.
    """

    id: str
    what: What
    at_us: int
    entry: str
    run_id: str | None = None
    nominal_ms: int | None = None
    next_ms: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    count: int = 1
    why: str = ""
    by: str | None = None

    @property
    def late_ms(self) -> float | None:
        """How long after its nominal time it was fired."""
        if self.what is not What.FIRED or self.nominal_ms is None:
            return None
        return (self.at_us - self.nominal_ms * 1000) / 1000  # of whole numbers: exact to the µs

    def to_dict(self) -> dict[str, Any]:
        """As JSON can say it; ``of_dict`` is the inverse."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")} | {
            "what": self.what.value
        }

    def shown(self) -> dict[str, Any]:
        """As JSON for people says it: instants as ``iso`` writes them, every key always; the keys are a promise."""
        late_ms = self.late_ms
        return {
            "id": self.id,
            "what": self.what.value,
            "at": _shown(self.at_us // 1000),
            "entry": self.entry,
            "run_id": self.run_id,
            "nominal_at": _shown(self.nominal_ms),
            "late_ms": None if late_ms is None else round(late_ms, 3),
            "next_at": _shown(self.next_ms),
            "first_at": _shown(self.first_ms),
            "last_at": _shown(self.last_ms),
            "count": self.count,
            "why": self.why or None,
            "by": self.by,
        }

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Change:
        """The change that ``to_dict`` told."""
        return cls(**given | {"what": What(given["what"])})


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
            _expect(body[0] == b"lane" and body[2] == b"fields")
            first = 4 + 2 * int(body[3])
            _expect(body[first] == b"rows")
            rows = body[first + 2 : first + 2 + 4 * int(body[first + 1])]
            rest = body[first + 2 + len(rows) :]
            extra = dict(zip(rest[::2], rest[1::2], strict=True))
            _expect(len(rows) == 4 * int(body[first + 1]))
            return cls(
                lane=text(body[1]),
                shared=body[4:first],
                ids=[id.decode() for id in rows[::4]],
                dues=[int(due) for due in rows[1::4]],
                datas=rows[3::4],
                replaced=_ids(extra.get(b"replaced")),
                paused=_ids(extra.get(b"paused")),
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
            _expect(body[0] == b"id" and body[2] == b"due" and body[4] == b"schedule")
            first = 6 + 2 * int(body[5])
            schedule = {name.decode(): value for name, value in zip(body[6:first:2], body[7:first:2], strict=True)}
            _expect(body[first] == b"template")
            last = first + 2 + 2 * int(body[first + 1])
            _expect(len(body) >= last)
            return cls(
                id=body[1].decode(),
                due_ms=milliseconds(body[3]),
                is_paused=body[last:] == [b"paused", b"1"],
                schedule=schedule,
                template=body[first + 2 : last],
            )


class Advanced(NamedTuple):
    """One row of an ``advance`` entry; see advance.lua, LOGS. ``passed`` occurrences, first to last, are coalesced."""

    id: str
    word: str
    nominal_ms: int
    next_nominal_ms: int | None
    next_due_ms: int | None
    first_ms: int | None
    last_ms: int | None
    passed: int
    why: str

    @property
    def is_pushed(self) -> bool:
        """Whether a run went to its queue."""
        return self.word in ("fired", "uncertain")


def advanced(entry: Entry) -> Iterator[Advanced]:
    """The rows of an ``advance`` entry. Raises UnknownEntry."""
    with reading(entry):
        for line in text(entry.fields()[b"rows"]).split("\n"):
            id, word, nominal, next_nominal, next_due, first, last, count, why = line.split(" ", 8)
            times = milliseconds(next_nominal), milliseconds(next_due), milliseconds(first), milliseconds(last)
            yield Advanced(id, word, int(nominal), *times, int(count), "" if why == "-" else why)


def quarantined(lines: bytes | None) -> Iterator[tuple[str, str, int | None, str]]:
    """(id, lane, due ms, reason) of lines "<id> <lane> <due ms> <reason>". Raises ValueError."""
    for line in text(lines or b"").split("\n") if lines else ():
        found = _QUARANTINED.fullmatch(line)
        if found is None:
            raise ValueError(f"not a quarantined schedule: {line!r}")
        yield found[1], found[2], any_milliseconds(found[3]), found[4]


def changes(entry: Entry, run_suffix: str = "") -> Iterator[Change]:
    """
    What *entry* says, schedule by schedule; nothing for kinds that concern none. *run_suffix* is the
    namespace's part of run ids.

    Raises:
        UnknownEntry: its kind or form is not known here.
    """
    require_known(entry)
    with reading(entry):
        yield from _READERS[entry.kind](entry, run_suffix)


def require_known(entry: Entry) -> None:
    """Raise UnknownEntry for an entry of a kind that this version does not know."""
    if entry.kind not in _READERS:
        raise UnknownEntry(f"log entry {entry.position.id} is of the unknown kind {entry.kind!r}")


def _put(entry: Entry, run_suffix: str) -> Iterator[Change]:
    puts, at_us, entry_id = Puts.of(entry), entry.position.t_us, entry.position.id
    by = _value(puts.shared, b"zs_created_by")
    for id, due_ms in zip(puts.ids, puts.dues, strict=True):
        why = "paused" if id in puts.paused else ""
        run_id = f"{id}-{due_ms}{run_suffix}"
        yield Change(id, What.PUT, at_us, entry_id, run_id=run_id, nominal_ms=due_ms, why=why, by=by)


def _put_recurring(entry: Entry, _: str) -> Iterator[Change]:
    put = PutRecurring.of(entry)
    by = put.schedule.get("created_by")
    yield _one(
        entry,
        put.id,
        What.PUT,
        nominal_ms=put.due_ms,
        why="paused" if put.is_paused else "",
        by=text(by) if by else None,
    )


def _enqueue(entry: Entry, _: str) -> Iterator[Change]:
    run_id = text(entry.body[1])
    by = _value(entry.body[6:], b"zs_created_by")
    yield _one(entry, schedule_of(run_id), What.ENQUEUED, run_id=run_id, by=by)


def _run_now(entry: Entry, _: str) -> Iterator[Change]:
    fields = entry.fields()
    yield _one(entry, text(fields[b"id"]), What.ENQUEUED, run_id=text(fields[b"run"]), why="run now")


def _fire(entry: Entry, _: str) -> Iterator[Change]:
    fields = entry.fields()
    uncertain = set(text(fields.get(b"uncertain", b"")).split())
    for what, name in ((What.FIRED, b"runs"), (What.SKIPPED, b"skipped")):
        for run in text(fields.get(name, b"")).split():
            why = "uncertain" if run in uncertain or what is What.SKIPPED else ""
            yield _of_run(entry, run, what, why)
    for line in text(fields.get(b"cancelled", b"")).split():
        run, _, status = line.partition("=")
        yield _of_run(entry, run, What.CANCELLED, f"RQ has it as {status}")
    for id, _, due_ms, reason in quarantined(fields.get(b"quarantined")):
        yield _one(entry, id, What.QUARANTINED, nominal_ms=due_ms, why=reason)


def _advance(entry: Entry, run_suffix: str) -> Iterator[Change]:
    for row in advanced(entry):
        run_id = f"{row.id}-{row.nominal_ms}{run_suffix}"
        if row.passed:
            yield _one(
                entry,
                row.id,
                What.COALESCED,
                first_ms=row.first_ms,
                last_ms=row.last_ms,
                count=row.passed,
                nominal_ms=row.nominal_ms,
            )
        what, why = _ADVANCED[row.word]
        why = f"{why}: {row.why} was still open" if row.word == "overlap" else why or row.why
        pushed = run_id if row.is_pushed or what is What.DUPLICATE else None
        yield _one(entry, row.id, what, run_id=pushed, nominal_ms=row.nominal_ms, next_ms=row.next_nominal_ms, why=why)
        if row.next_due_ms is None and what is not What.QUARANTINED:
            yield _one(entry, row.id, What.ENDED)


def _quarantine(entry: Entry, _: str) -> Iterator[Change]:
    for id, _lane, due_ms, reason in quarantined(entry.fields()[b"rows"]):
        yield _one(entry, id, What.QUARANTINED, nominal_ms=due_ms, why=reason)


def _cancel(entry: Entry, _: str) -> Iterator[Change]:
    fields = entry.fields()
    yield _one(entry, text(fields[b"id"]), What.CANCELLED, nominal_ms=milliseconds(fields[b"due"]))


def _pause(entry: Entry, _: str) -> Iterator[Change]:
    fields = entry.fields()
    due_ms = milliseconds(fields[b"due"])
    yield _one(entry, text(fields[b"id"]), What.PAUSED, nominal_ms=due_ms, why=text(fields[b"note"]))


def _resume(entry: Entry, _: str) -> Iterator[Change]:
    fields = entry.fields()
    id, due_ms = text(fields[b"id"]), milliseconds(fields[b"due"])
    if b"count" in fields:
        yield _one(
            entry,
            id,
            What.SKIPPED,
            why="paused",
            first_ms=milliseconds(fields[b"first"]),
            last_ms=milliseconds(fields[b"last"]),
            count=int(fields[b"count"]),
        )
    goes_on = b"count" not in fields or due_ms != milliseconds(fields[b"first"])
    if goes_on and due_ms is not None:
        yield _one(entry, id, What.RESUMED, nominal_ms=due_ms)
    elif due_ms is None:
        yield _one(entry, id, What.ENDED)


def _nothing(entry: Entry, _: str) -> Iterator[Change]:
    return iter(())


_READERS = {
    "put": _put,
    "put_recurring": _put_recurring,
    "enqueue": _enqueue,
    "run_now": _run_now,
    "fire": _fire,
    "advance": _advance,
    "quarantine": _quarantine,
    "cancel": _cancel,
    "pause": _pause,
    "resume": _resume,
    "term": _nothing,
}
_ADVANCED = {
    "fired": (What.FIRED, ""),
    "uncertain": (What.FIRED, "uncertain"),
    "skipped": (What.SKIPPED, "uncertain"),
    "overlap": (What.SKIPPED, "overlap"),
    "duplicate": (What.DUPLICATE, ""),
    "quarantined": (What.QUARANTINED, ""),
}


def _one(entry: Entry, id: str, what: What, **more: Any) -> Change:
    return Change(id, what, entry.position.t_us, entry.position.id, **more)


def _of_run(entry: Entry, run_id: str, what: What, why: str) -> Change:
    id = schedule_of(run_id)
    nominal = run_id[len(id) + 1 :].partition("-")[0]
    return _one(entry, id, what, run_id=run_id, nominal_ms=milliseconds(nominal), why=why)


@contextmanager
def reading(entry: Entry) -> Iterator[None]:
    """Inside the block, an entry that is not what it should be raises UnknownEntry."""
    try:
        yield
    except (ValueError, KeyError, IndexError) as error:
        position = entry.position
        raise UnknownEntry(f"log entry {position.id} ({entry.kind}) cannot be read: {error!r}") from error


def _expect(holds: bool) -> None:
    if not holds:
        raise ValueError("a field is missing")


def text(value: bytes) -> str:
    """*value* as text; what is none, which only a foreign hand writes, is shown escaped."""
    return value.decode(errors="backslashreplace")


def _ids(value: bytes | None) -> frozenset[str]:
    return frozenset(text(value).split()) if value else frozenset()


def milliseconds(value: bytes | str | None) -> int | None:
    """A time in ms, or None where the log has none."""
    return None if value in (None, b"", "", b"-", "-") else int(value)


def any_milliseconds(value: bytes | str) -> int | None:
    """A time in ms that a foreign hand may have written; None when it is no whole number of them."""
    shown = text(value) if isinstance(value, bytes) else value
    return int(shown) if _is_whole(shown.encode()) else None


def _is_whole(value: bytes) -> bool:
    return value.isdigit() and len(value) <= _DIGITS


def _shown(ms: int | None) -> str | None:
    """What a foreign hand wrote is brought into the range of time."""
    return None if ms is None else iso(min(max(ms, 0), LAST_MS))


def _value(pairs: Texts, name: bytes) -> str | None:
    found = dict(zip(pairs[::2], pairs[1::2], strict=False)).get(name)
    return None if found is None else text(found)
