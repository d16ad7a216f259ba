"""
Chains of possibly open runs, for schedules whose runs wait for each other or replace each other.

lua/lib/chain.lua defines chains, and lua/lib/overlap.lua their needs: this module knows no overlap policy. For a page
of chains, Redis reads only the first runs of each, and not the waiting ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from zsched.core.entry import text
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.scripts import Scripts

_PAGE: Final = 100  # chains per script: Redis does nothing else meanwhile


class ChainNeed(NamedTuple):
    """
    A needed action for the chain of schedule *id*: *what*, a word; *run*, the released run or ``-``; *why*.
    ``is_urgent``: True if only zsched does it; otherwise RQ may do it, too.
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
        """Return the next cursor ("0": done), and the needs of some chains. Begin with "0"."""
        after, *needs = self._scripts.call("survey", cursor=cursor, count=_PAGE)
        return text(after), [_need(one) for one in needs]

    def unblock(self, term: Term, needs: Sequence[ChainNeed]) -> list[str]:
        """
        Do the needed actions that are still needed; return the released runs.

        Raises:
            Stale, ServerChanged.
        """
        rows = [each for one in needs for each in (one.id, one.what, one.run)]
        reply = self._scripts.call("unblock", rows=rows, **term.fence)
        return [text(run_id) for run_id in reply[1]]


def _need(reply: bytes) -> ChainNeed:
    id, what, run, urgent, why = text(reply).split("\0")
    return ChainNeed(id, what, run, urgent == "urgent", why)
