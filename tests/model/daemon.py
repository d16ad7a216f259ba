"""
A daemon: it leads when it can, and its archiver follows the log, notices a loss, and restores what it knows.

Every method is one step, so that anything may happen between two. The states of an archiver during a loss:

    none ──not its history──▶ Waiting ──nobody restores──▶ Merging ──all restored──▶ Merged ──▶ bootstrap
                                 ▲                            │
                                 └──────AGAIN─────────────────┘

The state is forgotten when the daemon dies, or when the log contains the archive's position (again).

A leader of a data set without a name gives it the name that the furthest archive reports, and fires when it has one.
Who restores before that gives its own name.

Not guaranteed:

- A Redis that was flushed while every archive was away is not recognised: it counts as new, and their archives
  count as archives of another data set.
- Data that no archive had is lost.
- An archive that returns after the log was trimmed past it restores nothing.
- A cancel that only a silent archive knows is undone until that archive returns; the schedule may run by then.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from tests.model.archive import PAGES, Archive, Bootstrap, Known
from tests.model.comparison import find_correction, find_missing, is_trimmed_past
from tests.model.dataset import Entry, Position
from tests.model.invariants import Broken, Invariant, check_one_history
from tests.model.rules import Rule
from tests.model.scripts import Redis, Token

WAIT = 1  # ticks; the second that a daemon gives the others
ASK = 1  # ticks; in truth a lease, which the hold lasts anyway
PATIENCE = 4  # ticks; that it gives those that follow this log, and do not say that they have looked
ALIVE = 10  # ticks since its last report; then an archive is not waited for


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waiting until *until*, for others' restores after *seen*, and for archives that follow this log *at_most*."""

    until: int
    seen: Position
    at_most: int


