"""
The decision of a merge, row by row: what must be restored in a Redis that lost data? And the compared values. Pure.

An archive compares its knowledge with the contents of Redis, but only where the two histories differ: for ids that its
own history changed after the last common entry. Ids that the new history changed since then (the *branch*) are not
restored, unless an archive with less knowledge put them there (``t`` of the restored row decides). Each rule has a
name, by which ``tests/model`` leaves it out to show that it is needed.

Recalled is not frozen, like a record: a merge makes one for each schedule.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from zsched.core.entry import Entry, Position
from zsched.core.log.kinds import parse
from zsched.core.log.lives import EndEntry
from zsched.core.log.puts import MergedEntry, RestoreEntry
from zsched.core.record import Key, Place, Record
from zsched.core.runs.job import JobFacts, rq_time
from zsched.core.runs.run import Run, RunStatus, of_job

# RQ's status of a run that ended; of the others it is failed.
_JOB_STATUSES: Final = {
    RunStatus.SUCCEEDED: "finished", RunStatus.CANCELLED: "canceled", RunStatus.EXPIRED: "canceled",
}  # fmt: skip
_FOR_GOOD: Final = 1 << 63  # µs: later than any time in an archive


class Verdict(Enum):
    """The reason why the log does not continue after an archive's last entry."""

    LOST = "lost"  # Redis lost entries that this archive has: restore them
    LEFT_BEHIND = "left behind"  # entries that this archive lacks were trimmed from the log
    UNRELATED = "unrelated"  # Redis has another data set


def is_same_set(gen: str | None, gens: Collection[str]) -> bool:
    """
    Return True if a data set with the names *gen* (separated by blanks; None: no name) may be the one that an archive
    followed under the names *gens*. If one side has no name, only the address can decide (``archive.places``).
    """
    return not gen or not gens or not set(gens).isdisjoint(gen.split())


def judge(mine: Position, first: Position | None, *, is_same_set: bool) -> Verdict:
    """
    Decide what happened, from the archive's position, the log's *first* entry (None: it is empty) and *is_same_set*.

    A name that the archive never followed belongs to another data set, regardless of the log (rule: NAME). A log that
    begins with seq 1 is complete (rule: COMPLETE). An incomplete log with a first entry later than the archive's last
    one continued without the archive, regardless of ids (rule: PASSED_BY_TIME).
    """
    if not is_same_set:
        return Verdict.UNRELATED
    if first is not None and first.seq != 1 and first.t_us > mine.t_us:
        return Verdict.LEFT_BEHIND
    return Verdict.LOST


@dataclass(slots=True)
class Recalled:
    """
    An archive's knowledge of one schedule id. ``schedule`` is None if it is gone (fired, cancelled, taken out);
    ``gone_us`` is since when, None if not needed. ``runs``: its open runs; ``unchanged``: those that the new history
    has as well. ``over``: runs that ended after the last common entry, each as the row that tells that Redis has or had
    it once more, and as it ended.
    """

    id: str
    schedule: Record | None
    gone_us: int | None
    runs: Sequence[Record]
    unchanged: Set[str] = frozenset()
    over: Sequence[tuple[Record, Run]] = ()


class Branch:
    """The log's entries behind the last one that an archive knows (rules: BRANCH, LATEST_CHANGE, MERGED_COVERS)."""

    def __init__(self) -> None:
        self._touched: dict[Key, int] = {}
        self._taken: dict[Key, int] = {}
        self._untold: list[Record] = []  # rows whose keys are not in _taken yet
        self._open: set[Key] = set()  # runs that a restore reported as open here
        self._began: dict[Key, int] = {}  # runs that ended here: the start of the last attempt in ms, 0 if unknown
        self.merged: list[Position] = []  # ends of histories that archives have merged into this one
        self.restored: tuple[Position, str] | None = None  # the last restore: its entry, and the archive

    def add(self, entry: Entry, run_suffix: str) -> set[str]:
        """Add an entry, in any order, and return the schedule ids that it changed. Raises UnknownEntry."""
        if end := EndEntry.of(entry):
            with end:
                for (key, _, _), run in zip(end.run_rows, end.ended_runs(), strict=True):
                    self._began[key] = max(run.started_ms or 0, self._began.get(key, 0))
                return {id for (id, _), _, _ in end.run_rows}
        restore, touched = RestoreEntry.of(entry), set[str]()
        with restore or parse(entry, run_suffix) as parsed:
            for key, t_us in parsed.touches():
                self._touched[key] = max(self._touched.get(key, 0), t_us if restore else _FOR_GOOD)
                touched.add(key[0])
        if merged := MergedEntry.of(entry):
            self.merged += merged.positions()
        elif restore:
            self._open |= {(row.id, row.run) for _, row in restore.found if row.is_open}
            if self.restored is None or self.restored[0].order < entry.position.order:
                self.restored = entry.position, restore.archive
        return touched

    def take(self, rows: Iterable[Record]) -> None:
        """Add rows that the archive itself restored, until ``forget_taken``."""
        self._untold += rows

    def forget_taken(self) -> None:
        """Forget the rows that ``take`` added."""
        self._untold.clear()
        self._taken.clear()

    def ran_again(self, over: Record, run: Run) -> bool:
        """Return True if a worker began the run *over* after that start, and it ended here without a push."""
        return self._began.get(over.key, 0) > _started_ms(over, run) and not self._is_changed(over.key, over.t_us)

    def is_newer(self, key: Key, t_us: int) -> bool:
        """
        Return True if the new history's state at *key* wins over a change of *t_us*. An open run always wins: an
        archive that began later has a later t for the same push.
        """
        return key in self._began or self._is_changed(key, t_us)

    def _is_changed(self, key: Key, t_us: int) -> bool:
        if self._untold:  # seldom: a page is compared again only if others changed its schedules
            self._taken.update((key, row.t_us) for row in self._untold for key in row.changed_keys())
            self._untold.clear()
        return self._touched.get(key, -1) >= t_us or self._taken.get(key, -1) >= t_us or key in self._open


