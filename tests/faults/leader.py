"""A leader by hand: a test calls its scripts one by one, so that it can act in between."""

from __future__ import annotations

from tests.faults.processes import WITHIN_S
from zsched.core.clock import LAST_MS, SystemClock
from zsched.daemon.planner import Planner
from zsched.storage.connection import Link
from zsched.storage.dispatch import Dispatch, DueRecurring, FireResult, Window
from zsched.storage.keys import Keys
from zsched.storage.lease import Lease, Term
from zsched.storage.server import Server

ALWAYS = Window(0, LAST_MS)
HOUR_MS = 3_600_000
KEYS = Keys("default")


class Leader:
    """A leader that runs one script per call of the test."""

    def __init__(self, url: str, keys: Keys = KEYS) -> None:
        self._wire = Link.from_url(url, WITHIN_S, keys=keys).open()
        lease = Lease(self._wire, keys, Server.of(self._wire), SystemClock(), "leader", 60_000)
        term = lease.acquire("gen-1")
        assert isinstance(term, Term)
        self.term = term
        self.dispatch = Dispatch(self._wire, keys)

    def fire(self) -> FireResult:
        """Fire once, without a hold."""
        fired = self.dispatch.fire(self.term, ALWAYS, 100)
        assert isinstance(fired, FireResult)
        return fired

    def advance(self, due: list[DueRecurring], now_ms: int) -> list[str]:
        """Plan and advance *due*; return a word for each."""
        words = self.dispatch.advance(self.term, ALWAYS, HOUR_MS, Planner().plan(due, now_ms).good)
        assert isinstance(words, list)
        return words

    def close(self) -> None:
        self._wire.close()
