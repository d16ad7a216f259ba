"""
A leader's upkeep of Redis, which needs no archive: it frees slots of RQ's rate limits, ends pauses, and trims the log.

**Slots.** A run or job with a rate limit has a slot while it is queued or running. RQ's worker frees it when the job is
over. A worker that is killed before that frees nothing, and a worker of RQ 2 knows no limits. No worker frees the slots
of runs that expired or were cancelled in their queues. RQ's maintenance frees them, at a worker's start and then every
ten minutes. This chore frees them every second, by the rule of lua/free_slots.lua. Where no limit is in use, it looks
for one every five seconds.

A slot of a killed worker's job is freed when that job is found dead, by RQ or by daemon/lost.

**Pauses with an end.** The leader resumes schedules that are paused until a time, within a second of it. The value of a
paused schedule has the time, so archives and restores have it. ``resumes`` is only an index, and end_pauses.lua
decides. Occurrences that passed meanwhile are recorded as skipped, and do not fire.

**The log** is trimmed by the leader's main loop: entries older than an hour, or beyond 256 MiB, remain only in
archives.
"""

from typing import Final, Self

import structlog

from zsched.config.settings import ArchiveSettings
from zsched.core.clock import LAST_MS, Clock
from zsched.core.entry import Position, text
from zsched.core.options.choices import Missed
from zsched.core.pages import pages_of
from zsched.errors import RedisRefused
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log
from zsched.storage.meta import server_now_ms
from zsched.storage.scripts import Scripts
from zsched.storage.store import resume
from zsched.storage.workers import free_slots, rate_limits

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 1000.0  # from one round to the next
_SELDOM_MS: Final = 5000.0  # while no limit is in use
_REST: Final = 10.0  # of a long round's own time: a tenth of Redis at most
_LIMITS: Final = 20  # per script, so 2,000 jobs at most: some ms of Redis
_PAUSED: Final = 100  # schedules per script
_TRIM_MS: Final = 10_000.0  # from one trim of the log to the next, at most
_ENTRIES: Final = 1000  # per script
_SCRIPTS: Final = 5  # per call: some 10,000 entries a second are trimmed, while a leader renews its lease twice


class SlotKeeper:
    """A leader's chore for rate limits. ``name`` and ``every_ms`` are for the ``ChoreThread``."""

    name = "slots"

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys, self._clock = keys, clock

    def over(self, wire: Wire) -> Self:
        """Use *wire* from now on."""
        self._wire, self._scripts = wire, Scripts(wire, self._keys)
        self.every_ms = _EVERY_MS
        self._left: list[dict[bytes, int]] = []  # by script: limits, each with how many of its jobs were looked at
        self._round_ms = 0.0
        return self

    def step(self, term: Term) -> bool:
        """
        Do one script of a round through all limits; return whether more of the round is left.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused.
        """
        began_ms = self._clock.monotonic_ms()
        if not self._left:
            self._left = [dict.fromkeys(part, 0) for part in pages_of(rate_limits(self._wire, self._keys), _LIMITS)]
            self._round_ms, self._pause_ms = 0.0, _EVERY_MS if self._left else _SELDOM_MS
        if self._left:
            part, self._left = self._left[-1], self._left[:-1]
            freed, left = free_slots(self._scripts, term, part)
            self._left += [left] if left else []
            for limit, count in freed.items():
                log.info("slots_freed", limit=text(limit), count=count)
        self._round_ms += self._clock.monotonic_ms() - began_ms
        self.every_ms = max(self._pause_ms, _REST * self._round_ms)
        return bool(self._left)


class PauseEnder:
    """A leader's chore for pauses. ``name`` and ``every_ms`` are for the ``ChoreThread``."""

    name = "pauses"
    every_ms = 500.0

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def over(self, wire: Wire) -> Self:
        """Use *wire* from now on."""
        self._wire = wire
        return self

    def next_ms(self) -> int:
        """Return the time at which the next pause ends; LAST_MS without one."""
        first = self._wire.execute("ZRANGE", self._keys.resumes(), 0, 0, "WITHSCORES")
        return int(first[1]) if first else LAST_MS

    def step(self, term: Term) -> bool:
        """
        Resume some schedules whose time has come; return whether there may be more.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused.
        """
        if (next_ms := self.next_ms()) == LAST_MS or next_ms > (now_ms := server_now_ms(self._wire, self._keys)):
            return False
        found = self._wire.execute("ZRANGEBYSCORE", self._keys.resumes(), 0, now_ms, "LIMIT", 0, _PAUSED)
        scripts = Scripts(self._wire, self._keys)
        done = resume(scripts, self._wire, self._keys, [*map(text, found)], Missed.SKIP, term=term)
        log.info("pauses_ended", resumed=sum(one.word in ("resumed", "skipped") for one in done.values()))
        return len(found) == _PAUSED


class Trimmer:
    """
    Keeps the log short, a small script at a time. It ignores the archives' positions: an archive that falls behind
    reads the state from Redis.
    """

    def __init__(self, dispatch: Dispatch, log: Log, settings: ArchiveSettings, clock: Clock) -> None:
        self._dispatch, self._log, self._clock = dispatch, log, clock
        self._keep_ms, self._keep_bytes = settings.log_keep_s * 1000, settings.log_keep_mib * 2**20
        self._every_ms = min(_TRIM_MS, self._keep_ms / 2)
        self._next_ms = clock.monotonic_ms()
        self._is_refused = False
        self._first_kept: Position | None = None  # set while there is more to trim

    def trim_if_due(self, term: Term, now_ms: int) -> None:
        """Run a few scripts at most; log a refusal by Redis once. Raises Stale, ServerChanged."""
        try:
            if self._first_kept is None and self._clock.monotonic_ms() >= self._next_ms:
                self._next_ms = self._clock.monotonic_ms() + self._every_ms
                self._first_kept = self._first_to_keep(now_ms)
            for _ in range(_SCRIPTS):
                if self._first_kept is None:
                    break
                if self._dispatch.trim(term, self._first_kept.id, _ENTRIES) < _ENTRIES // 2:
                    self._first_kept = None
        except RedisRefused as error:  # no right to XTRIM: firing goes on
            self._say_refused(error)
            self._first_kept = None

    def _first_to_keep(self, now_ms: int) -> Position | None:
        """Return the first entry to keep, or None to keep all."""
        first, last = self._log.first(), self._log.last()
        if first is None or last is None:
            return None
        kept = first.position
        since_us = (now_ms - self._keep_ms) * 1000
        if kept.t_us < since_us:
            kept = self._log.search(lambda position: position.t_us >= since_us) or last.position
        kept = max(kept, self._first_by_size(first.position, last.position))
        return kept if kept != first.position else None

    def _first_by_size(self, first: Position, last: Position) -> Position:
        try:
            length, size = self._log.size()
        except RedisRefused as error:  # no right to MEMORY: by age alone
            self._say_refused(error)
            return first
        if size <= self._keep_bytes:
            return first
        seq = last.seq - max(int(length * self._keep_bytes / size), 1) + 1
        return self._log.search(lambda position: position.seq >= seq) or last

    def _say_refused(self, error: RedisRefused) -> None:
        if not self._is_refused:
            log.warning("log_not_trimmed", reason=str(error))
        self._is_refused = True
