"""
Recovery: a daemon's protocol when the log does not continue from its archive's position.

::

    Redis lost data of the archive ───► lost: report it, hold fire, wait for others ──► merge ──► follow
    the log was trimmed past it ──────► the history stays readable; begin again from the data in Redis
    another data set ─────────────────► refused: touch nothing

When the archiver finds another entry at its own position, it reports at once, which holds fire. It waits 1.5 s for
``merged`` entries of other archives (rule: WAIT), and longer while another archive restores (YIELD). Then it compares,
and merges in slices, with a report between them. An archive that follows this very log, and reported within 30 s, may
know more. The recovery waits until that archive's report says that it has checked the position, 10 s at most, because
its machine may be gone. In a data set without a name it waits for an archive that goes further (FURTHEST). When it
returns later, it corrects the restored data (``daemon.peers``). ``[archive] recovery = "manual"`` stops before the
merge, and keeps the hold until ``zsched archive recover`` has finished.

If a restoring daemon dies, its hold lapses. Its report keeps the old position, from which any daemon continues. Not
guaranteed: an archive that returns after the log was trimmed past its position restores nothing.
"""

from collections.abc import Callable, Generator, Iterator
from enum import Enum
from functools import partial
from typing import Final

import structlog

from zsched.archive import Archive
from zsched.core.clock import Clock
from zsched.core.entry import Position
from zsched.core.log.puts import MergedEntry
from zsched.core.recovery.difference import Verdict, is_same_set, judge
from zsched.daemon.merge import Merge, OtherRestores
from zsched.daemon.reconciler import HistoryChanged
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.meta import data_set_names
from zsched.storage.restoring import OtherDataSet

log = structlog.get_logger(__name__)

WAIT_MS: Final = 1500.0  # for entries of other archives: an idle archiver reads the log once a second
PATIENCE_MS: Final = 10_000.0  # for reports of the archives that follow this log
_AWAITED_MS: Final = 3000.0  # between two checks that `zsched archive recover` was run
_NEWEST: Final = 20  # log entries searched for a ``merged`` one
_NEWEST_BYTES: Final = 1_048_576  # at most, of these entries
SLICE_MS: Final = 200.0  # of work, between two reports


class RecoveryStep(Enum):
    """The next part of a recovery. Its driver acts on it between two parts."""

    COMPARING = "comparing"
    RESTORING = "restoring"
    STARTING_OVER = "starting over"  # Redis lost its history once more, or another data set came
    WAITING = "waiting"  # for archives that may know more (rule: WAIT)
    YIELDING = "yielding"  # to another archive that is restoring (rule: YIELD)
    AWAITING_OPERATOR = "waiting for an operator"  # to run ``zsched archive recover``

    @property
    def is_busy(self) -> bool:
        """Return True if there is work at once; else the driver may sleep."""
        return self in (RecoveryStep.COMPARING, RecoveryStep.RESTORING, RecoveryStep.STARTING_OVER)


