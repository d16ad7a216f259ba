"""
What an entry of the log says happened to which schedule: a ``Change`` each, for stories, listings and counts.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any, Final

from zsched.core.clock import LAST_MS
from zsched.core.entries import (
    Backfilled,
    Enqueued,
    Fired,
    PutRecurring,
    Puts,
    advanced,
    again,
    ended,
    quarantined,
    released,
    replanned,
    restored,
)
from zsched.core.log import Entry, Texts, milliseconds, reading, require_known, text
from zsched.core.model import iso
from zsched.core.policy import Why
from zsched.core.run_id import RunKey, schedule_of


class What(Enum):
    """What happened to a schedule."""

    PUT = "put"  # created, or changed when it was there
    FOUND = "found"  # an archive began here and read it from Redis
    PAUSED = "paused"
    RESUMED = "resumed"
    REPLANNED = "replanned"  # the rules of its zone changed: what waits is at another time
    FIRED = "fired"  # a run was pushed to its queue at its time
    ENQUEUED = "enqueued"  # a run was pushed because somebody asked for it
    SKIPPED = "skipped"  # an occurrence was not pushed: overlap, paused, uncertain, missed, limit
    EXPIRED = "expired"  # an occurrence was not pushed: later than its deadline
    COALESCED = "coalesced"  # occurrences were left out in favour of a later one
    DUPLICATE = "duplicate"  # its run was there already: not pushed again
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"  # it cannot be planned or pushed; the reason is recorded
    ENDED = "ended"  # its rule gives no more occurrences
    RUN_ENDED = "run_ended"  # a run is over: why is its status, record the rest
    RUN_AGAIN = "run_again"  # a run's worker died: it is in its queue again
    RELEASED = "released"  # a run that waited for others is in its queue, as RQ would never put it there
    RESTORED = "restored"  # Redis had lost it, and holds it again
    PUSHED_AGAIN = "pushed_again"  # Redis had lost a run that was not over: it is in its queue again
    HELD = "held"  # Redis had lost a run that was not over, and RQ has it by a worker's hand: not pushed again
    WITHDRAWN = "withdrawn"  # a Redis that went back held it again: taken out, as it was over


# What can become of an occurrence or of a run that was asked for.
OUTCOMES = (
    What.FIRED, What.ENQUEUED, What.SKIPPED, What.EXPIRED, What.COALESCED, What.DUPLICATE, What.CANCELLED,
    What.QUARANTINED, What.PUSHED_AGAIN, What.HELD, What.WITHDRAWN,
)  # fmt: skip


# Why a run was enqueued, where that tells what it is.
BACKFILL: Final = "backfill"  # its occurrence had passed without one
RUN_NOW: Final = "run now"
RETRY_OF: Final = "retry of "  # the run whose id follows

WAITS_FOR: Final = "waits for "  # why a run that fired is not in its queue: the one whose id follows is not over


@dataclass(frozen=True, slots=True)
class Change:
    """
    What one entry says of one schedule.

    ``nominal_ms`` is the time that an occurrence had, or that a schedule has from now on; ``next_ms`` what
    comes after a recurring one's. ``first_ms`` to ``last_ms`` are *count* occurrences. ``why``: reason, note or
    mark; ``by``: who is written down as having put it; ``record``: of a run that is over, as ``runs.of_row`` reads it;
    ``jitter_ms``: how much later than its nominal time an occurrence was due.
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
    record: str = ""
    jitter_ms: int = 0

    @property
    def due_ms(self) -> int | None:
        """When its occurrence was due: ``jitter_ms`` after its nominal time."""
        return None if self.nominal_ms is None else self.nominal_ms + self.jitter_ms

    @property
    def late_ms(self) -> float | None:
        """How long after it was due it was fired, or found to be too late."""
        if self.what not in (What.FIRED, What.EXPIRED) or self.due_ms is None:
            return None
        return (self.at_us - self.due_ms * 1000) / 1000  # of whole numbers: exact to the µs

    def to_dict(self) -> dict[str, Any]:
        """As JSON can say it; ``of_dict`` is the inverse."""
        told = {name: value for name, value in asdict(self).items() if value not in (None, "")}
        if not self.jitter_ms:
            del told["jitter_ms"]
        return told | {"what": self.what.value}

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
            "due_at": _shown(self.due_ms),
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


def outcomes(entry: Entry, run_suffix: str = "") -> Iterator[Change]:
    """The same without schedules that were put back: a recovery writes one for each. Raises as ``changes``."""
    if entry.kind == "restore":
        with reading(entry):
            yield from _restore(entry, run_suffix, _OUTCOMES_OF_RESTORE)
    else:
        yield from changes(entry, run_suffix)


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
    enqueued = Enqueued.of(entry)
    by = _value(enqueued.fields, b"zs_created_by")
    why = "" if enqueued.retry_of is None else f"{RETRY_OF}{enqueued.retry_of}"
    run_id = enqueued.run_id
    yield _one(entry, schedule_of(run_id), What.ENQUEUED, run_id=run_id, why=why, by=by)


def _run_now(entry: Entry, _: str) -> Iterator[Change]:
    fields = entry.fields()
    yield _one(entry, text(fields[b"id"]), What.ENQUEUED, run_id=text(fields[b"run"]), why=RUN_NOW)


def _backfill(entry: Entry, _: str) -> Iterator[Change]:
    for run_id in Backfilled.of(entry).run_ids:
        yield _of_run(entry, run_id, What.ENQUEUED, BACKFILL)


