"""
Covering: an archive that follows says which lost positions of other archives are in its history (rule: MERGED_COVERS).

An archive lost its place when it reports a position that this log does not have. If this archive had that position
before, the other one lacks nothing here, and a ``merged`` entry says so. The positions that were looked at stand in
this archive's report, so nobody waits for it any longer (rule: WAIT).
"""

from __future__ import annotations

from typing import Final

from zsched.archive import Archive
from zsched.core.clock import Clock
from zsched.core.log import Position
from zsched.daemon.recovery import Recovery
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.restoring import Restoring

_EVERY_MS: Final = 250.0


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
        mine = [
            one
            for one in lost - self._covered - self._recovery.covered
            if recall.number_of(one) and not self._log.contains(one)
        ]
        if mine and self._restoring.merged(mine, self._archive.position):
            self._covered |= set(mine)
        self.looked_at = frozenset(lost.difference(mine) | self._covered.intersection(mine))
