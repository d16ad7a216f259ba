"""
A leader's chores that need no archive: it frees slots of RQ's rate limits, and ends pauses.

**Slots.** A run or job with a rate limit has a slot while it is queued or running. RQ's worker frees it when the job is
over. A worker that is killed before that frees nothing, and a worker of RQ 2 knows no limits. No worker frees the slots
of runs that expired or were cancelled in their queues. RQ's maintenance frees them, at a worker's start and then every
ten minutes. This chore frees them every second, by the rule of lua/free_slots.lua. Where no limit is in use, it looks
for one every five seconds.

A slot of a killed worker's job is freed when that job is found dead, by RQ or by daemon/lost.

**Pauses with an end.** The leader resumes schedules that are paused until a time, within a second of it. The value of a
paused schedule has the time, so archives and restores have it. ``resumes`` is only an index, and end_pauses.lua
decides. Occurrences that passed meanwhile are recorded as skipped, and do not fire.
"""

from __future__ import annotations

from typing import Final

import structlog

from zsched.core.clock import LAST_MS, Clock
from zsched.core.entry import text
from zsched.core.options.choices import Missed
from zsched.core.pages import pages_of
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.meta import server_now_ms
from zsched.storage.scripts import Scripts
from zsched.storage.slots import RateLimits
from zsched.storage.store import resume

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 1000.0  # from one round to the next
_SELDOM_MS: Final = 5000.0  # while no limit is in use
_REST: Final = 10.0  # of a long round's own time: a tenth of Redis at most
_LIMITS: Final = 20  # per script, so 2,000 jobs at most: some ms of Redis
_PAUSED: Final = 100  # schedules per script


class SlotKeeper:
    """A leader's chore for rate limits. ``name`` and ``every_ms`` are for the ``ChoreThread``."""

    name: Final = "slots"

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys, self._clock = keys, clock

    def over(self, wire: Wire) -> SlotKeeper:
        """Use *wire* from now on."""
        self._limits = RateLimits(wire, self._keys)
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
            self._left = [dict.fromkeys(part, 0) for part in pages_of(self._limits.limits(), _LIMITS)]
            self._round_ms, self._pause_ms = 0.0, _EVERY_MS if self._left else _SELDOM_MS
        if self._left:
            part, self._left = self._left[-1], self._left[:-1]
            freed, left = self._limits.free(term, part)
            self._left += [left] if left else []
            for limit, count in freed.items():
                log.info("slots_freed", limit=text(limit), count=count)
        self._round_ms += self._clock.monotonic_ms() - began_ms
        self.every_ms = max(self._pause_ms, _REST * self._round_ms)
        return bool(self._left)


class PauseEnder:
    """A leader's chore for pauses. ``name`` and ``every_ms`` are for the ``ChoreThread``."""

    name: Final = "pauses"
    every_ms: Final = 500.0

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def over(self, wire: Wire) -> PauseEnder:
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
