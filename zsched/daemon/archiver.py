"""
The archiver: a thread of every archivist that keeps the archive up with the log.

A failing archive never stops the firing. The thread logs an event, reports the failure (``zsched status``), and tries
again every second. A corrupted file is kept under another name, and a new archive begins beside it.

Before it follows the log, it checks that the archive belongs to the data set in this Redis (``daemon.own_archive``).
This happens at the start of a daemon, which ends if the archive does not belong. If Redis is away at the start, the
check comes later. Then the daemon stays up, fires, and reports that its archive is refused.
"""

import os
import threading
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import structlog

from zsched.archive import Archive
from zsched.archive.file import fleeting_disk
from zsched.config.settings import Settings
from zsched.core.clock import Clock
from zsched.core.entry import Position
from zsched.daemon.follower import Follower
from zsched.daemon.loop import Bell, Failures, Loop
from zsched.daemon.meter import Meter
from zsched.daemon.own_archive import OwnArchive
from zsched.daemon.running import resident_bytes, trim_heap
from zsched.errors import ArchiveCorrupt, ArchiveError, ArchiveFailed, ArchiveOfAnother, RedisRefused, RedisUnavailable
from zsched.storage.archivers import REPORT_EVERY_MS, Archivers, ArchiveState
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import keys_of

log = structlog.get_logger(__name__)

_FEW: Final = 2  # entries of a pass: single entries are archived at once
_STEP_MS: Final = 2000.0  # time in a backlog, between two reports of progress
_GATHER_MS: Final = 12.0  # from one pass to the next otherwise; at 25 ms the p99 of lateness was 20 % higher (measured)
_RETRY_S: Final = 1.0  # before another attempt after an error; for a lost Redis a quarter of a lease, if that is less
_REFUSED_S: Final = 10.0  # between two checks that the archive belongs to this data set
_PRUNE_EVERY_MS: Final = 3_600_000.0
_MUCH: Final = 100  # entries, after which the archive frees its memory when it has nothing to do
_CHECK_MS: Final = 5.0  # of every idle pass, until the whole file was checked
_INDEX_MS: Final = 20.0  # of a pass, in which blocks of prefixes are built
_NOWHERE: Final = Position(-1, 0, 0)
_MOST_FAILURES: Final = 3  # in a row, during which a loss still holds fire; a bad archive must not stop firing
_STOP_S: Final = 5.0  # for the last entries to be archived when the daemon stops


class _Stopped(Exception):
    """The daemon stops in the middle of a pass."""