@dataclass(frozen=True, slots=True)
class Merging:
    """Restoring *left* while the log ends at *seen*."""

    seen: Position
    left: tuple[tuple[int, Known], ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """All is restored and logged in *entry*: the archive is bootstrapped while the log has that entry."""

    entry: Position


class Daemon:
    """One daemon with its disk. ``server`` is the identity that its connection found at its opening."""

    def __init__(self, name: str, redis: Redis) -> None:
        self.name, self.redis = name, redis
        self.archive = Archive()
        self.is_up, self.is_paused = True, False
        self.server: int | None = None
        self.token: Token | None = None
        self.recovery: Waiting | Merging | Merged | None = None
        self.peers: list[Daemon] = [self]  # whose archives report their names, itself too
        self.asks_until = 0
        self.looked_at: frozenset[Position] = frozenset()

    def forget(self) -> None:
        """Lose everything that is only in memory."""
        self.token = self.recovery = self.archive.bootstrap = None
        self.looked_at = frozenset()

    def connect(self) -> None:
        """Open a new connection if the server is another: only there is its identity read."""
        self.server = self.redis.server

    @property
    def leads(self) -> bool:
        """Return True if this daemon holds the lease."""
        return self.redis.leads(self.token)

    # -- the leader's steps

    def acquire(self) -> None:
        """Try to lead."""
        reply = self.redis.acquire(self.name, self.token, self.server)
        if reply != "BUSY":
            assert not isinstance(reply, str)
            self.token, self.asks_until = reply, self.redis.now + ASK

    def fire(self) -> None:
        """Push one due run, in a data set that has a name; on another server acquire again first."""
        if self.leads and self.redis.data.gen is None:
            self._name()
        elif self.redis.fire(self.token, self.server) == "SERVER":
            self.acquire()

    def _name(self) -> None:
        """Give the data set the name that the furthest archive reports; after a while, a new one."""
        redis = self.redis
        redis.renew(self.token)
        there = self._let_them_look()
        named = [peer.archive for peer in there if peer.archive.gen is not None and not peer.is_refused]
        named.sort(
            key=lambda archive: archive.position.t if archive.position else 0, reverse=redis.keeps(Rule.FURTHEST)
        )
        known = [archive.gen for archive in named]
        if redis.keeps(Rule.ASK):
            if not known and redis.now < self.asks_until:
                return
        else:
            known = []
        others = [peer.archive for peer in there if peer.has_something_else]
        is_new = not known and (not others or not redis.keeps(Rule.NEW))
        if redis.name(self.token, self.server, known[0] if known else None, is_new) == "SERVER":
            self.acquire()
        elif not known:
            redis.witness.missed |= {peer.name for peer in self.peers if peer not in there}
            if not others:
                redis.witness.begin_anew()

    def _let_them_look(self) -> list[Daemon]:
        """Return the daemons that are there. Within a lease each of them reports what the log lacks of its archive."""
        there = [peer for peer in self.peers if peer.is_up and not peer.is_paused]
        for peer in there:
            position = peer.archive.position
            if position is not None and not self.redis.contains(position) and not peer.is_refused:
                self.redis.report(peer.name, position)
        return there

    @property
    def has_something_else(self) -> bool:
        """True if its archive has an entry that this log lacks, or had a name before."""
        position = self.archive.position
        return bool(self.archive.gens) or (position is not None and not self.redis.contains(position))

    @property
    def is_refused(self) -> bool:
        """True if the data set in Redis is another one than its archive's."""
        archive, gen = self.archive, self.redis.data.gen
        is_here = archive.position is not None and self.redis.contains(archive.position)
        is_other = gen is not None and bool(archive.gens) and gen not in archive.gens
        return is_other and not is_here and self.redis.keeps(Rule.NAME)

    def track(self) -> None:
        """Log one ended run."""
        self.redis.track(self.token, self.server)

    def trim(self, retain: int) -> None:
        """Trim the log."""
        self.redis.trim(self.token, retain)

    # -- the archiver's step

    def follow(self) -> None:
        """One pass: take the next entry, or do the next thing about the loss."""
        archive, redis = self.archive, self.redis
        if archive.position is not None and redis.contains(archive.position):
            self.recovery = archive.bootstrap = None
            self._append_next(archive.position)
            return
        self.looked_at = frozenset()
        if archive.position is None:
            self._bootstrap()
        elif self.is_refused:
            self.recovery = archive.bootstrap = None
        elif is_trimmed_past(archive, redis.data, redis.left_out):
            self.archive, self.recovery = Archive(), None
            self.archive.gens = archive.gens
        else:
            self._recover(archive.position)

    def _append_next(self, position: Position) -> None:
        archive, data = self.archive, self.redis.data
        index = bisect_right(data.log, position.id, key=lambda entry: entry.position.id)
        if index < len(data.log):
            if not self._correct(data.log[index : index + 1]):
                check_one_history(self.name, archive, data.log[index])
                archive.append(data.log[index])
                self.redis.witness.archived.add(data.log[index].position.t)
            return
        archive.note(data.gen)
        self._cover_reported()
        self.redis.report(self.name, archive.position or position, self.looked_at, archive.began_t)
        self._show()

    def _show(self) -> None:
        """Note, as the leader, that nothing was lost, once the archives show it."""
        redis, data = self.redis, self.redis.data
        reports = data.reports.values() if redis.keeps(Rule.ALL_SHOW) else [data.reports[self.name]]
        since = data.doubt or 0
        if all(
            one.told > since
            and one.looked_at is not None
            and redis.contains(one.position)
            and (one.began_t < data.doubted_t or not redis.keeps(Rule.OLD_SHOW))
            for one in reports
        ):
            redis.show(self.token, self.server)

    def _correct(self, taken_in: list[Entry]) -> bool:
        """Correct one restore among *taken_in* if this archive knows a later change. Return True if there was one."""
        data, redis = self.redis.data, self.redis
        found = find_correction(self.archive, self.name, data, taken_in, redis.left_out)
        if found is None:
            return False
        redis.restore(self.name, data.tail, *found, None)
        redis.witness.corrections += 1
        return True

    def _cover_reported(self) -> None:
        """Report a position that this log lacks but this archive has: none of its data is missing here."""
        redis, order = self.redis, self.archive.order
        absent = [one.position for one in redis.data.reports.values() if not redis.contains(one.position)]
        self.looked_at, absent = frozenset(absent), [position for position in absent if position in order]
        if absent and redis.keeps(Rule.MERGED_COVERS):
            covered = {position for entry in redis.data.log for position in entry.covers}
            if not covered.issuperset(absent):
                redis.merged(position for position in absent if position not in covered)

    # -- recovery

    def _recover(self, position: Position) -> None:
        redis = self.redis
        match self.recovery:
            case None:
                redis.report(self.name, position)
                redis.hold()
                self._wait(WAIT if redis.keeps(Rule.WAIT) else 0)
            case Waiting(until, seen, at_most):
                redis.report(self.name, position)
                if self._must_yield(seen):
                    self._wait(WAIT)
                elif self._is_behind(position):
                    self._wait(0)
                elif self._was_merged(seen) or (redis.now >= until and not self._is_awaited(position, at_most)):
                    missing = find_missing(self.archive, redis.data, redis.left_out)
                    self.recovery = Merging(redis.data.tail, tuple(missing))
            case Merging(seen, left):
                self._restore_next(seen, left)
            case Merged(entry) if redis.contains(entry) or not redis.keeps(Rule.MERGED_STAYS):
                self._bootstrap()
            case Merged():
                self.recovery = self.archive.bootstrap = None  # lost again after the merge

    def _wait(self, ticks: int) -> None:
        now = self.redis.now
        self.recovery = Waiting(now + ticks, self.redis.data.tail, now + PATIENCE)

    def _is_awaited(self, position: Position, at_most: int) -> bool:
        """Return True if an archive that follows this log and reported lately has not examined *position* yet."""
        redis = self.redis
        is_silent = any(
            name != self.name
            and redis.now - report.told <= ALIVE
            and redis.contains(report.position)
            and report.looked_at is not None
            and position not in report.looked_at
            for name, report in redis.data.reports.items()
        )
        return redis.keeps(Rule.WAIT) and redis.now < at_most and is_silent

    def _is_behind(self, position: Position) -> bool:
        """Return True if the data set has no name, and an archive that goes further reported a loss lately."""
        redis = self.redis
        if redis.data.gen is not None or not redis.keeps(Rule.FURTHEST):
            return False
        self._let_them_look()
        return any(
            report.position.t > position.t and redis.now - report.told <= ALIVE and not redis.contains(report.position)
            for report in redis.data.reports.values()
        )

    def _must_yield(self, seen: Position) -> bool:
        """Return True if another archive has restored since *seen* and has not finished."""
        is_restoring = any(entry.kind == "restore" for entry in self.redis.data.since(seen))
        return is_restoring and not self._was_merged(seen) and self.redis.keeps(Rule.YIELD)

    def _was_merged(self, seen: Position) -> bool:
        return any(entry.kind == "merged" for entry in self.redis.data.since(seen))

    def _restore_next(self, seen: Position, left: tuple[tuple[int, Known], ...]) -> None:
        redis = self.redis
        if left:
            if self.archive.gens and redis.data.origin != self.archive.origin:
                raise Broken(Invariant.I7, f"{self.name} puts {left[0][0]} into another data set")
            refused = redis.restore(self.name, seen, *left[0], self.archive.gen)
            done: Merging | Merged = Merging(redis.data.tail, left[1:])
        else:
            reported = [report.position for report in redis.data.reports.values()]
            refused = redis.merged([position for position in reported if position in self.archive.order], seen)
            done = Merged(redis.data.tail)
        if refused:
            redis.witness.refused += 1
            self._wait(WAIT if self._must_yield(seen) else 0)
        else:
            self.recovery = done

    def _bootstrap(self) -> None:
        """Begin a bootstrap, read a page, or switch to the new state; start again when the history changed."""
        archive, redis = self.archive, self.redis
        built = archive.bootstrap
        if built is None:
            if redis.data.log:  # the place before the first entry belongs to every history
                archive.bootstrap = Bootstrap(redis.data)
                if not redis.keeps(Rule.KEEP_OLD):
                    archive.position, archive.state = None, {}
        elif not redis.contains(built.base) or (redis.keeps(Rule.ONE_HISTORY) and not redis.contains(built.last_read)):
            archive.bootstrap = None
        elif built.pages < PAGES:
            built.scan(redis.data)
        elif not self._correct(redis.data.log):
            archive.switch(redis.data)
            redis.witness.archived |= {entry.position.t for entry in archive.entries}
            self.recovery = None
