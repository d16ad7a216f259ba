"""Slots of RQ's rate limits: the typed call of free_slots.lua."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zsched.core.pages import pages_of
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.scripts import Scripts

_MOST: Final = 100  # jobs of a limit per script


class RateLimits:
    """The leader's calls about rate limits, over one wire. Raises RedisUnavailable, RedisRefused."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._scripts, self._limits_key = wire, Scripts(wire, keys), keys.rq.limits()

    def limits(self) -> list[bytes]:
        """Return the keys of all limits; none if another writer replaced their set."""
        if self._wire.execute("TYPE", self._limits_key) != b"set":
            return []
        return sorted(self._wire.execute("SMEMBERS", self._limits_key))

    def free(self, term: Term, limits: Mapping[bytes, int]) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """
        Free the slots that no job needs any more. *limits*: limit → number of its jobs that were checked before. Return
        the numbers of freed slots, and the limits with unchecked jobs in the form of *limits*.

        Raises:
            Stale, ServerChanged.
        """
        reply = self._scripts.call(
            "free_slots", most=_MOST, rows=[x for row in limits.items() for x in row], **term.fence
        )
        counts = dict(zip(limits, pages_of(reply, 2), strict=True))
        freed = {limit: count for limit, (count, _) in counts.items() if count}
        return freed, {limit: passed for limit, (_, passed) in counts.items() if passed >= 0}
