"""
Deadlines of runs: which have passed, so that Redis has let go of those that had not begun. Read by the leader.

What is kept of a run goes when its end is recorded (track.lua). What was told ten minutes ago is forgotten here: a run
that began in time and is still running, or that nobody knows.
"""

from __future__ import annotations

from typing import Final

from zsched.core.log import text
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.time import server_now_ms

_PAGE: Final = 5000
_PAGES: Final = 20  # in one look; what is more the tracker finds in its rounds
_KEPT_MS: Final = 600_000


class Deadlines:
    """
    What passed, look by look, over one wire; ``since_ms``: when it looked first. Raises RedisUnavailable, RedisRefused.
    """

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys = wire, keys
        self._told_ms = self.since_ms = -1

    def passed(self) -> list[str]:
        """Run ids whose deadlines have passed since the last look, those longest ago first; all at the first."""
        key, now_ms = self._keys.deadlines(), server_now_ms(self._wire, self._keys)
        if self._wire.execute("TYPE", key) not in (b"zset", b"none"):  # another program's: the leader tells of that
            return []
        if self.since_ms < 0:
            self.since_ms = now_ms
        elif now_ms - self.since_ms >= _KEPT_MS:  # all that passed so long ago was told so long ago
            self._wire.execute("ZREMRANGEBYSCORE", key, "-inf", min(self._told_ms, now_ms - _KEPT_MS))
        found: list[bytes] = []
        for page in range(_PAGES):
            span = ("ZRANGEBYSCORE", key, f"({self._told_ms}", now_ms, "LIMIT", page * _PAGE, _PAGE)
            members = self._wire.execute(*span)
            found += members
            if len(members) < _PAGE:
                break
        self._told_ms = now_ms
        return [text(run_id) for run_id in found]
