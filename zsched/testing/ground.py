"""
The Redis that a test's scheduler stands on: a new fakeredis, or a given one that holds nothing yet.

A given Redis is never emptied: who gives one empties it. What is there already may be somebody's real schedules, which
would be fired by a test's clock, and jobs, which would be executed in the test.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import redis

from zsched.core.clock import Clock, ManualClock, SystemClock
from zsched.errors import ConfigError
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys

# An archive is asked through Redis, and none answers here: half of this is waited for each time. Nothing else of a
# Link depends on it but how long a lost reply is asked for again; the connections keep their own timeouts.
_PATIENCE_S: Final = 0.02


def new_fake() -> redis.Redis:
    """
    A Redis in this process, with nothing in it.

    Raises:
        ConfigError: fakeredis, or the Lua that its scripts need, is not installed.
    """
    missing = [name for name in ("fakeredis", "lupa") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"redis=None: {' and '.join(missing)} not installed; pip install 'zsched[testing]', or give a redis.Redis"
        )
    from zsched.testing.fake import fake  # only where it is wanted: with a real Redis nobody needs it

    return fake()


def link_to(client: Any) -> Link:
    """A link to where *client* goes, that does not wait for archives. Raises ConfigError."""
    adopted = Link.adopt(client)
    return Link(adopted.pool, adopted.where, _PATIENCE_S)


def plain_client(client: Any) -> redis.Redis:
    """Another client of where *client* goes, that gives bytes, as RQ wants it, and whose pool RQ may change."""
    return redis.Redis(connection_pool=Link.adopt(client).pool)


def demand_empty(link: Link, keys: Keys) -> None:
    """
    Raises:
        ConfigError: there is something that a test could harm; or it is a fakeredis that does not COPY (see ``fake``).
    """
    used = [key for key in (keys.meta(), keys.log(), keys.lease(), keys.archivers()) if link.execute("EXISTS", key)]
    used += sorted(key.decode(errors="backslashreplace") for key in link.execute("SMEMBERS", keys.rq.queues()))
    if used:
        shown = ", ".join(used[:3]) + (", …" if len(used) > 3 else "")
        raise ConfigError(
            f"redis at {link.where}, namespace {keys.namespace!r}: it is in use, there is {shown}; give each test an "
            "empty database, which zsched.testing does not make by itself"
        )
    if not _copies(link, keys.template("manual"), keys.rq.job("manual")):
        raise ConfigError(
            f"redis at {link.where}: its COPY lets both keys share one value, as fakeredis' own does; give none, and "
            "use the scheduler's redis, where that is put right"
        )


def _copies(link: Link, key: str, copy_key: str) -> bool:
    """Return True if a copy is a value of its own."""
    link.execute("HSET", key, "field", "1")
    link.execute("COPY", key, copy_key)
    link.execute("HSET", copy_key, "field", "2")
    seen = link.execute("HGET", key, "field")
    link.execute("DEL", key, copy_key)
    return bool(seen == b"1")


# -- the clock --------------------------------------------------------------------------------------


class FrozenClock(ManualClock):
    """The leader's clock. Wall and monotonic clock move together, as the leader expects of a healthy server."""

    def __init__(self, wire: Wire, keys: Keys, owner: str, now_ms: int) -> None:
        super().__init__(wall_ms=now_ms)
        self._wire, self._keys, self._owner = wire, keys, owner

    def freeze(self) -> None:
        """Stop the namespace's clock here. Raises ConfigError when somebody else has."""
        meta_key = self._keys.meta()
        if not self._wire.execute("HSETNX", meta_key, "frozen_by", self._owner):
            raise ConfigError(
                f"namespace={self._keys.namespace!r}: another test turns its clock; give each test an empty database"
            )
        self.tell()

    def thaw(self) -> None:
        """Let it go again: this owner could not lead after all."""
        self._wire.execute("HDEL", self._keys.meta(), "frozen_ms", "frozen_by")

    def move_to(self, at_ms: int) -> None:
        """It is *at_ms* now, which is not earlier than before; scripts see it with ``tell``."""
        self.advance(at_ms - self.now_ms())

    def tell(self) -> None:
        """Let Redis have the same time."""
        self._wire.execute("HSET", self._keys.meta(), "frozen_ms", self.now_ms())


class ClientClock:
    """The clients' clock: the frozen time of day, and durations that pass, lest a wait never ends."""

    def __init__(self, frozen: Clock) -> None:
        self._frozen, self._machine = frozen, SystemClock()

    def now_ms(self) -> int:
        return self._frozen.now_ms()

    def monotonic_ms(self) -> float:
        return self._machine.monotonic_ms()