class RecoveryLoop:
    """
    One recovery, part by part (``steps``), driven by a daemon's thread or by ``zsched archive recover``.

    *compare* makes a merge, which is kept as ``merge``; *judge* decides whether to restore. With *waits_for*, the
    position of an archive that follows, it first waits for all archives that may know more. If *is_manual*, the restore
    is left to an operator. ``compared``: the number of compared schedules of this merge.
    """

    def __init__(
        self,
        wire: Wire,
        keys: Keys,
        clock: Clock,
        compare: Callable[[], Merge],
        judge: Callable[[Merge], bool],
        *,
        waits_for: Position | None = None,
        is_manual: bool = False,
    ) -> None:
        self._log, self._archivers, self._clock = Log(wire, keys), Archivers(wire, keys), clock
        self._wire, self._keys = wire, keys
        self._compare, self._judge, self._waits_for, self._is_manual = compare, judge, waits_for, is_manual
        self.merge = compare()
        self.compared = 0

    def steps(self) -> Iterator[RecoveryStep]:
        """
        Recover, and yield the next part. It ends when *judge* says no, or when all data is back (``merge.merged``).
        """
        others: Position | None = None  # restores by other archives, as of the last check
        is_first = self._waits_for is not None
        while True:
            merge, self.compared = self.merge, 0
            try:
                for _ in merge.comparing():
                    yield RecoveryStep.COMPARING
                if not self._judge(merge):
                    return
                before, others = others, merge.restored_by_other
                if is_first:
                    yield from self._wait(RecoveryStep.WAITING, WAIT_MS)
                    until_ms = self._clock.monotonic_ms() + PATIENCE_MS - WAIT_MS
                    while self._clock.monotonic_ms() < until_ms and self._is_awaited(merge.archive):
                        yield RecoveryStep.WAITING
                    while self._is_behind():
                        yield RecoveryStep.WAITING
                    is_first = False
                elif others not in (None, before) and not merge.branch.merged:
                    yield from self._wait(RecoveryStep.YIELDING, WAIT_MS)
                elif self._is_manual and (yield from self._is_lacking(merge)):
                    yield from self._wait(RecoveryStep.AWAITING_OPERATOR, _AWAITED_MS)
                else:
                    yield RecoveryStep.RESTORING
                    for self.compared in merge.run():
                        yield RecoveryStep.RESTORING
                    return
            except (HistoryChanged, OtherDataSet):
                yield RecoveryStep.STARTING_OVER
            except OtherRestores:  # it is new in the next comparison, too: both colliding recoveries wait for long
                yield from self._wait(RecoveryStep.YIELDING, WAIT_MS)
            self.merge = self._compare()

    @staticmethod
    def _is_lacking(merge: Merge) -> Generator[RecoveryStep, None, bool]:
        for is_lacking in merge.find_lacking():
            if is_lacking:
                return True
            yield RecoveryStep.COMPARING
        return False

    def _wait(self, step: RecoveryStep, for_ms: float) -> Iterator[RecoveryStep]:
        """Wait this long, or until another archive has merged: a hold should end as soon as possible."""
        until_ms, before = self._clock.monotonic_ms() + for_ms, self._last_merged()
        yield step
        while self._clock.monotonic_ms() < until_ms and self._last_merged() == before:
            yield step

    def _is_awaited(self, archive: str) -> bool:
        """Return True if an archive besides *archive* that follows this log has not checked the lost position."""
        reports = self._archivers.reports()
        now_ms = max((report.told_ms for report in reports), default=0)
        return any(
            report.archive != archive
            and report.is_alive(now_ms)
            and str(self._waits_for) not in report.looked_at
            and report.position is not None
            and self._log.contains(report.position)
            for report in reports
        )

    def _is_behind(self) -> bool:
        """
        Return True if the data set has no name, and an archive with a later position is to restore it: the first
        restore gives a name, and archives of other names are refused then (rule: FURTHEST).
        """
        assert self._waits_for is not None
        if data_set_names(self._wire, self._keys) is not None:
            return False
        reports = self._archivers.reports()
        now_ms = max((report.told_ms for report in reports), default=0)
        lost = [one for one in reports if one.state is ArchiveState.LOST and one.is_recent(now_ms)]
        ends_us = (one.position.t_us for one in lost if one.position is not None and not one.awaits_people)
        return max(ends_us, default=0) > self._waits_for.t_us

    def _last_merged(self) -> Position | None:
        """Return the last ``merged`` entry, if it is among the log's newest."""
        newest = self._log.back(_NEWEST, most_bytes=_NEWEST_BYTES)
        return next((entry.position for entry in newest if MergedEntry.of(entry)), None)


