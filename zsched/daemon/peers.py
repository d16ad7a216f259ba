"""
Help for archives that were away, by an archive that follows the log: it corrects their restores, and covers their ends.

**Correction** of a ``restore`` by another archive, if this archive's history has a later change (rule: CORRECTS). An
archive that was away when Redis lost everything restores its own data. Some of that was cancelled or fired since. It
waits for the other archives (``daemon.recovery``), but not forever. So an archive that follows the log reads another
archive's ``restore`` before it takes it in. If its own history has a later change of the schedule (BY_ORDER), it
answers with its own ``restore``: a schedule that is over is removed, any other is restored in its last state. The judge
is that of a merge (``core.recovery.difference.lacking``): a run that was fired and is not over is marked by fire if it
waits. If it is in its queue, it is marked and stays there.

NEWEST_ONLY  The answer is given only while the ``restore`` is the newest entry of the schedule (lib/behind.lua). A
             client's later change stays. If the leader fired the schedule meanwhile, the answer can only remove it, if
             it is over: a cancelled rule must not fire forever.
TOLD_ONCE    A change that a ``restore`` in this log already repeated is not repeated again. A schedule has a finite
             number of changes, so corrections end, however the clocks of the histories differ.

A change that is in this log needs no answer: the archive that restored has read this log.

With a slow archiver and a busy log an answer takes time. It is given in slices. Between two slices the archiver
reports, holds fire and may be stopped. Nothing is noted on disk. The archive's position stays before the ``restore``
until the answer is in the log, so a daemon that returns after a crash reads the ``restore`` again.

**Covering** (rule: MERGED_COVERS). An archive that reports a position that is not in this log has lost its place. If
this archive had that position before, the other archive has nothing that is missing here, and a ``merged`` entry
records that. This archive's report lists the checked positions, so other archives stop waiting for it (rule: WAIT).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

import structlog

from zsched.archive import Archive
from zsched.core.clock import Clock
from zsched.core.entry import Entry, Position, UnknownEntry
from zsched.core.log.kinds import is_leaders, kinds_telling_only, touches
from zsched.core.log.puts import RestoreEntry, restored
from zsched.core.occurrences.outcomes import OF_RUNS
from zsched.core.record import Record
from zsched.core.recovery.difference import Branch, Recalled
from zsched.daemon.merge import PAGE
from zsched.daemon.reconciler import Reconciler, lacking_rows
from zsched.daemon.recovery import SLICE_MS, Recovery
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.records import Scanner
from zsched.storage.restoring import Restoring

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 250.0  # between two checks of other archives' reports


class Correction:
    """
    Corrections by *archive* over one wire: of the schedules in others' restores for which its history has a later
    change. After each, nothing fires for *hold_for_ms*. *pause* is called every 200 ms during a correction; its
    exception ends the correction.
    """

    def __init__(
        self, archive: Archive, wire: Wire, keys: Keys, clock: Clock, pause: Callable[[], None], *, hold_for_ms: int
    ) -> None:
        self._archive, self._clock, self._pause = archive, clock, pause
        self._wire, self._keys, self._log, self._scanner = wire, keys, Log(wire, keys), Scanner(wire, keys)
        self._restoring = Restoring(wire, keys, archive.id, "corrected", hold_for_ms)

    def concerns(self, entry: Entry) -> bool:
        """Return True if *entry* is a ``restore`` of another archive, to be checked before it is taken in."""
        restore = RestoreEntry.of(entry)
        return restore is not None and restore.archive not in ("", self._archive.id) and bool(self._archive.position)

    def answer(self, entries: Sequence[Entry]) -> None:
        """
        Correct the schedules in *entries* for which this archive's history has a later change. The first of *entries*
        ``concerns`` this archive, and none of them is in its state yet.

        Raises:
            HistoryChanged: the log no longer continues from what was read.
            RedisUnavailable, RedisRefused, ArchiveCorrupt, ArchiveFailed.
        """
        self._recall, self._corrected = self._archive.recall(), 0
        self._better: dict[str, int] = {}  # by id: t in µs of the last known change
        self._went_on: set[str] = set()  # schedules that the leader changed since the restore
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        for _ in self._steps(entries):
            if self._clock.monotonic_ms() >= until_ms:
                self._pause()
                until_ms = self._clock.monotonic_ms() + SLICE_MS

    # -- the policy of one answer -------------------------------------------------------------------

    def _steps(self, entries: Sequence[Entry]) -> Iterator[None]:
        """Correct *entries*, in parts."""
        for entry in entries:
            self.add_entry(entry)
            if self.concerns(entry):
                yield from self._add_lost(self._recall.better(_rows_of(entry)))
        reconciler = Reconciler(self._log, self._scanner, self._restoring, self, entries[-1].position)
        while self._better:
            yield from reconciler.catch_up()
            page = {id: self._better[id] for id in islice(self._better, PAGE)}
            new = dict[str, int]()
            for id, t_us in page.items():
                if not any(map(self._log.contains, self._recall.restored_at(id, t_us))):  # no ``restore`` repeated it
                    new[id] = t_us
                yield
            known = self._recall.known(new, {(id, ""): t_us for id, t_us in new.items()})
            yield from reconciler.reconcile([_dated(one, new[one.id]) for one in known])
            for id in page:
                self._better.pop(id, None)
        if self._corrected:
            log.warning("restore_corrected", archive=str(self._archive.path), schedules=self._corrected)

    def add_entry(self, entry: Entry) -> set[str]:
        """
        Leave out the schedules that *entry* changed. If the leader changed them, only note that. A restore of runs
        changes no schedule: another entry of the same restorer has their schedules.
        """
        try:
            keys = [key for key, _ in touches(entry, self._keys.run_suffix)]
        except UnknownEntry:  # of a newer version: its schedules are not known here
            return set()
        touched = {id for id, run in keys if not run or entry.kind != RestoreEntry.kind}
        if is_leaders(entry) or entry.kind in kinds_telling_only(OF_RUNS):
            self._went_on |= touched
        else:
            self._went_on -= touched
            for id in touched:
                self._better.pop(id, None)
        return {id for id, _ in keys}

    def judge(self, page: Sequence[Recalled], held: Mapping[str, Record]) -> list[Record]:
        """Return the rows with the data of this history. A schedule that the leader changed can only be removed."""
        page = [recalled for recalled in page if recalled.id in self._better]
        rows = lacking_rows(self._wire, self._keys, page, held, Branch())
        return [row for row in rows if row.place == "gone" or row.id not in self._went_on]

    def record_restored(self, rows: Sequence[Record]) -> None:
        """Count the restored *rows*."""
        self._corrected += len(rows)

    def _add_lost(self, found: dict[str, tuple[int, Position]]) -> Iterator[None]:
        """Add changes of *found* that this log lacks. The restorer has read the others in it (COMPARE_AND_SET)."""
        for id, (t_us, at) in found.items():
            if not self._log.contains(at):
                self._better[id] = t_us
            yield


def _rows_of(entry: Entry) -> list[tuple[str, int]]:
    """Return the schedules that a ``restore`` restored or removed, each with the t of the repeated change."""
    with suppress(UnknownEntry):
        return [(row.id, row.t_us) for row in restored(entry) if row.is_schedule]
    return []


def _dated(recalled: Recalled, t_us: int) -> Recalled:
    """Return *recalled* with the time of its last change. A state read by a bootstrap has the bootstrap's time."""
    schedule = recalled.schedule
    return recalled if schedule is None else replace(recalled, schedule=replace(schedule, t_us=t_us))