class Archiver:
    """
    Keeps one archive. Call ``open`` in the main thread, so that a wrong path fails at once; then ``start`` and
    ``stop``.

    Any thread may read ``position`` and ``is_healthy``, and set ``daemon``, the facts and troubles of its daemon for
    the reports, ``leads``, whether that daemon leads, and the results of the leader's last audit (``audit``), of its
    watch over deadlines (``at_risk``) and of its notifier (``sinks``).
    """

    def __init__(
        self,
        settings: Settings,
        link: Link,
        clock: Clock,
        daemon: dict[str, Any],
        meter: Meter | None = None,
        failures: Failures | None = None,
        on_pass: Callable[[], None] = lambda: None,
    ) -> None:
        """Keep an archive. *on_pass*: called in the archiver's thread when a pass over the log has ended, or failed."""
        self._settings, self._link, self._clock = settings, link, clock
        self.daemon, self.leads = daemon, False
        self._on_pass = on_pass
        self._meter = meter or Meter()
        self._keys, self._own = keys_of(settings), OwnArchive(settings, clock)
        self._follower: Follower | None = None
        self._names: str | None = None  # of the data set that the archive followed, also if its disk failed since
        self._trouble: str | None = None  # the last logged problem, until it is over
        self._failed = 0  # times in a row
        self._ahead_ms: int | None = None  # this machine's clock before Redis', at the last report
        self._next_prune_ms, self._is_pruning = clock.monotonic_ms(), False
        self._known_as: tuple[str, Position | None] = f"none-{daemon.get('daemon') or uuid.uuid4().hex}", None
        self._failures = failures or Failures()  # of this process, for the report
        self._bell = Bell()  # ends a wait for the log
        retry_s = min(_RETRY_S, settings.daemon.lease_ms / 4000)  # a returned Redis is held for a lease
        self._loop = Loop("archiver", self._keep_over, self._failures, retry_s=retry_s, finishes=True)
        self.moved = threading.Condition()  # notified when the position moved
        self.audit: dict[str, Any] | None = None
        self.sinks: dict[str, Any] | None = None
        self.at_risk = list[tuple[str, int, int]]()

    @property
    def path(self) -> Path | None:
        """Return the archive's file, once it was opened."""
        return self._own.path

    @property
    def position(self) -> Position | None:
        """Return the last entry on disk."""
        archive = self._own.archive
        return archive.position if archive else None

    @property
    def is_healthy(self) -> bool:
        """Return True if the archive follows the log."""
        follower = self._follower
        return self._own.archive is not None and follower is not None and follower.state is ArchiveState.FOLLOWING

    def wait_until(self, seen: Position | None, within_s: float) -> None:
        """Wait until the archive has the entry *seen*, at most *within_s*."""
        if seen is not None:
            with self.moved:
                self.moved.wait_for(lambda: (self.position or _NOWHERE).order >= seen.order, within_s)

    def open(self) -> None:
        """
        Open the archive, or create it. After a disk failure this is tried later. The choice of an archive is also made
        later if Redis does not name its data set.

        Raises:
            ArchiveInUse, ArchiveForeign: the file belongs to another daemon or data set. ArchiveError: it is not
            writable.
        """
        try:
            try:
                with closing(self._link.open()) as wire:
                    self._own.open(wire)
            except (RedisUnavailable, RedisRefused):  # the main loop reports it
                self._own.prepare()
        except ArchiveFailed as error:
            self._say_once("archive_failed", str(error))

    def start(self) -> None:
        """Begin to follow."""
        self._loop.start()

    def stop(self) -> None:
        """Archive the log up to now, if that is quick, and end."""
        self._loop.stop()
        self._bell.ring()
        if self._loop.join(_STOP_S):  # otherwise a step is still running; the end of the process closes the file
            self._own.close()
            self._bell.close()

    # -- the thread -------------------------------------------------------------------------------

    def _keep_over(self) -> float | None:
        """Follow over one connection; once more after ``stop``, for the entries of the last script."""
        try:
            with closing(self._link.open()) as wire:
                self._keep(wire)
        except RedisRefused as error:  # a missing right that only the archiver needs, or no memory for its report
            self._say_once("archiver_refused", str(error))
            return _RETRY_S
        return None

    def _keep(self, wire: Wire) -> None:
        """Follow over *wire*, one pass at least, until stopped or until it breaks."""
        archivers = Archivers(wire, self._keys)
        while True:
            try:
                self._follow_once(wire, archivers)
            except _Stopped:
                self._report(archivers, ArchiveState.STOPPED)
            except (RedisUnavailable, RedisRefused):
                raise
            except Exception as error:  # no error may end the thread without a report
                self._fail(error)
                self._report(archivers, ArchiveState.FAILED)
                self._loop.pause(_RETRY_S)
            if self._loop.is_stopping:
                return

    def _follow_once(self, wire: Wire, archivers: Archivers) -> None:
        """Follow until stopped. Replace a corrupted file first. Do not touch the archive of another data set."""
        try:
            archive = self._own.archive
            if archive is None or not self._own.is_ours:
                archive = self._own.open(wire)
            self._follow(archive, wire, archivers)
        except ArchiveOfAnother as error:
            self._say_once("archive_refused", str(error))
            self._report(archivers, ArchiveState.REFUSED)
            self._loop.pause(_REFUSED_S)
        except ArchiveCorrupt as error:
            archivers.forget(self._known_as[0])  # its reports are void
            self._follower = None
            self._own.begin_anew(error)

    def _fail(self, error: Exception) -> None:
        reason = str(error) or repr(error)
        if not isinstance(error, ArchiveError) and reason != self._trouble:
            log.exception("archiver_crashed")
        self._say_once("archive_failed", reason)
        self._failed += 1
        self._follower = None
        self._own.close()

    def _follow(self, archive: Archive, wire: Wire, archivers: Archivers) -> None:
        lease_ms, is_manual = self._settings.daemon.lease_ms, self._settings.archive.recovery == "manual"
        place, between = (archive, wire, self._keys, self._clock), lambda: self._between(archivers)
        self._follower = follower = Follower(
            *place, lease_ms=lease_ms, is_manual=is_manual, meter=self._meter, between=between
        )
        reported: tuple[object, ...] | None = None
        taken_in = _MUCH  # entries since the archive came to rest; a bootstrap reads Redis besides
        reported_ms = named_ms = 0.0
        while True:
            began_ms = self._clock.monotonic_ms()
            is_following = follower.step(_STEP_MS)
            if not archive.gens or began_ms - named_ms > REPORT_EVERY_MS:  # `zsched archive recover` adds names
                follower.note_gen()
                named_ms = began_ms
            self._tell(follower)
            self._loop.well()
            taken_in += follower.intake.came
            if follower.intake.came == 0 and taken_in >= _MUCH and not self._loop.is_stopping:
                archive.rest()
                trim_heap()
                taken_in = 0
            news = archive.position, follower.state, self.daemon, self.leads, follower.covering.looked_at
            hold_for_ms = self._hold_for_ms(follower)
            is_news = news != reported or hold_for_ms > 0
            if is_news or began_ms - reported_ms > REPORT_EVERY_MS:
                now_ms = self._report(archivers, follower.state, hold_for_ms)
                reported, reported_ms = news, began_ms
                self._prune(archive, now_ms)
                if is_following:
                    archive.index_step(_INDEX_MS, self._clock)
            elif not self._own.is_checked:
                self._own.is_checked = not archive.check_step(_CHECK_MS, self._clock)
                taken_in = _MUCH if self._own.is_checked else taken_in  # it has read the whole file
            else:
                archive.index_step(_INDEX_MS, self._clock)
            self._on_pass()
            if self._loop.is_stopping:
                return
            took_ms = self._clock.monotonic_ms() - began_ms
            if is_following:
                if follower.intake.came > _FEW:
                    self._loop.pause(max(_GATHER_MS - took_ms, 0.0) / 1000)
                if not follower.wait(self._bell):
                    return  # a reply is in flight: the last pass uses another connection
            else:
                self._loop.pause(follower.pause_ms / 1000)

    def _between(self, archivers: Archivers) -> None:
        """Report in the middle of a long pass."""
        if self._loop.is_stopping:
            raise _Stopped
        self._loop.well()
        if (follower := self._follower) is not None:
            self._report(archivers, follower.state, self._hold_for_ms(follower))

    def _hold_for_ms(self, follower: Follower) -> int:
        return follower.hold_for_ms if self._failed < _MOST_FAILURES else 0

    def _prune(self, archive: Archive, now_ms: int) -> None:
        """Forget old history: a round every hour, a part of it at each report."""
        if self._clock.monotonic_ms() >= self._next_prune_ms:
            self._next_prune_ms = self._clock.monotonic_ms() + _PRUNE_EVERY_MS
            archive.begin_pruning(now_ms * 1000 - self._settings.archive.retention_days * 86_400_000_000)
            self._is_pruning = True
        self._is_pruning = self._is_pruning and archive.prune()

    # -- reports ----------------------------------------------------------------------------------

    def _report(self, archivers: Archivers, state: ArchiveState, hold_for_ms: int = 0) -> int:
        """
        Report to Redis and to waiting threads. A failed archive reports its last name and position. Returns TIME in ms.
        """
        archive, follower = self._own.archive, self._follower
        if self._loop.is_stopping:  # the last report of an archiver that is stopped in order
            state = ArchiveState.STOPPED
        if state is ArchiveState.REFUSED:
            self._names = None
        elif archive is not None and self._own.is_ours:
            self._names = " ".join(archive.gens) or self._names
        about = {
            **self.daemon,
            "path": str(self.path),
            "names": self._names,
            "trouble": self._trouble,
            "awaits_people": follower is not None and follower.awaits_people,
            "looked_at": [] if follower is None else sorted(map(str, follower.covering.looked_at)),
            "audit": self.audit,
            "sinks": self.sinks,
            "at_risk": self.at_risk,
            "leads": self.leads,
            "memory": resident_bytes(os.getpid(), self.daemon.get("pid") or 0),
            "ahead_ms": self._ahead_ms,
            "failing": self.daemon.get("failing", {}) | self._failures.shown,
        }
        if archive is not None:
            self._known_as = archive.id, archive.position
            facts = "complete_since", "unknown_entries", "began_us", "unreadable_entries"
            about |= {name: getattr(archive, name) for name in facts}
            about["fleeting"] = self.daemon.get("worker") and fleeting_disk(archive.path.parent)
        now_ms = archivers.report(*self._known_as, state, about, hold_for_ms)
        self._ahead_ms = self._clock.now_ms() - now_ms
        self._on_pass()
        with self.moved:
            self.moved.notify_all()
        return now_ms

    def _tell(self, follower: Follower) -> None:
        if (state := follower.state) is ArchiveState.FOLLOWING:
            self._failed = 0
        if state is ArchiveState.REFUSED:
            problem = f"archive {self.path}: the Redis at {self._own.address} is another data set now"
            self._say_once("archive_refused", str(self._own.refused(problem)))
        elif state is ArchiveState.OUTDATED:
            self._say_once("archive_outdated", f"{follower.refusal}; it continues where it is")
        elif follower.awaits_people:
            self._trouble = "Redis lost something that this archive has: run zsched archive recover"
        elif state is ArchiveState.FOLLOWING and self._trouble is not None:
            log.info("archive_back", archive=str(self.path), after=self._trouble)
            self._trouble = None

    def _say_once(self, event: str, reason: str) -> None:
        if self._trouble != reason:
            log.error(event, archive=self.path and str(self.path), reason=reason)
        self._trouble = reason
