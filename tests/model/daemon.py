"""
A daemon: it leads when it can, and its archiver follows the log, notices a loss, and puts back what it knows.

Every method is one step, so that anything may happen between two. What an archiver is doing about a loss:

    none ──not its history──▶ Waiting ──nobody restores──▶ Merging ──all restored──▶ Merged ──▶ bootstrap
                                 ▲                            │
                                 └──────AGAIN─────────────────┘

It is forgotten when the daemon dies, or when the log contains the archive's position (again).

Not guaranteed: what no archive had; what an archive brings that returns after the log was trimmed past it; a
cancel that only a silent archive knows is undone until that archive returns, and may have run by then.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from tests.model.archive import PAGES, Archive, Bootstrap, Known
from tests.model.comparison import find_missing, is_trimmed_past
from tests.model.dataset import Position
from tests.model.invariants import check_one_history
from tests.model.rules import Rule
from tests.model.scripts import Redis, Token

WAIT = 1  # ticks; the second that a daemon gives the others


@dataclass(frozen=True, slots=True)
class Waiting:
    """For *until*, or for others to finish what they restore after *seen*."""

    until: int
    seen: Position


@dataclass(frozen=True, slots=True)
class Merging:
    """*left* is to be restored while the log ends at *seen*."""

    seen: Position
    left: tuple[tuple[int, Known], ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """All is restored and *entry* says so: the archive is bootstrapped while the log has it."""

    entry: Position


class Daemon:
    """One daemon with its disk. ``server`` is what its connection found when it was opened."""

    def __init__(self, name: str, redis: Redis) -> None:
        self.name, self.redis = name, redis
        self.archive = Archive()
        self.is_up, self.is_paused = True, False
        self.server: int | None = None
        self.token: Token | None = None
        self.recovery: Waiting | Merging | Merged | None = None

    def forget(self) -> None:
        """Lose all that is only in memory."""
        self.token = self.recovery = self.archive.bootstrap = None

    def connect(self) -> None:
        """Open a new connection if the server is another: only there is its identity read."""
        self.server = self.redis.server

    @property
    def leads(self) -> bool:
        """Whether it holds the lease."""
        return self.redis.leads(self.token)

    # -- the leader's steps

    def acquire(self) -> None:
        """Try to lead."""
        reply = self.redis.acquire(self.name, self.token, self.server, self.archive.gen)
        if reply != "BUSY":
            assert not isinstance(reply, str)
            self.token = reply

    def fire(self) -> None:
        """Push one due run; on another server acquire again first."""
        if self.redis.fire(self.token, self.server) == "SERVER":
            self.acquire()

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
        if archive.position is None:
            self._bootstrap()
        elif redis.contains(archive.position):
            self.recovery = archive.bootstrap = None
            self._append_next(archive.position)
        elif is_trimmed_past(archive, redis.data, redis.left_out):
            self.archive, self.recovery = Archive(), None
        else:
            self._recover(archive.position)

    def _append_next(self, position: Position) -> None:
        archive, data = self.archive, self.redis.data
        index = bisect_right(data.log, position.id, key=lambda entry: entry.position.id)
        if index < len(data.log):
            check_one_history(self.name, archive, data.log[index])
            archive.append(data.log[index])
            return
        archive.gen = data.gen or archive.gen
        self.redis.report(self.name, position)
        self._cover_reported()

    def _cover_reported(self) -> None:
        """A position that this log lacks but this archive has: nothing of it is missing here, so say it."""
        redis, order = self.redis, self.archive.order
        known = [position for position in redis.data.reports.values() if position in order]
        absent = [position for position in known if not redis.contains(position)]
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
            case Waiting(until, seen):
                if self._must_yield(seen):
                    self._wait(WAIT)
                elif redis.now >= until or self._was_merged(seen):
                    missing = find_missing(self.archive, redis.data, redis.left_out)
                    self.recovery = Merging(redis.data.tail, tuple(missing))
            case Merging(seen, left):
                self._restore_next(seen, left)
            case Merged(entry) if redis.contains(entry) or not redis.keeps(Rule.MERGED_STAYS):
                self._bootstrap()
            case Merged():
                self.recovery = self.archive.bootstrap = None  # lost again after the merge

    def _wait(self, ticks: int) -> None:
        self.recovery = Waiting(self.redis.now + ticks, self.redis.data.tail)

    def _must_yield(self, seen: Position) -> bool:
        """Whether another has restored since *seen* and has not said that it is done."""
        is_restoring = any(entry.kind == "restore" for entry in self.redis.data.since(seen))
        return is_restoring and not self._was_merged(seen) and self.redis.keeps(Rule.YIELD)

    def _was_merged(self, seen: Position) -> bool:
        return any(entry.kind == "merged" for entry in self.redis.data.since(seen))

    def _restore_next(self, seen: Position, left: tuple[tuple[int, Known], ...]) -> None:
        redis = self.redis
        if left:
            refused = redis.restore(seen, *left[0])
            done: Merging | Merged = Merging(redis.data.tail, left[1:])
        else:
            reported = [position for position in redis.data.reports.values() if position in self.archive.order]
            refused = redis.merged(reported, seen)
            done = Merged(redis.data.tail)
        if refused:
            redis.witness.refused += 1
            self._wait(WAIT if self._must_yield(seen) else 0)
        else:
            self.recovery = done

    def _bootstrap(self) -> None:
        """Begin a bootstrap, read a page, or switch to what was read; from the start when the history changed."""
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
        else:
            archive.switch(redis.data)
            self.recovery = None
