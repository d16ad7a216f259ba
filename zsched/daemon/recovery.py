"""
Recovery: what a daemon does when the log does not go on from where its archive is.

::

    Redis lost what the archive has ──► lost: report it, hold fire, wait for others ──► merge ──► follow
    the log was trimmed past it ──────► the history stays readable; begin again from what Redis holds
    another data set ─────────────────► refused: touch nothing

As soon as the archiver finds another entry where its own should be, it reports (which holds fire), waits 1.5 s for
``merged`` entries of other archives (rule: WAIT), longer while another one restores (YIELD), compares, and merges in
slices between which it reports again. ``[archive] recovery = "manual"`` stops before the merge and keeps the hold up
until ``zsched recover`` has done it.

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
from zsched.core.recovery import Verdict, judge
from zsched.daemon.merge import HistoryChanged, Merge, OtherRestores
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log

log = structlog.get_logger(__name__)

WAIT_MS: Final = 1500.0  # for others' word: an idle archiver looks at the log once a second
_SLICE_MS: Final = 200.0  # of a merge, between two reports


class Recovery:
    """
    The recoveries of *archive* over one wire. ``verdict`` is what was found last; ``is_waiting_for_people`` in manual
    mode; ``is_busy`` while a merge goes on.
    """

    def __init__(
        self, archive: Archive, wire: Wire, keys: Keys, clock: Clock, *, hold_for_ms: int, is_manual: bool
    ) -> None:
        self._archive, self._wire, self._keys, self._clock = archive, wire, keys, clock
        self._log, self._hold_for_ms, self._is_manual = Log(wire, keys), hold_for_ms, is_manual
        self._said: Position | None = None  # the lost position that was told
        self._until_ms: float | None = None  # when the wait for others is over
        self._restored: Position | None = None  # the last that others restored, when it was looked at
        self._merge: Merge | None = None
        self._run: Iterator[int] | None = None
        self._began_ms = 0.0
        self.covered: frozenset[Position] = frozenset()  # ends of histories that the last merge named
        self.verdict = Verdict.LOST
        self.is_waiting_for_people = False

    @property
    def is_busy(self) -> bool:
        """Whether a merge goes on: the next step should follow at once."""
        return self._run is not None

    def forget(self) -> None:
        """The log goes on from where the archive is."""
        self._until_ms, self._run, self._merge, self._restored = None, None, None, None
        self._said, self.is_waiting_for_people = None, False

    def step(self, position: Position, gen: str | None) -> Position | None:
        """
        Do a part of it, with the archive at *position* and the data set called *gen*. The ``merged`` entry when all is
        back; None: look at ``verdict``, and call again while it is LOST.

        Raises:
            RedisUnavailable, RedisRefused, ArchiveCorrupt, ArchiveFailed.
        """
        try:
            if self._run is None and not self._is_ready(position, gen):
                return None
            return self._go_on()
        except HistoryChanged:  # compare again
            self._run = None
        except OtherRestores:
            self._run = None
            self._wait()
        return None

    def _is_ready(self, position: Position, gen: str | None) -> bool:
        """Compare, and wait as long as there is a reason to; True when the merge may go on."""
        now_ms = self._clock.monotonic_ms()
        if self._until_ms is not None and now_ms < self._until_ms:
            return False
        merge = self._compare(position, gen)
        if self.verdict is not Verdict.LOST:
            return False
        restored = merge.branch.restored
        last = restored[0] if restored and restored[1] != self._archive.id else None
        if self._until_ms is None or (last != self._restored and not merge.branch.merged):
            self._restored = last
            self._wait()
            return False
        self._restored = last
        if self._is_manual and next((rows for rows in merge.rows() if rows), None) is not None:
            if not self.is_waiting_for_people:
                remedy = "zsched recover --dry-run shows what is missing, zsched recover puts it back"
                log.error("recovery_awaited", archive=str(self._archive.path), remedy=remedy)
            self.is_waiting_for_people = True
            self._wait()
            return False
        self._merge, self._run, self._began_ms = merge, merge.run(), now_ms
        log.info("recovery_began", archive=str(self._archive.path), compared=merge.total)
        return True

    def _compare(self, position: Position, gen: str | None) -> Merge:
        archive, first = self._archive, self._log.first()
        recall, hold_for_ms = archive.recall(), self._hold_for_ms
        merge = Merge(recall, self._wire, self._keys, position, hold_for_ms=hold_for_ms)
        merge.compare()
        is_same_set = gen is None or not archive.gens or gen in archive.gens
        self.verdict = judge(
            position, first.position if first else None, is_known=merge.is_known, is_same_set=is_same_set
        )
        if self.verdict is Verdict.LOST and self._said != position:
            common, path = merge.common.id if merge.common else None, str(archive.path)
            log.error("redis_history_lost", archive=path, had=position.id, common=common)
            self._said = position
        return merge

    def _wait(self) -> None:
        self._until_ms = self._clock.monotonic_ms() + WAIT_MS

    def _go_on(self) -> Position | None:
        assert self._run is not None  # it is ready
        assert self._merge is not None
        until_ms = self._clock.monotonic_ms() + _SLICE_MS
        for _ in self._run:
            if self._clock.monotonic_ms() >= until_ms:
                return None
        done, took_ms = self._merge.done, self._clock.monotonic_ms() - self._began_ms
        log.warning(
            "recovery_done",
            archive=str(self._archive.path),
            restored=sum(done[place] for place in ("due", "paused", "quarantine", "ended")),
            pushed_again=done["open"],
            skipped=done["skipped"],
            taken_out=done["gone"],
            took_ms=round(took_ms),
        )
        self._run, self.covered = None, self._merge.covered
        return self._merge.merged