def lacking(recalled: Recalled, here: Record | None, branch: Branch, doubt_ms: int | None = None) -> list[Record]:
    """
    Return the rows that Redis lacks to hold what is *recalled*.

    *here*: the schedule in Redis. *doubt_ms*: schedules due until then are marked as uncertain when they fire; None:
    all. RQ's jobs are not considered here: a worker may write to its job at any moment, so restore.lua checks them.
    """
    schedule = _schedule(recalled, here, branch, doubt_ms)
    rows = [] if schedule is None else [schedule]
    is_leaving, has_job = schedule is not None, here is not None and bool(here.job)
    for run in recalled.runs:
        waits = here is not None and here.run == run.run
        if waits and has_job and not is_leaving:
            continue  # it is marked when it fires
        if run.run in recalled.unchanged and not (waits and is_leaving):
            continue  # it exists unchanged; otherwise it waited, and will not be marked by a later fire
        if not branch.is_newer((run.id, run.run), run.t_us):
            rows.append(_run(run))
    return rows


def _schedule(recalled: Recalled, here: Record | None, branch: Branch, doubt_ms: int | None) -> Record | None:
    """Return the row that restores the schedule; None if nothing has to be restored."""
    if (known := recalled.schedule) is not None:
        is_there = here is not None and here.is_same(known)
        return None if is_there or branch.is_newer((recalled.id, ""), known.t_us) else restored_row(known)
    if here is None or recalled.gone_us is None or branch.is_newer((recalled.id, ""), recalled.gone_us):
        return None
    is_doubtful = doubt_ms is None or (here.due_ms is not None and here.due_ms <= doubt_ms)
    if here.place == Place.DUE and is_doubtful and any(run.run == here.run for run in recalled.runs):
        return None  # it fired in the lost history and was open: here it waits, and fire will mark it
    return Record(recalled.id, here.run, Place.GONE, here.lane, here.due_ms, (), t_us=recalled.gone_us)


def over_row(over: Record, run: Run, job: JobFacts | None) -> Record | None:
    """
    Return the row *over* of a run that is over, if RQ has it once more in its hash *job*: Redis went back to a time
    before that end. None if it has not. A worker that began it after that start executes it again. If no worker did,
    the row's note says how the job ends; see restore.lua.
    """
    seen = of_job(run.id, job, None)
    began_again = seen.started_ms is not None and seen.started_ms > _started_ms(over, run)
    if job is None or (seen.is_over and not began_again):
        return None
    if seen.status is not RunStatus.RUNNING or began_again:
        return over
    ended_at = rq_time(over.t_us // 1000 if run.ended_ms is None else run.ended_ms)
    return replace(over, note=f"{job.started_at} {_JOB_STATUSES.get(run.status, 'failed')} {ended_at}")


def _started_ms(over: Record, run: Run) -> int:
    """Return the start of its last attempt, or its end if no start was recorded."""
    times_ms = run.started_ms, run.ended_ms, over.t_us // 1000
    return next(ms for ms in times_ms if ms is not None)


def restored_row(known: Record) -> Record:
    """Return a schedule as it was *known*, as a row of a restore."""
    row, since_ms = known.to_keep(), known.t_us // 1000
    if row.place == Place.DUE and not row.is_at_its_time:
        return replace(row, place=Place.QUARANTINE, note=f"{since_ms} its due time is not valid")
    if row.place in (Place.PAUSED, Place.QUARANTINE) and not row.note:
        return replace(row, note=f"{since_ms} ")
    return row


def _run(run: Record) -> Record:
    """Return the row of an open run: it is pushed again, unless RQ has it or its schedule's policy forbids it."""
    flags = run.own_fields().get(b"flags", b"")
    is_skipped = b"s" in run.job_fields().get(b"zs", b"") + flags
    place, own = Place.SKIPPED if is_skipped else Place.OPEN, [b"flags", flags] if flags else ()
    return replace(run.to_keep(), place=place, own=own)