def _fire(entry: Entry, _: str) -> Iterator[Change]:
    fired = Fired.of(entry)
    for what, keys in ((What.FIRED, fired.runs), (What.SKIPPED, fired.skipped), (What.EXPIRED, fired.expired)):
        for key in keys:
            why = "uncertain" if key in fired.uncertain or what is What.SKIPPED else ""
            yield _of_key(entry, key, what, why)
    for key, status in fired.cancelled:
        yield _of_key(entry, key, What.CANCELLED, f"RQ has it as {status}")
    for row in fired.quarantined:
        yield _one(entry, row.id, What.QUARANTINED, nominal_ms=row.due_ms, why=row.reason)


def _advance(entry: Entry, run_suffix: str) -> Iterator[Change]:
    for row in advanced(entry):
        for one in row.passed:
            is_coalesced = one.why is Why.COALESCED
            yield _one(
                entry,
                row.id,
                What.COALESCED if is_coalesced else What.SKIPPED,
                first_ms=one.range.first_ms,
                last_ms=one.range.last_ms,
                count=one.range.count,
                nominal_ms=row.nominal_ms,
                next_ms=row.next_nominal_ms,
                why="" if is_coalesced else one.why.value,
            )
        what, why = _ADVANCED[row.word]
        if what is not None:
            why = why.format(row.why) or row.why
            run_id = f"{row.id}-{row.nominal_ms}{run_suffix}" if row.is_pushed or what is What.DUPLICATE else None
            nominal_ms, next_ms = row.nominal_ms, row.next_nominal_ms
            times = {"nominal_ms": nominal_ms, "next_ms": next_ms, "jitter_ms": row.jitter_ms}
            yield _one(entry, row.id, what, run_id=run_id, why=why, **times)
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


def _replan(entry: Entry, _: str) -> Iterator[Change]:
    """``nominal_ms`` is the time that it had, ``next_ms`` the one that it has now."""
    fields = entry.fields()
    why = f"tzdata {text(fields[b'old']) or 'unknown'} → {text(fields[b'new'])}"
    for row in replanned(entry):
        yield _one(entry, row.id, What.REPLANNED, nominal_ms=row.nominal_ms, next_ms=row.new_nominal_ms, why=why)


def _end(entry: Entry, _: str) -> Iterator[Change]:
    for row in ended(entry):
        yield replace(_of_run(entry, row.run_id, What.RUN_ENDED, row.status), record=row.facts)


def _again(entry: Entry, _: str) -> Iterator[Change]:
    for row in again(entry):
        yield replace(_of_run(entry, row.run_id, What.RUN_AGAIN, row.why), count=row.attempt)


def _unblock(entry: Entry, _: str) -> Iterator[Change]:
    for row in released(entry):
        yield _of_run(entry, row.run_id, What.RELEASED, row.why)


def _restore(entry: Entry, _: str, places: Container[bytes] | None = None) -> Iterator[Change]:
    reason = text(entry.body[1])
    for _at, row in restored(entry, places):
        what, why = _RESTORED.get(row.place, (What.RESTORED, reason))
        run_id = f"{row.id}-{row.run}" if row.run else None
        yield _one(entry, row.id, what, run_id=run_id, nominal_ms=row.due_ms, why=why or reason)


def _nothing(entry: Entry, _: str) -> Iterator[Change]:
    return iter(())


_READERS = {
    "put": _put,
    "put_recurring": _put_recurring,
    "enqueue": _enqueue,
    "run_now": _run_now,
    "backfill": _backfill,
    "fire": _fire,
    "advance": _advance,
    "quarantine": _quarantine,
    "cancel": _cancel,
    "pause": _pause,
    "resume": _resume,
    "replan": _replan,
    "end": _end,
    "again": _again,
    "unblock": _unblock,
    "restore": _restore,
    "merged": _nothing,
    "term": _nothing,
}
_RESTORED = {
    "open": (What.PUSHED_AGAIN, "uncertain"),
    "skipped": (What.SKIPPED, "uncertain"),
    "held": (What.HELD, "uncertain"),
    "refused": (What.QUARANTINED, "it was not over when Redis lost it, and cannot be pushed: its queue is broken"),
    "gone": (What.WITHDRAWN, ""),
}
_OUTCOMES_OF_RESTORE = frozenset(place.encode() for place in _RESTORED)
_ADVANCED: dict[str, tuple[What | None, str]] = {  # words of advance.lua
    "passed": (None, ""),  # says nothing but what passed
    "fired": (What.FIRED, ""),
    "uncertain": (What.FIRED, "uncertain"),
    "skipped": (What.SKIPPED, "uncertain"),
    "overlap": (What.SKIPPED, "overlap: {} was still open"),
    "deferred": (What.FIRED, WAITS_FOR + "{}"),
    "expired": (What.EXPIRED, ""),
    "duplicate": (What.DUPLICATE, ""),
    "quarantined": (What.QUARANTINED, ""),
}


def _one(entry: Entry, id: str, what: What, **more: Any) -> Change:
    return Change(id, what, entry.position.t_us, entry.position.id, **more)


def _of_run(entry: Entry, run_id: str, what: What, why: str) -> Change:
    id = schedule_of(run_id)
    return _of_key(entry, (id, run_id[len(id) + 1 :]), what, why)


def _of_key(entry: Entry, key: RunKey, what: What, why: str) -> Change:
    id, run = key
    return _one(entry, id, what, run_id=f"{id}-{run}", nominal_ms=milliseconds(run.partition("-")[0]), why=why)


def _shown(ms: int | None) -> str | None:
    """What a foreign hand wrote is brought into the range of time."""
    return None if ms is None else iso(min(max(ms, 0), LAST_MS))


def _value(pairs: Texts, name: bytes) -> str | None:
    found = dict(zip(pairs[::2], pairs[1::2], strict=False)).get(name)
    return None if found is None else text(found)
