"""
Help for archives that were away, by one that follows the log: it answers their restores, and covers their ends.

**Correction** of a ``restore`` by another archive, where this archive's history has a later change (rule: CORRECTS). An
archive that was away when Redis lost everything puts back what it knows. Some of that was cancelled or fired since. It
waits for the other archives (``daemon.recovery``), but not for ever. So an archive that follows reads the ``restore``
of another before it takes it in. If its own history has a later change of the schedule (BY_ORDER), it answers with a
``restore`` of its own: a schedule that is over is taken out, any other is put back as it was last. The judge is that of
a merge (``core.difference.lacking``): a run that was fired and is not over is marked by fire if it waits, and stays in
its queue, marked, if it is there.

NEWEST_ONLY  The answer is given only while the ``restore`` is the newest entry of the schedule (lib/behind.lua). A
             client's later change stands. A schedule that the leader fired meanwhile is only ever taken out, if it is
             over: a cancelled rule must not fire for ever.
TOLD_ONCE    A change that a ``restore`` in this log already repeated is not repeated again. A schedule has a finite
             number of changes, so corrections end, however the clocks of the histories disagree.

A change that this log contains is no reason for an answer: the archive that restored has read this log.

On a slow archiver and in a busy log an answer takes time. It is given in slices, between which the archiver reports,
holds fire and may be stopped. Nothing is noted on disk. The archive's position stays before the ``restore`` until the
answer is in the log, so a daemon that returns after a crash reads the ``restore`` again.

**Covering** (rule: MERGED_COVERS). An archive lost its place when it reports a position that this log does not have. If
this archive had that position before, the other one lacks nothing here, and a ``merged`` entry says so. The positions
that were looked at stand in this archive's report, so nobody waits for it any longer (rule: WAIT).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

import structlog

from zsched.archive import Archive
from zsched.core.changes import OF_RUNS
from zsched.core.clock import Clock
from zsched.core.difference import Branch, Held, Recalled
from zsched.core.log import Entry, Position, UnknownEntry, is_leaders, kinds_telling_only, touches
from zsched.core.log.recovery import Restored, RestoreEntry, restored
from zsched.daemon.reconciler import Reconciler, lacking_rows
from zsched.daemon.recovery import SLICE_MS, Recovery
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.restoring import Restoring
from zsched.storage.scanner import Scanner

log = structlog.get_logger(__name__)

_PAGE: Final = 200  # schedules compared at a time
_EVERY_MS: Final = 250.0  # between looks at others' reports


class Correction:
    """
    Corrections by *archive* over one wire. After each, nothing fires for *hold_for_ms*. *pause* is called every 200 ms
    while one is under way, and what it raises ends that.
    """

    def __init__(
        self, archive: Archive, wire: Wire, keys: Keys, clock: Clock, pause: Callable[[], None], *, hold_for_ms: int
    ) -> None:
        self._archive, self._clock, self._pause = archive, clock, pause
        self._wire, self._keys, self._hold_for_ms = wire, keys, hold_for_ms

    def concerns(self, entry: Entry) -> bool:
        """Return True if *entry* is a ``restore`` of another archive, to be checked before it is taken in."""
        restore = RestoreEntry.of(entry)
        by = restore.archive if restore else ""
        return by not in ("", self._archive.id) and self._archive.position is not None

    def answer(self, entries: Sequence[Entry]) -> None:
        """
        Correct the schedules in *entries* of which this archive's history has a later change. The first of *entries*
        ``concerns`` this archive, and none of them is in its state yet.

        Raises:
            HistoryChanged: the log went another way meanwhile.
            RedisUnavailable, RedisRefused, ArchiveCorrupt, ArchiveFailed.
        """
        answer = RestoreAnswer(self._archive, self._wire, self._keys, self._hold_for_ms)
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        for _ in answer.steps(entries, self.concerns):
            if self._clock.monotonic_ms() >= until_ms:
                self._pause()
                until_ms = self._clock.monotonic_ms() + SLICE_MS


class RestoreAnswer:
    """The scope of one answer: the schedules of others' restores of which the own history has a later change."""

    def __init__(self, archive: Archive, wire: Wire, keys: Keys, hold_for_ms: int) -> None:
        self._archive, self._recall, self._wire, self._keys = archive, archive.recall(), wire, keys
        self._log, self._scanner = Log(wire, keys), Scanner(wire, keys)
        self._restoring = Restoring(wire, keys, archive.id, "corrected", hold_for_ms)
        self._better: dict[str, int] = {}  # t in µs of the last change that is known, by id
        self._went_on: set[str] = set()  # schedules that the leader changed since the restore
        self._corrected = 0

    def steps(self, entries: Sequence[Entry], concerns: Callable[[Entry], bool]) -> Iterator[None]:
        """Correct *entries*, in parts; *concerns* tells which of them are others' restores."""
        for entry in entries:
            self.take_in(entry)
            if concerns(entry):
                yield from self._add_lost(self._recall.better(_rows_of(entry)))
        reconciler = Reconciler(self._log, self._scanner, self._restoring, self, entries[-1].position)
        while self._better:
            yield from reconciler.catch_up()
            page = {id: self._better[id] for id in islice(self._better, _PAGE)}
            new = dict[str, int]()
            for id, t_us in page.items():
                if not self._was_repeated(id, t_us):
                    new[id] = t_us
                yield
            known = self._recall.known(new, {(id, ""): t_us for id, t_us in new.items()})
            yield from reconciler.reconcile([_dated(one, new[one.id]) for one in known])
            for id in page:
                self._better.pop(id, None)
        if self._corrected:
            log.warning("restore_corrected", archive=str(self._archive.path), schedules=self._corrected)

    def take_in(self, entry: Entry) -> set[str]:
        """Leave out what *entry* changed. If the leader changed it, only note that."""
        try:
            touched = {touch.key[0] for touch in touches(entry, self._keys.run_suffix)}
        except UnknownEntry:  # of a newer version: its schedules are not known here
            return set()
        if is_leaders(entry) or entry.kind in kinds_telling_only(OF_RUNS):
            self._went_on |= touched
        else:
            self._went_on -= touched
            for id in touched:
                self._better.pop(id, None)
        return touched

    def judge(self, page: Sequence[Recalled], held: Mapping[str, Held]) -> list[Restored]:
        """Return the rows that say what this history knows. Those of a schedule that went on only take it out."""
        page = [recalled for recalled in page if recalled.id in self._better]
        rows = lacking_rows(self._wire, self._keys, page, held, Branch())
        return [row for row in rows if row.place == "gone" or row.id not in self._went_on]

    def note(self, rows: Sequence[Restored]) -> None:
        """Count *rows*, which were put back."""
        self._corrected += len(rows)

    def _add_lost(self, found: dict[str, int]) -> Iterator[None]:
        """Add those of *found* that this log does not tell: what it tells, who restored has read (COMPARE_AND_SET)."""
        last = {id: self._recall.last_entry(id) for id in found}
        for id, t_us in found.items():
            if (at := last[id]) and not self._log.contains(at):
                self._better[id] = t_us
            yield

    def _was_repeated(self, id: str, t_us: int) -> bool:
        """Return True if a ``restore`` in this log already repeated that change of *id*."""
        return any(self._log.contains(position) for position in self._recall.restored_at(id, t_us))


