"""Leaders by hand: a test calls their scripts one by one, so that it can act in between."""

import uuid

import redis

from tests.waiting import WITHIN_S
from zsched.core.clock import LAST_MS, SystemClock
from zsched.daemon.planner import Planner
from zsched.storage.connection import Link, Wire
from zsched.storage.dispatch import Dispatch, DueRecurring, FireResult, Window
from zsched.storage.keys import Keys
from zsched.storage.lease import Lease, Term
from zsched.storage.server import Server

ALWAYS = Window(0, LAST_MS)
HOUR_MS = 3_600_000
KEYS = Keys("default")


def know(client: redis.Redis, namespace: str = "default") -> None:
    """Make this server the last one that led, and give its data set a name: no hold, no doubt, no naming."""
    info, meta_key = client.info(), f"zsched:{{{namespace}}}:meta"
    client.hset(meta_key, "server", f"{info['run_id']}{info['master_replid']}")
    client.hsetnx(meta_key, "gen", uuid.uuid4().hex)


def begin_term(wire: Wire, keys: Keys = KEYS, gen: str | None = None, lease_ms: int = 600_000) -> Term:
    """Acquire the lease of *keys*, and name its data set *gen* if it has no name."""
    lease = Lease(wire, keys, Server.of(wire), SystemClock(), "leader", lease_ms)
    term = lease.acquire()
    assert isinstance(term, Term)
    if gen is not None:
        wire.execute("HSETNX", keys.meta(), "gen", gen)
    return term


class Leader:
    """A leader that runs one script per call of the test."""

    def __init__(self, url: str, keys: Keys = KEYS) -> None:
        self.keys, self.link, self.planner = keys, Link.from_url(url, WITHIN_S, keys=keys), Planner()
        self.wire = self.link.open()
        self.term = begin_term(self.wire, keys, uuid.uuid4().hex)
        self.dispatch = Dispatch(self.wire, keys)

    def fire(self, limit: int = 100) -> FireResult:
        """Fire once, without a hold."""
        fired = self.dispatch.fire(self.term, ALWAYS, limit)
        assert isinstance(fired, FireResult)
        return fired

    def advance(self, due: list[DueRecurring], now_ms: int) -> list[str]:
        """Plan and advance *due*; return a word for each."""
        words = self.dispatch.advance(self.term, ALWAYS, HOUR_MS, self.planner.plan(due, now_ms).good)
        assert isinstance(words, list)
        return words

    def tick(self, limit: int = 100) -> FireResult:
        """Fire once, and advance the recurring schedules; unplannable schedules are quarantined."""
        fired = self.fire(limit)
        planned = self.planner.plan(fired.recurring, fired.now_ms)
        if planned.good:
            self.dispatch.advance(self.term, ALWAYS, HOUR_MS, planned.good)
        if planned.bad:
            self.dispatch.quarantine(self.term, planned.bad)
        return fired

    def close(self) -> None:
        self.wire.close()
        self.link.pool.disconnect()