class Recovery:
    """
    The recoveries of *archive* over one wire, in slices. ``verdict`` is the last finding; ``is_busy`` while work is
    left; ``awaits_people`` in manual mode; ``covered`` holds the ends of histories that the last merge named.
    """

    def __init__(
        self, archive: Archive, wire: Wire, keys: Keys, clock: Clock, *, hold_for_ms: int, is_manual: bool
    ) -> None:
        self._archive, self._wire, self._keys, self._clock = archive, wire, keys, clock
        self._hold_for_ms, self._is_manual = hold_for_ms, is_manual
        self._log = Log(wire, keys)
        self._reported: Position | None = None  # the lost position that was logged
        self._under_way: tuple[RecoveryLoop, Iterator[RecoveryStep]] | None = None
        self._step, self._began_ms = RecoveryStep.COMPARING, 0.0
        self.covered: frozenset[Position] = frozenset()
        self.verdict = Verdict.LOST
        self.awaits_people = False

    @property
    def is_busy(self) -> bool:
        """Return True if there is work at once."""
        return self._under_way is not None and self._step.is_busy

    def forget(self) -> None:
        """Note that the log continues from the archive's position."""
        self._under_way, self._reported = None, None
        self.awaits_people = False

    def step(self, position: Position) -> Position | None:
        """
        Do a part of it, with the archive at *position*. Return the ``merged`` entry when all data is back. None: check
        ``verdict``, and call again while it is LOST.

        Raises:
            RedisUnavailable, RedisRefused, ArchiveCorrupt, ArchiveFailed.
        """
        if self._under_way is None:
            loop = self._loop(position)
            self._under_way = loop, loop.steps()
        loop, steps = self._under_way
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        for step in steps:
            self._say(step, loop.merge)
            if not step.is_busy or self._clock.monotonic_ms() >= until_ms:
                return None
        self._under_way, self.awaits_people = None, False
        if loop.merge.merged is not None:
            self._say_done(loop.merge)
            self.covered = loop.merge.covered
        return loop.merge.merged

    def _loop(self, position: Position) -> RecoveryLoop:
        def compare() -> Merge:
            archive, hold_for_ms = self._archive, self._hold_for_ms
            return Merge(archive.recall(), self._wire, self._keys, position, hold_for_ms=hold_for_ms, gens=archive.gens)

        place, is_lost = (self._wire, self._keys, self._clock), partial(self._is_lost, position)
        return RecoveryLoop(*place, compare, is_lost, waits_for=position, is_manual=self._is_manual)

    def _is_lost(self, position: Position, merge: Merge) -> bool:
        """Judge by the present log: another data set may have replaced the first since the loss was noticed."""
        archive, first = self._archive, self._log.first()
        start = first.position if first else None
        names = data_set_names(self._wire, self._keys)
        self.verdict = judge(position, start, is_same_set=is_same_set(names, archive.gens))
        is_lost = self.verdict is Verdict.LOST
        if is_lost and self._reported != position:
            common = merge.common.id if merge.common else None
            log.error("redis_history_lost", archive=str(archive.path), had=position.id, common=common)
            self._reported = position
        return is_lost

    def _say(self, step: RecoveryStep, merge: Merge) -> None:
        """Log the part that begins."""
        path = str(self._archive.path)
        if step is RecoveryStep.RESTORING and self._step is not step:
            self._began_ms, self.awaits_people = self._clock.monotonic_ms(), False
            log.info("recovery_began", archive=path, compared=merge.total)
        elif step is RecoveryStep.AWAITING_OPERATOR and not self.awaits_people:
            remedy = "zsched archive recover --dry-run shows what is missing, zsched archive recover restores it"
            log.error("recovery_awaited", archive=path, remedy=remedy)
            self.awaits_people = True
        self._step = step

    def _say_done(self, merge: Merge) -> None:
        done = merge.done
        log.warning(
            "recovery_done",
            archive=str(self._archive.path),
            restored=sum(done[place] for place in ("due", "paused", "quarantine", "ended")),
            pushed_again=done["open"],
            skipped=done["skipped"],
            held=done["held"],
            ran_again=done["again"],
            taken_out=done["gone"] + done["over"],
            took_ms=round(self._clock.monotonic_ms() - self._began_ms),
        )