def _rows_of(entry: Entry) -> list[tuple[str, int]]:
    """Return the schedules that a ``restore`` put back or took out, each with the t of the repeated change."""
    with suppress(UnknownEntry):
        return [(row.id, row.t_us) for row in restored(entry) if row.is_schedule]
    return []


def _dated(recalled: Recalled, t_us: int) -> Recalled:
    """Return *recalled* with the time of its last change. A state read by a bootstrap has that of the bootstrap."""
    schedule = recalled.schedule
    return recalled if schedule is None else replace(recalled, schedule=replace(schedule, t_us=t_us))


class Covering:
    """
    Looks at other archives' lost positions, for *archive*. ``looked_at``: those that need not wait for it any more.
    What *recovery* named in its own ``merged`` entry is not named again.
    """

    def __init__(self, archive: Archive, wire: Wire, keys: Keys, recovery: Recovery, clock: Clock) -> None:
        self._archive, self._recovery, self._clock = archive, recovery, clock
        self._log, self._archivers = Log(wire, keys), Archivers(wire, keys)
        self._restoring = Restoring(wire, keys, archive.id, "lost", 0)
        self._covered: set[Position] = set()  # named by a ``merged`` entry of ours
        self._next_ms = 0.0
        self.looked_at: frozenset[Position] = frozenset()

    def forget(self) -> None:
        """Forget everything that was named: perhaps in a log that is no more."""
        self._covered.clear()
        self.looked_at = frozenset()

    def step(self) -> None:
        """Look at the reports, at most every 250 ms, and name the lost positions that this history has."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + _EVERY_MS
        reports = self._archivers.reports()
        lost = {report.position for report in reports if report.state is ArchiveState.LOST and report.position}
        if not lost:
            self.looked_at = frozenset()
            return
        recall = self._archive.recall()
        ours = [
            one
            for one in lost - self._covered - self._recovery.covered
            if recall.number_of(one) and not self._log.contains(one)
        ]
        if ours and self._restoring.merged(ours, self._archive.position):
            self._covered |= set(ours)
        self.looked_at = frozenset(lost.difference(ours) | self._covered.intersection(ours))
