"""
What a Redis that lost something lacks: the decision of a merge, row by row. Pure.

One archive compares what it knows with what Redis holds, and only where the two histories differ: ids that its
own history touched after the last entry that both have. What the new history touched since then (the *branch*)
is left alone, unless an archive that knew less put it there (``t`` of the restored row decides). Each rule has
the name by which ``tests/model`` leaves it out, to show that it is needed.

A *key* is a schedule, (id, ''), or a run, (id, what follows it in the run id). A one-shot that waits is touched
under both.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from zsched.core.held import Held
from zsched.core.log import (
    Entry,
    Position,
    Puts,
    Restored,
    advanced,
    ended,
    merged,
    milliseconds,
    quarantined,
    reading,
    require_known,
    restored,
    text,
)
from zsched.core.run_id import schedule_of

Key = tuple[str, str]
_SKEW_US: Final = 60_000_000  # that clocks of two servers may differ by
_FOR_GOOD: Final = 1 << 63  # µs: later than all that an archive knows


class Verdict(Enum):
    """What it means that the log does not go on from where an archive is."""

    LOST = "lost"  # Redis lost what this archive has: put it back
    LEFT_BEHIND = "left behind"  # the log was trimmed past it, so what became of its last entries is not known
    UNRELATED = "unrelated"  # this is another data set


def judge(mine: Position, first: Position | None, *, is_known: bool, is_same_set: bool) -> Verdict:
    """
    What happened, by the archive's position and the log's *first* entry (None: it is empty). *is_known*: the log has
    something of the archive's history, or a ``merged`` entry names it; *is_same_set*: it is called ``gen`` as the
    archive knows it.

    A log is complete when it begins with seq 1 (rule: COMPLETE). One that is not, and whose first entry is later than
    the archive's last, went on without it, whatever ids say (rule: PASSED_BY_TIME). One that began before that and has
    nothing of the archive's history never was its own, unless it is called so.
    """
    if first is None:
        return Verdict.LOST
    if first.seq != 1 and first.t_us > mine.t_us:
        return Verdict.LEFT_BEHIND if is_known or is_same_set else Verdict.UNRELATED
    is_later = first.seq == 1 and first.t_us + _SKEW_US >= mine.t_us
    return Verdict.LOST if is_known or is_same_set or is_later else Verdict.UNRELATED


class Touch(NamedTuple):
    """An entry changed what is at *key*; ``t_us`` of a restored row is that of the change that it repeats."""

    key: Key
    t_us: int
    is_restored: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A row of an archive's state, and when its last change was; unless ``is_touched`` both histories have that."""

    held: Held
    t_us: int
    is_touched: bool = True


@dataclass(frozen=True, slots=True)
class Mine:
    """
    What an archive knows of one schedule id. ``schedule`` is None when it is gone: fired, cancelled, taken out; since
    ``gone_us``, None when that is no matter here. ``runs``: those that were fired and not over.
    """

    id: str
    schedule: Known | None
    gone_us: int | None
    runs: tuple[Known, ...]


class Branch:
    """What the log has behind the last entry that an archive knows (rules: BRANCH, LATEST_CHANGE, MERGED_COVERS)."""

    def __init__(self) -> None:
        self._touched: dict[Key, int] = {}
        self.merged: list[Position] = []  # ends of histories that are in this one, by their archives' word
        self.restored: tuple[Position, str] | None = None  # the last that was put back: entry, and whose knowledge

    def add(self, entry: Entry, run_suffix: str) -> set[str]:
        """Take in an entry, in any order; the schedule ids that it touched. Raises UnknownEntry."""
        touched = {self._touch(touch) for touch in touches(entry, run_suffix)}
        if entry.kind == "merged":
            self.merged += merged(entry)
        elif entry.kind == "restore" and (self.restored is None or self.restored[0].order < entry.position.order):
            self.restored = entry.position, text(entry.body[3])
        return touched

    def take(self, rows: Iterable[Restored]) -> None:
        """Take in what the archive itself put back."""
        for row in rows:
            for touch in _of_restored(row):
                self._touch(touch)

    def _touch(self, touch: Touch) -> str:
        t_us = touch.t_us if touch.is_restored else _FOR_GOOD
        self._touched[touch.key] = max(self._touched.get(touch.key, 0), t_us)
        return touch.key[0]

    def is_newer(self, key: Key, t_us: int) -> bool:
        """Whether what the new history has at *key* stands, against a change of *t_us*."""
        return self._touched.get(key, -1) >= t_us


def lacking(mine: Mine, there: Held | None, jobs: Container[str], branch: Branch) -> Iterator[Restored]:
    """
    What Redis needs to hold what *mine* says. *there*: the schedule as Redis holds it; *jobs*: those of the runs in
    *mine* whose jobs are there, by what follows the id.
    """
    leaving = None  # the run that waits there, and will not any more
    schedule = _schedule(mine, there, branch)
    if schedule is not None:
        yield schedule
        leaving = there.run if there is not None else None
    for run in mine.runs:
        held = run.held
        if not run.is_touched and held.run != leaving:
            continue  # there as it was; else it waited, to be marked when it fires, and will not any more
        is_there = held.run in jobs and held.run != leaving
        if not is_there and not branch.is_newer((mine.id, held.run), run.t_us):
            yield _run(run)


