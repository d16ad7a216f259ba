"""
Chains of runs that may be open, of schedules whose runs wait for each other or take each other's place.

What a chain is says lua/lib/chain.lua, and what one needs lua/lib/overlap.lua: no overlap policy is known here. A page
of chains costs Redis what it looks at: the first runs of each, and nothing of those that wait behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from zsched.core.log import text
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.scripts import Scripts

_PAGE: Final = 100  # chains in one look: Redis does nothing else meanwhile


class ChainNeed(NamedTuple):
    """
    Something that the chain of schedule *id* needs: *what*, in a word; *run*, which it lets go on, or ``-``, and *why*.
    ``is_urgent``: nobody else will do it; else RQ may.
    """

    id: str
    what: str
    run: str
    is_urgent: bool
    why: str


class Chains:
    """The leader's calls about chains, over one wire. Raises RedisUnavailable, RedisRefused."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._scripts = Scripts(wire, keys)

    def page(self, cursor: str) -> tuple[str, list[ChainNeed]]:
        """Return where to go on ("0": that was all), and what some chains need; "0" begins."""
        after, *needs = self._scripts.call("survey", cursor=cursor, count=_PAGE)
        return text(after), [_need(one) for one in needs]

    def unblock(self, term: Term, needs: Sequence[ChainNeed]) -> list[str]:
        """
        Do what chains need, where they still need it; return the runs that were released.

        Raises:
            Stale, ServerChanged.
        """
        rows = [each for one in needs for each in (one.id, one.what, one.run)]
        reply = self._scripts.call("unblock", rows=rows, **term.fence)
        return [text(run_id) for run_id in reply[1]]


def _need(reply: bytes) -> ChainNeed:
    id, what, run, urgent, why = text(reply).split("\0")
    return ChainNeed(id, what, run, urgent == "urgent", why)
