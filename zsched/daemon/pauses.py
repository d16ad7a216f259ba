"""
Pauses with an end: the leader resumes schedules that are paused until a time, within a second of it.

The value of a paused schedule has the time, so archives and restores have it. ``resumes`` is only an index, and
end_pauses.lua decides. Occurrences that passed meanwhile are recorded as skipped, and do not fire.
"""

from __future__ import annotations

from typing import Final

import structlog

from zsched.core.clock import LAST_MS
from zsched.core.entry import text
from zsched.core.options.choices import Missed
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.meta import server_now_ms
from zsched.storage.scripts import Scripts
from zsched.storage.store import resume

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 100  # schedules per script


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
        found = self._wire.execute("ZRANGEBYSCORE", self._keys.resumes(), 0, now_ms, "LIMIT", 0, _AT_ONCE)
        scripts = Scripts(self._wire, self._keys)
        done = resume(scripts, self._wire, self._keys, [*map(text, found)], Missed.SKIP, term=term)
        log.info("pauses_ended", resumed=sum(one.word in ("resumed", "skipped") for one in done.values()))
        return len(found) == _AT_ONCE
