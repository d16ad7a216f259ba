"""
Chains of runs that may be open, of schedules with ``overlap`` *queue* or *cancel_previous*; see lua/lib/chain.lua.

A page of them costs Redis what it looks at: the first runs of a chain, and nothing of those that wait behind.
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

GONE: Final = "-"  # the status of a run whose job is not there


class Seen(NamedTuple):
    """
    What RQ says of a run: its status, and the name of the worker that began it, if one did; of one that is deferred
    "<run id> <status>" of the run that RQ has it wait for.
    """

    status: str
    by: str


class Chain(NamedTuple):
    """
    A chain that may need something: ``told`` is its text, *seen* what RQ says of its first runs; of *queue* up to the
    first that is deferred, of *cancel_previous* of all.
    """

    id: str
    told: str
    seen: tuple[Seen, ...]

    @property
    def is_queue(self) -> bool:
        """Whether its runs wait for each other."""
        return self.told.startswith("queue ")

    @property
    def runs(self) -> list[str]:
        """Run ids, the oldest first."""
        return self.told.split()[1:]


class Unblocking(NamedTuple):
    """
    What a chain needs, if its text and the *statuses* of its first runs are still these: the run behind them is
    released, for a reason of one line; None: what is over leaves, what another run took the place of is withdrawn.
    """

    chain: Chain
    statuses: tuple[str, ...]
    released: str | None = None
    why: str = ""

    @property
    def name(self) -> tuple[str, str]:
        """The same while it lasts: also when the first that waits expires, or another comes to the end of the chain."""
        return self.chain.id, self.chain.told if self.released is None else ""


class Chains:
    """What a leader asks of chains and does to them, over one wire. Raises RedisUnavailable, RedisRefused."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._rq, self._scripts = wire, keys.rq, Scripts(wire, keys)

    def page(self, cursor: str) -> tuple[str, list[Chain]]:
        """Where to go on ("0": that was all), and those of some chains that may need something; "0" begins."""
        after, *told = self._scripts.call("survey", cursor=cursor, count=_PAGE)
        return text(after), [_chain(one) for one in told]

    def silent(self, workers: Sequence[str]) -> set[str]:
        """Those of *workers* to whose channel nobody listens: neither they nor their work horses have a connection."""
        if not workers:
            return set()
        reply = self._wire.execute("PUBSUB", "NUMSUB", *map(self._rq.pubsub, workers))
        return {worker for worker, listening in zip(workers, reply[1::2], strict=True) if not listening}

    def unblock(self, term: Term, needed: Sequence[Unblocking]) -> list[str]:
        """
        Do what chains need; the runs that were released. A chain that changed meanwhile is left alone.

        Raises:
            Stale, ServerChanged.
        """
        rows = [
            each
            for one in needed
            for each in (one.chain.id, one.chain.told, " ".join(one.statuses), one.released or "-", one.why)
        ]
        reply = self._scripts.call("unblock", token=term.token, expected_server=term.server_id, rows=rows)
        return [text(run_id) for run_id in reply[1]]


def _chain(told: bytes) -> Chain:
    id, chain, *seen = text(told).split("\0")
    return Chain(id, chain, tuple(Seen(*pair) for pair in zip(seen[::2], seen[1::2], strict=True)))
