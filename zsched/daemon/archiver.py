"""
The archiver: a thread of every daemon, leader or standby, that keeps the archive up with the log.

What goes wrong with the archive never stops the firing: the thread says so, as an event and in its report
(``zsched status``), and tries again every second. A file that is not what was written is kept under another
name, and a new archive begins beside it.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import structlog

from zsched.archive import Archive, default_paths
from zsched.archive.file import set_aside
from zsched.config import Settings
from zsched.core.clock import Clock, from_ms
from zsched.core.log import Position
from zsched.daemon.about import facts
from zsched.daemon.bell import Bell
from zsched.daemon.failures import Failures
from zsched.daemon.follower import Follower
from zsched.daemon.loop import Loop
from zsched.daemon.meter import Meter, NoMeter
from zsched.errors import (
    ArchiveCorrupt,
    ArchiveError,
    ArchiveFailed,
    ArchiveInUse,
    RedisRefused,
    RedisUnavailable,
)
from zsched.storage.archivers import REPORT_EVERY_MS, Archivers, ArchiveState
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys

log = structlog.get_logger(__name__)

_FEW: Final = 2  # entries of a pass: what comes one by one is archived at once
_STEP_MS: Final = 2000.0  # of a backlog: then it is reported how far it came
_GATHER_MS: Final = 25.0  # from one pass to the next otherwise: what comes in a stream shares a commit
_RETRY_S: Final = 1.0  # before trying again what went wrong
_PRUNE_EVERY_MS: Final = 3_600_000.0
_CHECK_AT_OPEN_MS: Final = 1000.0  # for comparing checksums before the daemon goes on
_CHECK_MS: Final = 5.0  # of every idle pass, until all of the file was seen
_DAY_US: Final = 86_400 * 1_000_000
_NOWHERE: Final = Position(-1, 0, 0)
_STOP_S: Final = 5.0  # for the last entries to be archived when the daemon stops


class Archiver:
    """
    Keeps one archive. ``open`` in the main thread, so that a wrong path is known at once; ``start``; ``stop``.

    ``position`` and ``is_healthy`` may be read by any thread.
    """

    def __init__(
        self,
        settings: Settings,
        link: Link,
        clock: Clock,
        daemon: str,
        meter: Meter | None = None,
        failures: Failures | None = None,
    ) -> None:
        self._settings, self._link, self._clock, self._facts = settings, link, clock, facts(daemon, clock)
        self._meter = meter or NoMeter()
        self._keys = Keys(settings.namespace)
        self._archive: Archive | None = None
        self._path: Path | None = None
        self._follower: Follower | None = None
        self._trouble: str | None = None  # what was said last, until it is well
        self._next_prune_ms, self._is_pruning = clock.monotonic_ms(), False
        self._is_checked = False  # all of the file was compared with its checksums
        self._known_as: tuple[str, Position | None] = f"none-{daemon}", None
        self._failures, self._bell = failures or Failures(), Bell()  # the daemon's, for the report; for the log's wait
        self._loop = Loop("archiver", self._keep_over, self._failures, retry_s=_RETRY_S, finishes=True)
        self.moved = threading.Condition()  # notified when the position moved
        self.audit: dict[str, Any] | None = None  # what the last audit found, for the report; any thread may set it
        self.may_not_lead: str | None = None  # why its daemon may not; as ``audit``

    @property
    def path(self) -> Path | None:
        """The archive's file, once it was opened."""
        return self._path

    @property
    def position(self) -> Position | None:
        """What is on disk."""
        archive = self._archive
        return archive.position if archive else None

    @property
    def gen(self) -> str | None:
        """The name of the data set that it followed last; None when it knows none."""
        archive = self._archive
        return archive.gens[-1] if archive is not None and archive.gens else None

    @property
    def is_healthy(self) -> bool:
        """Whether the archive follows the log."""
        follower = self._follower
        return self._archive is not None and follower is not None and follower.state is ArchiveState.FOLLOWING

    def wait_until(self, seen: Position | None, within_s: float) -> None:
        """Wait until the archive has the entry *seen*, at most *within_s*."""
        if seen is not None:
            with self.moved:
                self.moved.wait_for(lambda: (self.position or _NOWHERE).order >= seen.order, within_s)

    def open(self) -> None:
        """
        Open the archive, or make it; a disk that fails is left for later.

        Raises:
            ArchiveInUse, ArchiveForeign: the file is somebody else's. ArchiveError: it may not be written.
        """
        try:
            try:
                self._open()
            except ArchiveCorrupt as error:
                self._begin_anew(error)
        except ArchiveFailed as error:
            self._say_once("archive_failed", str(error))

    def start(self) -> None:
        """Begin to follow."""
        self._loop.start()

    def stop(self) -> None:
        """Archive what is in the log now, if that is quick, and end."""
        self._loop.stop()
        self._bell.ring()
        if self._loop.join(_STOP_S):  # else it is in the middle of something; the process's end closes the file
            self._close()
            self._bell.close()

    # -- the thread -------------------------------------------------------------------------------

    def _keep_over(self) -> float | None:
        """Follow over one connection; once more after ``stop``, for what the last script wrote."""
        try:
            with closing(self._link.open()) as wire:
                self._keep(wire)
        except RedisRefused as error:  # a right that only the archiver needs, or out of memory for its report
            self._say_once("archiver_refused", str(error))
            return _RETRY_S
        return None

    def _keep(self, wire: Wire) -> None:
        """Follow over *wire*, one pass at least, until stopped or until it breaks."""
        archivers = Archivers(wire, self._keys)
        while True:
            try:
                self._follow_once(wire, archivers)
            except (RedisUnavailable, RedisRefused):
                raise
            except Exception as error:  # whatever it is, it must not end the thread unheard
                self._fail(error)
                self._report(archivers, ArchiveState.FAILED)
                self._loop.pause(_RETRY_S)
            if self._loop.is_stopping:
                return

    def _follow_once(self, wire: Wire, archivers: Archivers) -> None:
        """Follow until stopped; a corrupt file is replaced first."""
        try:
            self._follow(self._archive or self._open(), wire, archivers)
        except ArchiveCorrupt as error:
            archivers.forget(self._known_as[0])  # what it reported does not count any more
            self._begin_anew(error)

    def _fail(self, error: Exception) -> None:
        reason = str(error) or repr(error)
        if not isinstance(error, ArchiveError) and reason != self._trouble:
            log.exception("archiver_crashed")
        self._say_once("archive_failed", reason)
        self._close()

    def _follow(self, archive: Archive, wire: Wire, archivers: Archivers) -> None:
        lease_ms, is_manual = self._settings.daemon.lease_ms, self._settings.archive.recovery == "manual"
        self._follower = follower = Follower(
            archive, wire, self._keys, self._clock, lease_ms=lease_ms, is_manual=is_manual, meter=self._meter
        )
        told: tuple[object, ...] | None = None
        told_ms = 0.0
        while True:
            began_ms = self._clock.monotonic_ms()
            is_following = follower.step(_STEP_MS)
            self._tell(follower)
            self._loop.well()
            may_not_lead = self.may_not_lead
            news = archive.position, follower.state, may_not_lead, follower.looked_at
            is_news = news != told or follower.hold_for_ms > 0
            if is_news or began_ms - told_ms > REPORT_EVERY_MS:
                if told is None or began_ms - told_ms > REPORT_EVERY_MS:
                    follower.note_gen()
                now_ms = self._report(archivers, follower.state, follower.hold_for_ms)
                told, told_ms = news, began_ms
                with self.moved:
                    self.moved.notify_all()
                self._prune(archive, now_ms)
            elif not self._is_checked:
                self._is_checked = not archive.check_step(_CHECK_MS, self._clock)
            if self._loop.is_stopping:
                return
            took_ms = self._clock.monotonic_ms() - began_ms
            if is_following:
                if follower.came > _FEW:
                    self._loop.pause(max(_GATHER_MS - took_ms, 0.0) / 1000)
                if not follower.wait(self._bell):
                    return  # a reply is in flight: the last pass is over another connection
            else:
                self._loop.pause(follower.pause_ms / 1000)

    # -- the file ---------------------------------------------------------------------------------

    def _open(self) -> Archive:
        settings = self._settings.archive
        configured = settings.path or (str(self._path) if self._path else None)
        paths = [Path(configured)] if configured else default_paths(self._settings.namespace, dict(os.environ))
        for number, path in enumerate(paths):
            try:
                self._archive = Archive(path, self._settings.namespace, keep_args=settings.keep_args)
                self._is_checked = not self._archive.check_step(_CHECK_AT_OPEN_MS, self._clock)
            except ArchiveInUse:
                if number == len(paths) - 1:
                    raise
            except (ArchiveCorrupt, ArchiveFailed):
                self._path = path
                raise
            else:
                self._path = path
                log.info("archive_opened", archive=str(path), position=_shown(self._archive.position))
                return self._archive
        raise AssertionError("unreachable")

    def _close(self) -> None:
        archive, self._archive, self._follower = self._archive, None, None
        if archive is not None:
            with suppress(ArchiveCorrupt, ArchiveFailed):
                archive.close()

    def _begin_anew(self, error: ArchiveCorrupt) -> None:
        """Keep the bad file, and begin another in its place."""
        self._close()
        assert self._path is not None  # it was opened, or tried to
        at = from_ms(self._clock.now_ms()).strftime("%Y%m%dT%H%M%S.%f")[:-3]  # of two in one second, too, both are kept
        kept = set_aside(self._path, "corrupt", at)
        log.error("archive_corrupt", archive=str(self._path), reason=str(error), kept=str(kept))
        self._open()

    def _prune(self, archive: Archive, now_ms: int) -> None:
        """Forget old history: a round every hour, a part of it at each report."""
        if self._clock.monotonic_ms() >= self._next_prune_ms:
            self._next_prune_ms = self._clock.monotonic_ms() + _PRUNE_EVERY_MS
            archive.begin_pruning(now_ms * 1000 - self._settings.archive.retention_days * _DAY_US)
            self._is_pruning = True
        self._is_pruning = self._is_pruning and archive.prune()

    # -- telling ----------------------------------------------------------------------------------

    def _report(self, archivers: Archivers, state: ArchiveState, hold_for_ms: int = 0) -> int:
        """Tell Redis; a failed archive under the name and position that it had. TIME in ms."""
        archive = self._archive
        about = {**self._facts, "path": str(self._path)}
        if self._loop.is_stopping:  # the last report, which every archiver makes that is stopped in order
            state = ArchiveState.STOPPED
        if archive is not None:
            self._known_as = archive.id, archive.position
            about |= {"complete_since": archive.complete_since, "unknown_entries": archive.unknown_entries}
            about["unreadable_entries"] = archive.unreadable_entries
        if self._trouble is not None:
            about["trouble"] = self._trouble
        if self._follower is not None and self._follower.awaits_people:
            about["awaits_people"] = True
        if self._follower is not None and self._follower.looked_at:
            about["looked_at"] = sorted(map(str, self._follower.looked_at))
        if (audit := self.audit) is not None:
            about["audit"] = audit
        if (may_not_lead := self.may_not_lead) is not None:
            about["may_not_lead"] = may_not_lead
        if failing := self._failures.shown:
            about["failing"] = failing
        return archivers.report(*self._known_as, state, about, hold_for_ms)

    def _tell(self, follower: Follower) -> None:
        state = follower.state
        if state is ArchiveState.REFUSED:
            remedy = (
                f"give [archive] path of its own, or move the file away; zsched recover --from {self._path} "
                "puts what it knows into this Redis (with --force while a daemon leads)"
            )
            self._say_once("archive_refused", f"this Redis is another data set than the archive's; {remedy}")
        elif state is ArchiveState.OUTDATED:
            self._say_once("archive_outdated", f"{follower.refusal}; it goes on where it is")
        elif follower.awaits_people:
            self._trouble = "Redis lost something that this archive has: run zsched recover"
        elif state is ArchiveState.FOLLOWING and self._trouble is not None:
            log.info("archive_back", archive=str(self._path), after=self._trouble)
            self._trouble = None

    def _say_once(self, event: str, reason: str) -> None:
        if self._trouble != reason:
            log.error(event, archive=str(self._path), reason=reason)
        self._trouble = reason


def _shown(position: Position | None) -> str | None:
    return position.id if position else None