class Covering:
    """
    Checks other archives' lost positions, for *archive*. ``looked_at``: lost positions that it has checked, so their
    archives need not wait for it. Ends that *recovery* named in its own ``merged`` entry are not named again.
    """

    def __init__(self, archive: Archive, wire: Wire, keys: Keys, recovery: Recovery, clock: Clock) -> None:
        self._archive, self._recovery, self._clock = archive, recovery, clock
        self._log, self._archivers = Log(wire, keys), Archivers(wire, keys)
        self._restoring = Restoring(wire, keys, archive.id, "lost", 0)
        self._covered: set[Position] = set()  # named by our own ``merged`` entries
        self._next_ms = 0.0
        self.looked_at: frozenset[Position] = frozenset()

    def forget(self) -> None:
        """Forget all covered positions: the log that named them may be gone."""
        self._covered.clear()
        self.looked_at = frozenset()

    def step(self) -> None:
        """Check the reports, at most every 250 ms. Name the lost positions that this history has."""
        if (now_ms := self._clock.monotonic_ms()) < self._next_ms:
            return
        self._next_ms = now_ms + _EVERY_MS
        reports = self._archivers.reports()
        lost = {report.position for report in reports if report.state is ArchiveState.LOST and report.position}
        if not lost:
            self.looked_at = frozenset()
            return
        recall = self._archive.recall()
        left = lost - self._covered - self._recovery.covered
        ours = [one for one in left if recall.number_of(one) and not self._log.contains(one)]
        if ours and self._restoring.merged(ours, self._archive.position):
            self._covered |= set(ours)
        self.looked_at = frozenset(lost.difference(ours) | self._covered.intersection(ours))
