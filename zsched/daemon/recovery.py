"""
Recovery: what a daemon does when the log does not go on from where its archive is.

::

    Redis lost what the archive has ──► lost: report it, hold fire, wait for others ──► merge ──► follow
    the log was trimmed past it ──────► the history stays readable; begin again from what Redis holds
    another data set ─────────────────► refused: touch nothing

As soon as the archiver finds another entry where its own should be, it reports (which holds fire), waits 1.5 s for
``merged`` entries of other archives (rule: WAIT), longer while another one restores (YIELD), compares, and merges in
slices between which it reports again. Who follows this very log, and was heard of within 30 s, may know better: it is
waited for until its report says that it has looked, 10 s at most, for its machine may be gone. It corrects what was put
back without it when it comes (``daemon.correction``). ``[archive] recovery = "manual"`` stops before the merge and
keeps the hold up until ``zsched recover`` has done it.

A restorer that dies leaves a hold that lapses, and its report, an old position, from which it or another goes on.
Not guaranteed: what an archive brings that returns after the log was trimmed past it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import structlog

from zsched.archive import Archive
from zsched.core.clock import Clock
from zsched.core.log import Position
from zsched.core.log.recovery import MergedEntry
from zsched.core.recovery import Verdict, is_same_set, judge
from zsched.daemon.merge import HistoryChanged, Merge, OtherRestores
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.questions import Naming
from zsched.storage.restoring import OtherDataSet

log = structlog.get_logger(__name__)

WAIT_MS: Final = 1500.0  # for others' word: an idle archiver looks at the log once a second
PATIENCE_MS: Final = 10_000.0  # for archives that follow this log, to report that they have looked
_AWAITED_MS: Final = 3000.0  # before looking whether somebody ran `zsched recover`
_NEWEST: Final = 20  # log entries, in which a ``merged`` one is looked for
_NEWEST_BYTES: Final = 1_048_576  # at most, of these entries
_SLICE_MS: Final = 200.0  # of work, between two reports


class Recovery:
    """
    The recoveries of *archive* over one wire. ``verdict`` is what was found last; ``is_busy`` while there is work to do
    at once; ``awaits_people`` in manual mode; ``covered`` are ends of histories that the last merge named.
    """

    def __init__(
        self, archive: Archive, wire: Wire, keys: Keys, clock: Clock, *, hold_for_ms: int, is_manual: bool
    ) -> None:
        self._archive, self._wire, self._keys, self._clock = archive, wire, keys, clock
        self._log, self._hold_for_ms, self._is_manual = Log(wire, keys), hold_for_ms, is_manual
        self._archivers, self._naming = Archivers(wire, keys), Naming(wire, keys)
        self._said: Position | None = None  # the lost position that was told
        self._steps: Iterator[bool] | None = None
        self._merged: Position | None = None
        self.covered: frozenset[Position] = frozenset()
        self.verdict = Verdict.LOST
        self.is_busy = self.awaits_people = False

    def forget(self) -> None:
        """The log goes on from where the archive is."""
        self._steps, self._said, self._merged = None, None, None
        self.is_busy = self.awaits_people = False

    def step(self, position: Position) -> Position | None:
        """
        Do a part of it, with the archive at *position*. The ``merged`` entry when all is
        back; None: look at ``verdict``, and call again while it is LOST.

        Raises:
            RedisUnavailable, RedisRefused, ArchiveCorrupt, ArchiveFailed.
        """
        if self._steps is None:
            self._steps, self._merged = self._recover(position), None
        until_ms = self._clock.monotonic_ms() + _SLICE_MS
        for is_busy in self._steps:
            self.is_busy = is_busy
            if not is_busy or self._clock.monotonic_ms() >= until_ms:
                return None
        self._steps, self.is_busy, self.awaits_people = None, False, False
        return self._merged

    def _recover(self, position: Position) -> Iterator[bool]:
        """All of it, in parts: True, there is work to do at once; False, only to wait."""
        others: Position | None = None  # what other archives had restored when it was looked at last
        is_first = True
        while True:
            try:
                merge = self._merge(position)
                for _ in merge.comparing():
                    yield True
                self.verdict = self._judge(position, merge)
                if self.verdict is not Verdict.LOST:
                    return
                seen, others = others, self._restored_by_others(merge)
                if is_first or (others != seen and not merge.branch.merged):
                    yield from self._wait()
                    if is_first:
                        yield from self._wait_for_followers(position)
                    is_first = False
                    continue
                for is_lacking in merge.look() if self._is_manual else ():
                    if is_lacking:
                        break
                    yield True
                else:
                    yield from self._put_back(merge)
                    return
                self._say_awaited()
                yield from self._wait(_AWAITED_MS)
            except (HistoryChanged, OtherDataSet):  # compare again
                yield True
            except OtherRestores:
                yield from self._wait()

    def _merge(self, position: Position) -> Merge:
        archive, hold_for_ms = self._archive, self._hold_for_ms
        return Merge(archive.recall(), self._wire, self._keys, position, hold_for_ms=hold_for_ms, gens=archive.gens)

    def _judge(self, position: Position, merge: Merge) -> Verdict:
        """By what is there now: another data set may have come since the loss was noticed."""
        archive, first = self._archive, self._log.first()
        start = first.position if first else None
        verdict = judge(position, start, is_same_set=is_same_set(self._naming.gen(), archive.gens))
        if verdict is Verdict.LOST and self._said != position:
            common = merge.common.id if merge.common else None
            log.error("redis_history_lost", archive=str(archive.path), had=position.id, common=common)
            self._said = position
        return verdict

    def _restored_by_others(self, merge: Merge) -> Position | None:
        restored = merge.branch.restored
        return restored[0] if restored and restored[1] != self._archive.id else None

    def _wait(self, for_ms: float = WAIT_MS) -> Iterator[bool]:
        """Wait so long, or until somebody has merged: the sooner nobody holds fire, the better."""
        until_ms, before = self._clock.monotonic_ms() + for_ms, self._last_merged()
        while self._clock.monotonic_ms() < until_ms and self._last_merged() == before:
            yield False

    def _wait_for_followers(self, position: Position) -> Iterator[bool]:
        """Wait until all archives that follow this log have looked at *position*, or PATIENCE_MS are over."""
        until_ms = self._clock.monotonic_ms() + PATIENCE_MS - WAIT_MS
        while self._clock.monotonic_ms() < until_ms and self._is_awaited(position):
            yield False

    def _is_awaited(self, position: Position) -> bool:
        reports = self._archivers.reports()
        now_ms = max((report.told_ms for report in reports), default=0)
        return any(
            report.archive != self._archive.id
            and report.is_alive(now_ms)
            and str(position) not in report.looked_at
            and report.position is not None
            and self._log.contains(report.position)
            for report in reports
        )

    def _last_merged(self) -> Position | None:
        """The last ``merged`` entry, if it is among the log's newest."""
        newest = self._log.back(_NEWEST, most_bytes=_NEWEST_BYTES)
        return next((entry.position for entry in newest if MergedEntry.of(entry)), None)

    def _say_awaited(self) -> None:
        if not self.awaits_people:
            remedy = "zsched recover --dry-run shows what is missing, zsched recover puts it back"
            log.error("recovery_awaited", archive=str(self._archive.path), remedy=remedy)
        self.awaits_people = True

    def _put_back(self, merge: Merge) -> Iterator[bool]:
        began_ms = self._clock.monotonic_ms()
        self.awaits_people = False
        log.info("recovery_began", archive=str(self._archive.path), compared=merge.total)
        for _ in merge.run():
            yield True
        done = merge.done
        log.warning(
            "recovery_done",
            archive=str(self._archive.path),
            restored=sum(done[place] for place in ("due", "paused", "quarantine", "ended")),
            pushed_again=done["open"],
            skipped=done["skipped"],
            held=done["held"],
            taken_out=done["gone"],
            took_ms=round(self._clock.monotonic_ms() - began_ms),
        )
        self._merged, self.covered = merge.merged, merge.covered
