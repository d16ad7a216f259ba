"""
Correction of a ``restore`` by another archive, where this archive's history has a later change (rule: CORRECTS).

An archive that was away when Redis lost everything puts back what it knows. Some of that was cancelled or fired since.
It waits for the other archives (``daemon.recovery``), but not for ever. So an archive that follows reads the
``restore`` of another before it takes it in. If its own history has a later change of the schedule (BY_ORDER), it
answers with a ``restore`` of its own: a schedule that is over is taken out, any other is put back as it was last. The
merge decides this (``core.recovery.lacking``): a run that was fired and is not over is marked by fire if it waits, and
stays in its queue, marked, if it is there.

NEWEST_ONLY  The answer is given only while the ``restore`` is the newest entry of the schedule (lib/behind.lua). A
             client's later change stands. A schedule that the leader fired meanwhile is only ever taken out, if it is
             over: a cancelled rule must not fire for ever.
TOLD_ONCE    A change that a ``restore`` in this log already repeated is not repeated again. A schedule has a finite
             number of changes, so corrections end, however the clocks of the histories disagree.

A change that this log contains is no reason for an answer: the archive that restored has read this log.

On a slow archiver and in a busy log an answer takes time. It is given in slices, between which the archiver reports,
holds fire and may be stopped (``Unanswered``).

Nothing is noted on disk. The archive's position stays before the ``restore`` until the answer is in the log, so a
daemon that returns after a crash reads the ``restore`` again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

import structlog

from zsched.archive import Archive, Recall
from zsched.core.changes import OF_RUNS
from zsched.core.clock import Clock
from zsched.core.log import Entry, Position, UnknownEntry, is_leaders, kinds_telling_only, touches
from zsched.core.log.recovery import Restored, RestoreEntry, restored
from zsched.core.recovery import Branch, Mine, lacking
from zsched.daemon.merge import HistoryChanged
from zsched.storage.census import Census
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.meta import doubted_until_ms
from zsched.storage.restoring import ROWS, Restoring, portions

log = structlog.get_logger(__name__)

_READ: Final = 100  # log entries at a time
_PAGE: Final = 200  # schedules compared at a time
_LEAST: Final = 10  # rows put back at a time, however quickly the log goes on
_SLICE_MS: Final = 200.0  # of work, between two reports


class Unanswered(Exception):
    """The answer to a restore is under way, and goes on at the next call."""


class Correction:
    """Corrections by *archive* over one wire. After each, nothing fires for *hold_for_ms*."""

    def __init__(self, archive: Archive, wire: Wire, keys: Keys, clock: Clock, *, hold_for_ms: int) -> None:
        self._archive, self._wire, self._keys, self._clock = archive, wire, keys, clock
        self._log, self._census = Log(wire, keys), Census(wire, keys)
        self._went_on: set[str] = set()  # schedules that the leader changed since the restore
        self._under_way: tuple[Position, int, Iterator[None]] | None = None  # first entry, how many, what is to be done
        self._seen = Position(0, 0, 0)  # the log's end, up to which it was read
        self._own: set[Position] = set()  # restores of this answer
        self._restoring = Restoring(wire, keys, archive.id, "corrected", hold_for_ms)

    def concerns(self, entry: Entry) -> bool:
        """Return True if *entry* is a ``restore`` of another archive, to be checked before it is taken in."""
        restore = RestoreEntry.of(entry)
        by = restore.archive if restore else ""
        return by not in ("", self._archive.id) and self._archive.position is not None

    def answer(self, entries: Sequence[Entry]) -> int:
        """
        Correct the schedules in *entries* of which this archive's history has a later change. The first of *entries*
        ``concerns`` this archive, and none of them is in its state yet. Return how many entries are answered; a later
        call with the same first one may answer more.

        Raises:
            Unanswered: not yet; call again.
            HistoryChanged: the log went another way meanwhile.
            RedisUnavailable, RedisRefused, ArchiveCorrupt, ArchiveFailed.
        """
        if self._under_way is None or self._under_way[0] != entries[0].position:
            self._under_way = entries[0].position, len(entries), self._answer(entries)
        _, number, steps = self._under_way
        until_ms = self._clock.monotonic_ms() + _SLICE_MS
        try:
            for _ in steps:
                if self._clock.monotonic_ms() >= until_ms:
                    raise Unanswered
        except Unanswered:
            raise
        except BaseException:
            self._under_way = None
            raise
        self._under_way = None
        return number

    def _answer(self, entries: Sequence[Entry]) -> Iterator[None]:
        """All of it, in parts."""
        recall, better = self._archive.recall(), dict[str, int]()
        self._went_on.clear()
        self._own.clear()
        for entry in entries:
            self._leave_touched(entry, better)
            if self.concerns(entry):
                yield from self._add_lost(recall, recall.better(_rows_of(entry)), better)
        self._seen, corrected = entries[-1].position, 0
        while better:
            yield from self._read_on(better)
            page = {id: better[id] for id in islice(better, _PAGE)}
            new = dict[str, int]()
            for id, t_us in page.items():
                if not self._was_told(recall, id, t_us):
                    new[id] = t_us
                yield
            corrected += yield from self._restore(self._lacking(recall, new), better)
            for id in page:
                better.pop(id, None)
        if corrected:
            log.warning("restore_corrected", archive=str(self._archive.path), schedules=corrected)

    def _restore(self, rows: list[Restored], better: dict[str, int]) -> Generator[None, None, int]:
        """
        Put *rows* back, but for those of schedules that somebody touches meanwhile; how many. Where the log goes on
        quickly they are sent right after it was read: what was compared is right as long as nobody touches it.
        """
        size, corrected = ROWS, 0
        while rows := [row for row in rows if row.id in better and self._may_be(row)]:
            portion = next(portions(rows[:size]))
            written = self._restoring.restore(portion, self._seen, lambda: None)
            if written is None:
                size = max(size // 4, _LEAST)
                yield
                yield from self._read_on(better)
                continue
            self._own.add(written.entry)
            corrected += len(portion)
            rows = rows[len(portion) :]
            if rows:
                yield from self._read_on(better)
        return corrected

    def _may_be(self, row: Restored) -> bool:
        """Return True if *row* takes its schedule out, or the leader did not change that since."""
        return row.place == "gone" or row.id not in self._went_on

    def _add_lost(self, recall: Recall, found: dict[str, int], better: dict[str, int]) -> Iterator[None]:
        """
        Add those of *found* to *better* that this log does not tell: what it tells, who restored has read
        (COMPARE_AND_SET).
        """
        last = {id: recall.last_entry(id) for id in found}
        for id, t_us in found.items():
            if (at := last[id]) and not self._log.contains(at):
                better[id] = t_us
            yield

    def _read_on(self, better: dict[str, int]) -> Iterator[None]:
        """Leave out of *better* what others touched behind ``_seen``, up to the log's end. Raises HistoryChanged."""
        while True:
            entries = self._log.read(self._seen.id, _READ)
            if not entries or entries[0].position != self._seen:
                raise HistoryChanged
            for entry in entries[1:]:
                if entry.position not in self._own:
                    self._leave_touched(entry, better)
            self._seen = entries[-1].position
            if len(entries) < _READ:
                return
            yield

    def _leave_touched(self, entry: Entry, better: dict[str, int]) -> None:
        """Remove from *better* what *entry* changed. If the leader changed it, only note that."""
        with suppress(UnknownEntry):  # of a newer version: its schedules are not known here
            goes_on = is_leaders(entry) or entry.kind in kinds_telling_only(OF_RUNS)
            for id in {touch.key[0] for touch in touches(entry, self._keys.run_suffix)}:
                if goes_on:
                    self._went_on.add(id)
                else:
                    better.pop(id, None)
                    self._went_on.discard(id)

    def _was_told(self, recall: Recall, id: str, t_us: int) -> bool:
        """Return True if a ``restore`` in this log already repeated that change of *id*."""
        return any(self._log.contains(position) for position in recall.restored_at(id, t_us))

    def _lacking(self, recall: Recall, page: dict[str, int]) -> list[Restored]:
        """Return the rows to restore for the schedules in *page*, which maps each to the t of its last change."""
        there = {one.id: one for _, held in self._census.schedules(page) for one in held}
        rows: list[Restored] = []
        for mine in recall.known(page, {(id, ""): t_us for id, t_us in page.items()}):
            here, runs = there.get(mine.id), {run.held.run for run in mine.runs}
            until_ms = doubted_until_ms(self._wire, self._keys) if here is not None and here.run in runs else None
            rows += lacking(_dated(mine, page[mine.id]), here, Branch(), until_ms)
        return rows


def _rows_of(entry: Entry) -> list[tuple[str, int]]:
    """Return the schedules that a ``restore`` put back or took out, each with the t of the repeated change."""
    with suppress(UnknownEntry):
        return [(row.id, row.t_us) for row in restored(entry) if row.is_schedule]
    return []


def _dated(mine: Mine, t_us: int) -> Mine:
    """Return *mine* with the time of its last change. A state read by a bootstrap has the time of the bootstrap."""
    return mine if mine.schedule is None else replace(mine, schedule=replace(mine.schedule, t_us=t_us))
