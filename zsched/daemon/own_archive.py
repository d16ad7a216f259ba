"""
The archive of one daemon: find, open or create it, and check that it belongs to the data set in Redis.

``archive.places`` chooses the file, and raises objections to its name and address. A chosen path is kept: after a short
disk failure the daemon must not begin another archive.

A name alone cannot distinguish a data set from its copy (an RDB restored elsewhere). So an archive that noted another
address is used only if it would restore nothing: the log contains its last entry, covers it by a ``merged`` entry, or
was trimmed past it. Otherwise an operator confirms that the Redis has moved, by ``zsched archive recover --from FILE``,
with one archive. If a daemon follows the log there, the others ask it, by a report of their last entry, whether its
history has that entry (``daemon.peers``, Covering); then they lack nothing either.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from zsched.archive import Archive
from zsched.archive.file import open_to_others, set_aside
from zsched.archive.places import ArchiveFacts, demand_folder, paths_for, refused, state_folder
from zsched.config.settings import Settings
from zsched.config.urls import address_of
from zsched.core.clock import Clock, from_ms
from zsched.core.entry import Position
from zsched.core.recovery.difference import Verdict, judge
from zsched.daemon.merge import Merge
from zsched.errors import ArchiveCorrupt, ArchiveFailed, ArchiveInUse, ArchiveOfAnother
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Wire
from zsched.storage.keys import keys_of
from zsched.storage.log import Log
from zsched.storage.meta import data_set_names

log = structlog.get_logger(__name__)

_CHECK_AT_OPEN_MS: Final = 1000.0  # for comparing checksums before the daemon goes on
_COVERED_MS: Final = 8_000.0  # for another archive to answer; it looks four times a second
_LOOK_S: Final = 0.25  # between two looks for the answer


class OwnArchive:
    """
    A daemon's ``archive`` (None while it is not open) and its ``path``. ``is_ours``: it belongs to the data set in this
    Redis. ``is_checked``: all its checksums were verified.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._keys = keys_of(settings)
        self.address = address_of(settings.redis.url)
        self.archive: Archive | None = None
        self.path: Path | None = None
        self.is_ours = self.is_checked = False
        self._was_ours = False  # the path is final; otherwise it is kept only if its archive proves to be ours

    def prepare(self) -> None:
        """
        Do the part that needs no Redis: open the configured file, or check that one can be created.

        Raises:
            ArchiveInUse, ArchiveForeign, ArchiveError, ArchiveFailed.
        """
        if self.archive is not None:
            return
        if self._settings.archive.path:
            self._open_any(Path(self._settings.archive.path))
        else:
            demand_folder(state_folder(os.environ))

    def open(self, wire: Wire) -> Archive:
        """
        Return the archive of the data set in the Redis at *wire*; open it if necessary.

        Raises:
            ArchiveOfAnother: it belongs to another data set, or to another copy of it. RedisUnavailable, RedisRefused.
                Others as ``prepare``.
        """
        gen = data_set_names(wire, self._keys)
        if self.archive is None:
            self._choose(gen)
        archive = self.archive
        assert archive is not None
        if objection := self._objection(archive, gen) or self._objection_of_log(archive, wire):
            raise self.refused(objection)
        was = archive.address
        archive.set_facts(address=self.address)
        archive.commit()
        if was not in (None, self.address):
            log.warning("archive_moved", archive=str(archive.path), made_for=was, redis=self.address)
        self.is_ours = self._was_ours = True
        return archive

    def refused(self, objection: str) -> ArchiveOfAnother:
        """Return the error for an *objection* to the archive, with the remedy."""
        assert self.path is not None  # it was opened
        return refused(objection, self.path, self.path if self._settings.archive.path else self.path.parent)

    def begin_anew(self, error: ArchiveCorrupt) -> None:
        """Rename the corrupted file, and begin another in its place. Raises as ``prepare``."""
        self.close()
        assert self.path is not None  # it was opened, or tried to
        at = from_ms(self._clock.now_ms()).strftime("%Y%m%dT%H%M%S.%f")[:-3]  # two files of one second are both kept
        kept = set_aside(self.path, "corrupt", at)
        log.error("archive_corrupt", archive=str(self.path), reason=str(error), kept=str(kept))
        self._open(self.path)

    def close(self) -> None:
        """Close the archive and release its lock."""
        archive, self.archive, self.is_ours = self.archive, None, False
        if archive is not None:
            with suppress(ArchiveCorrupt, ArchiveFailed):
                archive.close()

    def _objection(self, archive: Archive, gen: str | None) -> str | None:
        noted = ArchiveFacts(archive.path, archive.namespace, archive.gens, archive.address, archive.position)
        return noted.objection(gen, self.address)

    def _objection_of_log(self, archive: Archive, wire: Wire) -> str | None:
        """Return the objection to a restore into the Redis at *wire*: it has another address, and may be a copy."""
        mine, log_here = archive.position, Log(wire, self._keys)
        if mine is None or archive.address in (None, self.address) or log_here.contains(mine):
            return None
        first = log_here.first()
        if judge(mine, first.position if first else None, is_same_set=True) is not Verdict.LOST:
            return None
        if self._is_covered(archive, wire, mine):
            return None
        made_for = f"archive {archive.path} was made for the Redis at {archive.address}"
        return f"{made_for}, and the Redis at {self.address} lacks entries of its log: it may be a copy"

    def _is_covered(self, archive: Archive, wire: Wire, mine: Position) -> bool:
        """Return True if the log at *wire* covers *archive*, also if another archive says so when it is asked."""
        archivers, until_ms = Archivers(wire, self._keys), self._clock.monotonic_ms() + _COVERED_MS
        has_asked = False
        try:
            while True:
                merge = Merge(archive.recall(), wire, self._keys, mine, hold_for_ms=0)
                merge.compare()
                if merge.is_nothing_lost:
                    return True
                if not archivers.alive() or self._clock.monotonic_ms() >= until_ms:
                    return False
                archivers.report(archive.id, mine, ArchiveState.LOST, {"path": str(archive.path)})
                has_asked = True
                threading.Event().wait(_LOOK_S)
        finally:
            if has_asked:
                archivers.forget(archive.id)

    def _choose(self, gen: str | None) -> None:
        """
        Open the file that was configured or chosen before; otherwise the first one that is unused and of the data set
        with the names *gen*, else the last.
        """
        if chosen := self._settings.archive.path or self.path:
            self._open_any(Path(chosen))
            if self._settings.archive.path or self._was_ours or self._fits(gen):
                return
            self.close()  # its disk failed before its data set was known
        *paths, last = paths_for(self._settings.namespace, gen, self.address, os.environ)
        for path in paths:
            with suppress(ArchiveInUse):
                self._open_any(path)
                if self._fits(gen):
                    return
                self.close()
                self.path = None
        self._open_any(last)

    def _fits(self, gen: str | None) -> bool:
        return self.archive is not None and self._objection(self.archive, gen) is None

    def _open_any(self, path: Path) -> None:
        """Open the archive at *path*; replace a corrupted one by a new one."""
        try:
            self._open(path)
        except ArchiveCorrupt as error:
            self.begin_anew(error)

    def _open(self, path: Path) -> None:
        try:
            archive = Archive(path, self._settings.namespace, keep_args=self._settings.archive.keep_args)
            self.archive, self.is_ours = archive, False
            self.is_checked = not archive.check_step(_CHECK_AT_OPEN_MS, self._clock)
        except (ArchiveCorrupt, ArchiveFailed):
            self.path = path
            raise
        self.path = path
        if exposure := open_to_others(path):
            log.warning("archive_exposed", archive=str(path), reason=exposure)
        log.info("archive_opened", archive=str(path), position=archive.position.id if archive.position else None)
