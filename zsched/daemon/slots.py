"""
Slots of RQ's rate limits: the leader frees slots that no job needs any more.

A run or job with a rate limit has a slot while it is queued or running. RQ's worker frees it when the job is over. A
worker that is killed before that frees nothing, and a worker of RQ 2 knows no limits. No worker frees the slots of runs
that expired or were cancelled in their queues. RQ's maintenance frees them, at a worker's start and then every ten
minutes. This chore frees them every second, by the rule of lua/free_slots.lua. Where no limit is in use, it looks
for one every five seconds. It needs no archive.

A slot of a killed worker's job is freed when that job is found dead, by RQ or by daemon/lost.
"""

from __future__ import annotations

from typing import Final

import structlog

from zsched.core.clock import Clock
from zsched.core.entry import text
from zsched.core.pages import pages_of
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.slots import RateLimits

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 1000.0  # from one round to the next
_SELDOM_MS: Final = 5000.0  # while no limit is in use
_REST: Final = 10.0  # of a long round's own time: a tenth of Redis at most
_AT_ONCE: Final = 20  # limits per script, so 2,000 jobs at most: some ms of Redis


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
            self._left = [dict.fromkeys(part, 0) for part in pages_of(self._limits.limits(), _AT_ONCE)]
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
