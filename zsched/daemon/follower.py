"""
Follow the log into an archive: identify its history, and continue from the archive's position.

The archive's position is the identity (id, t) of the last entry on its disk. Every pass reads the log from
that id on, which is included::

    the first entry is that very one ─── append the rest, commit, report              following
    nothing is there yet ─────────────── read what Redis holds                        bootstrapping
    the log goes another way ─────────── ``daemon.recovery`` finds out what happened  lost, refused, bootstrapping
    another format from there on ─────── leave the rest to a newer version            outdated

A log that contains an entry also contains everything before it, so one comparison per pass is enough. Two histories may
share an id, because a rolled-back Redis reuses ids; then the times differ. A report is written after its commit, never
before: ``durable`` and recovery rely on that.
``daemon.intake`` reads entries and pages, and takes them in.

**Bootstrap.** If the log is complete (it begins with seq 1), all of it is read. Otherwise the base is the log's last
entry. Retained entries before it go only into the history. Then the schedules and open runs are read in pages, each
with the log's position. Then the log is followed from the base to its end, on top of these pages. All pages must be of
one history (rule: ONE_HISTORY). So before every page the log must still contain the base and the last end; otherwise
the bootstrap begins again. Entries hold absolute values, so an entry whose effect is already in a page changes nothing.
A schedule may move from an unread place to one that was read already. The entry of the move names it, and it is read
once more. Then state and position are switched in one transaction. Until then the old ones hold, and are used in a
merge (rule: KEEP_OLD). After a merge the log must still contain the ``merged`` entry. If not, Redis lost it again, and
the old knowledge is kept.

**Healing.** If an entry of a known kind cannot be read, the state lacks only its effects. Then a bootstrap begins at
the archive's own position, and scans: the data in Redis includes these effects. The archive's history does not change.

**A newer format.** An entry may note a format that this version does not know (a ``term``, a ``restore``). That entry
and all later ones are not read: the position stays before it, and the state is *outdated* until this process is
upgraded. No bootstrap or recovery begins while ``meta`` notes such a format, and the scripts of a merge refuse, too. A
file with entries of a newer format is marked: no older version opens it, also not for ``zsched archive recover``. So
nothing is misread, in whatever order versions come and go, if only zsched writes the log and ``meta``.

Not guaranteed: after a FLUSHALL, nothing in Redis notes the newer format until a newer version leads or restores. Until
then an older version may lead and restore its data, like any archive that was away before a loss. Data that a newer
archive restores later replaces it, and from the first such ``restore`` on no older version fires.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from zsched.archive import START, Archive
from zsched.core.clock import Clock
from zsched.core.entry import Entry, Position, is_known
from zsched.core.recovery.difference import Verdict
from zsched.daemon.intake import Intake
from zsched.daemon.loop import Bell
from zsched.daemon.meter import Meter
from zsched.daemon.peers import Correction, Covering
from zsched.daemon.reconciler import HistoryChanged
from zsched.daemon.recovery import PATIENCE_MS, Recovery
from zsched.errors import OtherFormat
from zsched.storage.archivers import ArchiveState
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.meta import data_set_names, number
from zsched.storage.scripts import unknown_format

log = structlog.get_logger(__name__)

_WAIT_MS: Final = 1000  # for the log to go on
_UNNAMED_MS: Final = 50  # the same until the data set's name is known; no entry contains it
_GRAIN_MS: Final = 200  # margin for Redis' reply that the wait timed out
_RETRY_MS: Final = 1000.0  # before another attempt after an error
_REFUSED_MS: Final = 10_000.0  # between two comparisons with another data set
_LOST_MS: Final = 200.0  # between two checks while other archives may be restoring
_HEAL_MS: Final = 60_000.0  # least time between two bootstraps caused by unreadable entries


class Follower:
    """
    Follows one log over one wire into *archive*. ``state`` is its present activity. *between* is called in the middle
    of a long step. It reports and holds fire (``hold_for_ms``), and ends the step by raising an error.
    """

    def __init__(
        self,
        archive: Archive,
        wire: Wire,
        keys: Keys,
        clock: Clock,
        *,
        lease_ms: int = 2000,
        is_manual: bool = False,
        meter: Meter | None = None,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._between = between
        self._archive, self._log, self._clock = archive, Log(wire, keys), clock
        self._wire, self._keys, self._lease_ms = wire, keys, lease_ms
        self._recovery = Recovery(archive, wire, keys, clock, hold_for_ms=lease_ms, is_manual=is_manual)
        correction = Correction(archive, wire, keys, clock, self._pause_correcting, hold_for_ms=lease_ms)
        self.intake = Intake(archive, wire, keys, clock, correction, meter or Meter())
        self._correcting_since_ms: float | None = None
        self._is_delayed = False  # a correction took too long: it no longer prevents firing
        self.covering = Covering(archive, wire, keys, self._recovery, clock)
        self._next_heal_ms = 0.0
        self.state = ArchiveState.FOLLOWING if archive.position else ArchiveState.BOOTSTRAPPING
        self.refusal: OtherFormat | None = None  # why it is outdated

    def step(self, within_ms: float = float("inf")) -> bool:
        """
        Bring the archive to the log's end, or as close as possible within *within_ms*, and commit. Return False if it
        must be tried again.

        Raises:
            RedisUnavailable, RedisRefused, ArchiveCorrupt, ArchiveFailed, what *between* raises.
        """
        self.intake.came = 0
        if self._archive.is_bootstrapping:  # the connection broke: the pages read so far may be of another history
            self._archive.abandon_bootstrap()
        try:
            return self._step(within_ms)
        except OtherFormat as error:
            self.state, self.refusal = ArchiveState.OUTDATED, error
            self._recovery.forget()
            return False
        finally:
            self._correcting_since_ms = None

    def _step(self, within_ms: float) -> bool:
        with suppress(HistoryChanged):  # the log does not contain the archive's position
            if self._archive.position is not None:
                self.intake.read_on(within_ms)
                self.intake.complete()
                self.state = ArchiveState.FOLLOWING
                self._recovery.forget()
                self.covering.step()
                self._heal()
                return True
        return self._find_history()

    def _pause_correcting(self) -> None:
        """Note the progress of a correction. A long correction is logged, and no longer holds fire."""
        self._archive.commit()  # what is before it
        now_ms = self._clock.monotonic_ms()
        if self._correcting_since_ms is None:
            self._correcting_since_ms, self._is_delayed = now_ms, False
        elif not self._is_delayed and now_ms - self._correcting_since_ms > PATIENCE_MS:
            self._is_delayed = True
            log.warning("correction_delayed", archive=str(self._archive.path), after_ms=PATIENCE_MS)
        self._between()

    @property
    def hold_for_ms(self) -> int:
        """Return the milliseconds for which nothing may fire, while a loss is examined or corrected (rule: HOLD)."""
        if self._correcting_since_ms is not None:
            return 0 if self._is_delayed else self._lease_ms
        return self._lease_ms if self.state is ArchiveState.LOST else 0

    @property
    def pause_ms(self) -> float:
        """Return the pause after a step that returned False."""
        if self.state is ArchiveState.REFUSED:
            return _REFUSED_MS
        if self.state is not ArchiveState.LOST:
            return _RETRY_MS
        return 0.0 if self._recovery.is_busy else min(_LOST_MS, self._lease_ms / 3)

    @property
    def awaits_people(self) -> bool:
        """Return True if an operator must run ``zsched archive recover``."""
        return self.state is ArchiveState.LOST and self._recovery.awaits_people

    def wait(self, bell: Bell) -> bool:
        """
        Wait for new log entries, a second at most. Return False if *bell* ended the wait: then the wire is unusable.
        """
        position, wait_ms = self._archive.position, _WAIT_MS if self._archive.gens else _UNNAMED_MS
        self._wire.send(*self._log.wait_command(position.id if position else "0-0", wait_ms))
        if not self._wire.wait_for_data((wait_ms + _GRAIN_MS) / 1000, bell) and bell.is_rung:
            return False
        self._wire.receive()
        return True

    def note_gen(self) -> None:
        """Note the name of the followed data set, but not of another one."""
        if self.state is ArchiveState.FOLLOWING and (gen := self._gen_of(self._archive.position)) is not None:
            self._archive.set_facts(gen=gen)
            self._archive.commit()

    # -- finding out ------------------------------------------------------------------------------

    def _find_history(self) -> bool:
        """Find out why the log does not continue from here, and follow it if that is right."""
        archive, merged = self._archive, None
        self.covering.forget()
        self._demand_known_format()
        if archive.position is not None:
            merged = self._recovery.step(archive.position)
            if (verdict := self._recovery.verdict) is Verdict.UNRELATED:
                self.state = ArchiveState.REFUSED
                return False
            elif verdict is Verdict.LOST and merged is None:
                self.state = ArchiveState.LOST
                return False
            elif verdict is Verdict.LEFT_BEHIND:
                begins, path = self._log.first(), str(archive.path)
                log_begins = begins.position.id if begins else None
                log.warning("archive_left_behind", archive=path, had=archive.position.id, log_begins=log_begins)
                archive.leave_behind()
        first = self._log.first()
        self.state = ArchiveState.BOOTSTRAPPING if archive.position is None else ArchiveState.LOST
        if first is None:  # an empty log has no position: wait for its first entry
            return archive.position is None
        if archive.position is None:
            log.info("archive_begins", archive=str(archive.path), complete=first.position.seq == 1)
        return self._bootstrap(first, merged)

    def _demand_known_format(self) -> int:
        """Return the format noted in Redis, or 0. Raises OtherFormat, Garbled."""
        noted = self._wire.execute("HGET", self._keys.meta(), "format")
        format = number(self._keys, "format", noted)
        if noted is not None and not is_known(format):
            raise unknown_format(self._keys, format)
        return format

    def _gen_of(self, position: Position | None) -> str | None:
        """Return the names of the data set if its log has *position*: another data set may have replaced it."""
        gen = data_set_names(self._wire, self._keys)
        return gen if gen is not None and position is not None and self._log.contains(position) else None

    # -- bootstrapping ----------------------------------------------------------------------------

    def _heal(self) -> None:
        """
        Read from Redis the effects of unreadable entries. The history stays. Afterwards the position is after these
        entries, so none of them starts a second bootstrap.
        """
        now_ms, position = self._clock.monotonic_ms(), self._archive.position
        if not self._archive.unreadable_entries or now_ms < self._next_heal_ms or position is None:
            return
        self._next_heal_ms = now_ms + _HEAL_MS
        last = next(iter(self._log.read(position.id, 1)), None)
        if last is not None and last.position == position:
            log.warning("archive_heals", archive=str(self._archive.path), unreadable=self._archive.unreadable_entries)
            self._bootstrap(last, None, since=self._archive.complete_since)

    def _bootstrap(self, first: Entry, merged: Position | None, since: str | None = None) -> bool:
        """Bootstrap from *first* on. *since*: the archive has the history before it, complete since that time."""
        archive, began_ms = self._archive, self._clock.monotonic_ms()
        is_complete = since is None and first.position.seq == 1
        archive.begin_bootstrap()
        try:
            if is_complete:
                self.intake.append([first])
                since = START
            else:
                since = since or str(first.position.t_us)
                self.intake.scan_all(first)
            self.intake.read_on()
            self.intake.complete()
            if merged is not None and not self._log.contains(merged):
                raise HistoryChanged
        except HistoryChanged:  # from the start, at the next pass
            archive.abandon_bootstrap()
            return False
        gen, format = self._gen_of(archive.tail), self._demand_known_format()
        archive.end_bootstrap(since)
        archive.set_facts(gen=gen, format=format)
        archive.commit()
        self.state = ArchiveState.FOLLOWING
        self._recovery.forget()
        took_ms = round(self._clock.monotonic_ms() - began_ms)
        log.info("archive_bootstrapped", archive=str(archive.path), complete_since=since, took_ms=took_ms)
        return True