def _schedule(mine: Mine, there: Held | None, branch: Branch) -> Restored | None:
    """What must become of the schedule; None when nothing must."""
    key = (mine.id, "")
    if mine.schedule is not None:
        known = mine.schedule
        if branch.is_newer(key, known.t_us) or (there is not None and there.is_same(known.held)):
            return None
        return row_of(known)
    if there is None or mine.gone_us is None or branch.is_newer(key, mine.gone_us):
        return None
    if there.place == "due" and any(run.held.run == there.run for run in mine.runs):
        return None  # it fired in the lost history and was not over: it waits here, and fire will mark it
    return Restored(mine.id, there.run, "gone", there.lane, there.due_ms, mine.gone_us, None, (), ())


def row_of(known: Known) -> Restored:
    """A schedule as it was, as a row of a restore."""
    held = known.held
    place, note, since_ms = held.place, held.note, known.t_us // 1000
    if place == "due" and held.due_ms is None:  # a foreign hand's: no lane takes it
        place, note = "quarantine", f"{since_ms} its due time is none"
    elif place in ("paused", "quarantine") and not note:
        note = f"{since_ms} "
    job, own_texts = held.job_asked_for(), list[bytes]()
    if held.run == "":
        fields, own = held.asked_for()
        moving = {"nominal": held.nominal_ms, "last": held.last}
        own |= {name: str(value).encode() for name, value in moving.items() if value is not None}
        own |= {name: value for name, value in held.split()[1].items() if name in ("created_at", "updated_at")}
        if place == "ended":
            own["ended_at"] = str(since_ms).encode()
        job, own_texts = _texts(fields), _texts(own)
    return Restored(held.id, held.run, place, held.lane, held.due_ms, known.t_us, note, job, own_texts)


def _run(known: Known) -> Restored:
    """A run that was fired and not over: it is pushed again, or its schedule says that it must not be."""
    held = known.held
    job, own = held.asked_for()
    is_skipped = b"s" in job.get("zs", b"") + own.get("flags", b"")
    place = "skipped" if is_skipped else "open"
    flags = {"flags": own["flags"]} if own.get("flags") else {}
    return Restored(held.id, held.run, place, held.lane, held.due_ms, known.t_us, None, _texts(job), _texts(flags))


def _texts(fields: dict[str, bytes]) -> list[bytes]:
    return [each for name, value in fields.items() for each in (name.encode(), value)]


# -- what entries touch ---------------------------------------------------------------------------


def touches(entry: Entry, run_suffix: str) -> Iterator[Touch]:
    """
    What *entry* changed. *run_suffix* is the namespace's part of run ids.

    Raises:
        UnknownEntry: its kind or form is not known here.
    """
    require_known(entry)
    if entry.kind == "restore":
        for _, row in restored(entry):
            yield from _of_restored(row)
        return
    with reading(entry):
        for id, run in _KEYS[entry.kind](entry, run_suffix):
            yield Touch((id, run), entry.position.t_us)


def _of_restored(row: Restored) -> Iterator[Touch]:
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
    yield from _of_run(text(entry.body[1]))


def _run_now(entry: Entry, _: str) -> Iterator[Key]:
    fields = entry.fields()
    id, run_id = text(fields[b"id"]), text(fields[b"run"])
    yield id, ""
    yield id, run_id[len(id) + 1 :]


def _fire(entry: Entry, _: str) -> Iterator[Key]:
    fields = entry.fields()
    for name in (b"runs", b"skipped", b"cancelled"):
        for word in text(fields.get(name, b"")).split():
            yield from _of_run(word.partition("=")[0])
    for id, *_rest in quarantined(fields.get(b"quarantined")):
        yield id, ""


def _advance(entry: Entry, suffix: str) -> Iterator[Key]:
    for row in advanced(entry):
        yield row.id, ""
        yield row.id, f"{row.nominal_ms}{suffix}"


def _quarantine(entry: Entry, _: str) -> Iterator[Key]:
    for id, *_rest in quarantined(entry.fields()[b"rows"]):
        yield id, ""


def _end(entry: Entry, _: str) -> Iterator[Key]:
    for row in ended(entry):
        id = schedule_of(row.run_id)
        yield id, row.run_id[len(id) + 1 :]


def _nothing(entry: Entry, _: str) -> Iterator[Key]:
    return iter(())


_KEYS: dict[str, Callable[[Entry, str], Iterator[Key]]] = {
    "put": _put,
    "put_recurring": _of_id,
    "enqueue": _enqueue,
    "run_now": _run_now,
    "fire": _fire,
    "advance": _advance,
    "quarantine": _quarantine,
    "cancel": _cancel,
    "pause": _of_id,
    "resume": _of_id,
    "end": _end,
    "merged": _nothing,
    "term": _nothing,
}
