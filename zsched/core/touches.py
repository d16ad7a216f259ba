"""
Which schedules and runs an entry of the log changed: what a recovery has to look at, and what it leaves alone.

A *key* is a schedule, (id, ''), or a run, (id, what follows it in the run id). A one-shot that waits is touched
under both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from zsched.core.entries import (
    Backfilled,
    Enqueued,
    Fired,
    Puts,
    Restored,
    advanced,
    again,
    ended,
    quarantined,
    released,
    replanned,
    restored,
)
from zsched.core.log import Entry, milliseconds, reading, require_known, text
from zsched.core.run_id import schedule_of

Key = tuple[str, str]


class Touch(NamedTuple):
    """An entry changed what is at *key*; ``t_us`` of a restored row is that of the change that it repeats."""

    key: Key
    t_us: int
    is_restored: bool = False


def touches(entry: Entry, run_suffix: str) -> Iterator[Touch]:
    """
    What *entry* changed. *run_suffix* is the namespace's part of run ids.

    Raises:
        UnknownEntry: its kind or form is not known here.
    """
    require_known(entry)
    if entry.kind == "restore":
        for _, row in restored(entry):
            yield from of_restored(row)
        return
    with reading(entry):
        for id, run in _KEYS[entry.kind](entry, run_suffix):
            yield Touch((id, run), entry.position.t_us)


def of_restored(row: Restored) -> Iterator[Touch]:
    """What one row of a ``restore`` entry changed."""
    if row.is_schedule:
        yield Touch((row.id, ""), row.t_us, True)
    if row.run:
        yield Touch((row.id, row.run), row.t_us, True)


def _put(entry: Entry, suffix: str) -> Iterator[Key]:
    puts = Puts.of(entry)
    for id, due_ms in zip(puts.ids, puts.dues, strict=True):
        yield id, ""
        yield id, f"{due_ms}{suffix}"


def _of_id(entry: Entry, _: str) -> Iterator[Key]:
    yield text(dict(zip(entry.body[:2:2], entry.body[1:2:2], strict=True))[b"id"]), ""


def _cancel(entry: Entry, suffix: str) -> Iterator[Key]:
    fields = entry.fields()
    id, due_ms = text(fields[b"id"]), milliseconds(fields[b"due"])
    yield id, ""
    if due_ms is not None:
        yield id, f"{due_ms}{suffix}"


def _of_run(run_id: str) -> Iterator[Key]:
    id = schedule_of(run_id)
    yield id, ""
    yield id, run_id[len(id) + 1 :]


def _enqueue(entry: Entry, _: str) -> Iterator[Key]:
    enqueued = Enqueued.of(entry)
    for key in _of_run(enqueued.run_id):
        if key[1] or enqueued.retry_of is None:  # one that is retried leaves the schedule of its id alone
            yield key


def _run_now(entry: Entry, _: str) -> Iterator[Key]:
    fields = entry.fields()
    id, run_id = text(fields[b"id"]), text(fields[b"run"])
    yield id, ""
    yield id, run_id[len(id) + 1 :]


def _backfill(entry: Entry, _: str) -> Iterator[Key]:
    id, run_ids = Backfilled.of(entry)
    for run_id in run_ids:  # the schedule stays as it is
        yield id, run_id[len(id) + 1 :]


def _fire(entry: Entry, _: str) -> Iterator[Key]:
    fired = Fired.of(entry)
    for id, run in (*fired.runs, *fired.skipped, *fired.expired, *(key for key, _ in fired.cancelled)):
        yield id, ""
        yield id, run
    for row in fired.quarantined:
        yield row.id, ""


def _advance(entry: Entry, suffix: str) -> Iterator[Key]:
    for row in advanced(entry):
        yield row.id, ""
        if row.nominal_ms is not None:
            yield row.id, f"{row.nominal_ms}{suffix}"


def _quarantine(entry: Entry, _: str) -> Iterator[Key]:
    for id, *_rest in quarantined(entry.fields()[b"rows"]):
        yield id, ""


def _replan(entry: Entry, _: str) -> Iterator[Key]:
    for row in replanned(entry):
        yield row.id, ""


def _end(entry: Entry, _: str) -> Iterator[Key]:
    for row in ended(entry):
        id = schedule_of(row.run_id)
        yield id, row.run_id[len(id) + 1 :]


def _again(entry: Entry, _: str) -> Iterator[Key]:
    for row in again(entry):
        id = schedule_of(row.run_id)
        yield id, row.run_id[len(id) + 1 :]


def _unblock(entry: Entry, _: str) -> Iterator[Key]:
    for row in released(entry):
        id = schedule_of(row.run_id)
        yield id, row.run_id[len(id) + 1 :]


def _nothing(entry: Entry, _: str) -> Iterator[Key]:
    return iter(())


_KEYS: dict[str, Callable[[Entry, str], Iterator[Key]]] = {
    "put": _put,
    "put_recurring": _of_id,
    "enqueue": _enqueue,
    "run_now": _run_now,
    "backfill": _backfill,
    "fire": _fire,
    "advance": _advance,
    "quarantine": _quarantine,
    "cancel": _cancel,
    "pause": _of_id,
    "resume": _of_id,
    "replan": _replan,
    "end": _end,
    "again": _again,
    "unblock": _unblock,
    "merged": _nothing,
    "term": _nothing,
}
