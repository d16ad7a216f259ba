"""
The decision of a merge, row by row: what a Redis that lost something lacks. Pure.

One archive compares what it knows with what Redis holds, and only where the two histories differ: ids that its
own history touched after the last entry that both have. What the new history touched since then (the *branch*)
is left alone, unless an archive that knew less put it there (``t`` of the restored row decides). Each rule has
the name by which ``tests/model`` leaves it out, to show that it is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from zsched.core.held import Held
from zsched.core.log import Entry, Key, Position, Touch, touches
from zsched.core.log.recovery import MergedEntry, Restored, RestoreEntry

_FOR_GOOD: Final = 1 << 63  # µs: later than all that an archive knows


class Verdict(Enum):
    """The reason why the log does not go on from where an archive is."""

    LOST = "lost"  # Redis lost what this archive has: put it back
    LEFT_BEHIND = "left behind"  # the log was trimmed past it, so what became of its last entries is not known
    UNRELATED = "unrelated"  # this is another data set


def is_same_set(gen: str | None, gens: Collection[str]) -> bool:
    """
    Return True if a data set with the names *gen* (separated by blanks; None: no name) may be the one that an archive
    followed under the names *gens*. If one side has no name, only the address tells (``archive.places``).
    """
    return not gen or not gens or not set(gens).isdisjoint(gen.split())


def judge(mine: Position, first: Position | None, *, is_same_set: bool) -> Verdict:
    """
    Decide what happened, from the archive's position, the log's *first* entry (None: it is empty) and *is_same_set*.

    A name that the archive never followed is another data set's, whatever the log looks like (rule: NAME). A log is
    complete when it begins with seq 1 (rule: COMPLETE). One that is not, and whose first entry is later than the
    archive's last, went on without it, whatever ids say (rule: PASSED_BY_TIME).
    """
    if not is_same_set:
        return Verdict.UNRELATED
    if first is not None and first.seq != 1 and first.t_us > mine.t_us:
        return Verdict.LEFT_BEHIND
    return Verdict.LOST


@dataclass(frozen=True, slots=True)
class Known:
    """A row of an archive's state, and when its last change was; unless ``is_touched`` both histories have that."""

    held: Held
    t_us: int
    is_touched: bool = True


@dataclass(frozen=True, slots=True)
class Mine:
    """
    An archive's knowledge of one schedule id. ``schedule`` is None when it is gone: fired, cancelled, taken out; since
    ``gone_us``, None when that is no matter here. ``runs``: those that were fired and not over.
    """

    id: str
    schedule: Known | None
    gone_us: int | None
    runs: tuple[Known, ...]


class Branch:
    """The log's entries behind the last one that an archive knows (rules: BRANCH, LATEST_CHANGE, MERGED_COVERS)."""

    def __init__(self) -> None:
        self._touched: dict[Key, int] = {}
        self._taken: dict[Key, int] = {}
        self._open: set[Key] = set()  # runs that a restore told to be open here
        self.merged: list[Position] = []  # ends of histories that are in this one, by their archives' word
        self.restored: tuple[Position, str] | None = None  # the last that was put back: entry, and whose knowledge

    def add(self, entry: Entry, run_suffix: str) -> set[str]:
        """Take in an entry, in any order; the schedule ids that it touched. Raises UnknownEntry."""
        touched = {self._touch(touch) for touch in touches(entry, run_suffix)}
        if merged := MergedEntry.of(entry):
            self.merged += merged.positions()
        elif restore := RestoreEntry.of(entry):
            self._open |= {(row.id, row.run) for _, row in restore.restored if row.is_open}
            if self.restored is None or self.restored[0].order < entry.position.order:
                self.restored = entry.position, restore.archive
        return touched

    def take(self, rows: Iterable[Restored]) -> None:
        """Take in what the archive itself put back, until ``forget_taken``."""
        self._taken.update((touch.key, touch.t_us) for row in rows for touch in row.touches())

    def forget_taken(self) -> None:
        """Compare no more with what was taken."""
        self._taken.clear()

    def _touch(self, touch: Touch) -> str:
        t_us = touch.t_us if touch.is_restored else _FOR_GOOD
        self._touched[touch.key] = max(self._touched.get(touch.key, 0), t_us)
        return touch.key[0]

    def is_newer(self, key: Key, t_us: int) -> bool:
        """
        Return True if the new history's state at *key* stands against a change of *t_us*. An open run stands against
        any: an archive that began later has a later t of the same push.
        """
        return key in self._open or max(self._touched.get(key, -1), self._taken.get(key, -1)) >= t_us


def lacking(mine: Mine, there: Held | None, branch: Branch, doubt_ms: int | None = None) -> Iterator[Restored]:
    """
    Yield the rows that Redis needs to hold what *mine* says. *there*: the schedule as Redis holds it; *doubt_ms*: what
    is due until then is marked when it fires, None: all of it.

    Whether RQ has a run is no matter here. A worker may write to its job at any moment, so restore.lua looks.
    """
    schedule = _schedule(mine, there, branch, doubt_ms)
    if schedule is not None:
        yield schedule
    is_leaving, has_job = schedule is not None, there is not None and bool(there.record)
    for run in mine.runs:
        waits = there is not None and there.run == run.held.run
        if waits and has_job and not is_leaving:
            continue  # it is marked when it fires
        if not run.is_touched and not (waits and is_leaving):
            continue  # there as it was; else it waited, to be marked when it fires, and will not any more
        if not branch.is_newer((mine.id, run.held.run), run.t_us):
            yield _run(run)


def _schedule(mine: Mine, there: Held | None, branch: Branch, doubt_ms: int | None) -> Restored | None:
    """Return the row for the schedule; None when nothing must change."""
    key = (mine.id, "")
    if mine.schedule is not None:
        known = mine.schedule
        if branch.is_newer(key, known.t_us) or (there is not None and there.is_same(known.held)):
            return None
        return restored_row(known)
    if there is None or mine.gone_us is None or branch.is_newer(key, mine.gone_us):
        return None
    is_doubtful = doubt_ms is None or (there.due_ms is not None and there.due_ms <= doubt_ms)
    if there.place == "due" and is_doubtful and any(run.held.run == there.run for run in mine.runs):
        return None  # it fired in the lost history and was not over: it waits here, and fire will mark it
    return Restored(mine.id, there.run, "gone", there.lane, there.due_ms, mine.gone_us, None, (), ())


def restored_row(known: Known) -> Restored:
    """A schedule as it was, as a row of a restore."""
    held = known.held
    place, note, since_ms = held.place, held.note, known.t_us // 1000
    if place == "due" and held.due_ms is None:  # another writer's: no lane takes it
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
    """A run that was fired and not over: it is pushed again, or its schedule says no, unless RQ has it already."""
    held = known.held
    job, own = held.asked_for()
    is_skipped = b"s" in job.get("zs", b"") + own.get("flags", b"")
    place = "skipped" if is_skipped else "open"
    flags = {"flags": own["flags"]} if own.get("flags") else {}
    return Restored(held.id, held.run, place, held.lane, held.due_ms, known.t_us, None, _texts(job), _texts(flags))


def _texts(fields: dict[str, bytes]) -> list[bytes]:
    return [each for name, value in fields.items() for each in (name.encode(), value)]
