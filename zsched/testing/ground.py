"""
The Redis that a test's scheduler stands on: a new fakeredis, or a given one that holds nothing yet.

A given Redis is never emptied: who gives one empties it. What is there already may be somebody's real schedules, which
would be fired by a test's clock, and jobs, which would be executed in the test.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import redis

from zsched.errors import ConfigError
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

# An archive is asked through Redis, and none answers here: half of this is waited for each time. Nothing else of a
# Link depends on it but how long a lost reply is asked for again; the connections keep their own timeouts.
_PATIENCE_S: Final = 0.02


def fake() -> redis.Redis:
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
    import fakeredis  # only where it is wanted: with a real Redis nobody needs it

    client: redis.Redis = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    return client


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
        ConfigError: there is something that a test could harm.
    """
    used = [key for key in (keys.meta(), keys.log(), keys.lease(), keys.archivers()) if link.execute("EXISTS", key)]
    used += sorted(key.decode(errors="backslashreplace") for key in link.execute("SMEMBERS", keys.rq_queues()))
    if used:
        shown = ", ".join(used[:3]) + (", …" if len(used) > 3 else "")
        raise ConfigError(
            f"redis at {link.where}, namespace {keys.namespace!r}: it is in use, there is {shown}; give each test an "
            "empty database, which zsched.testing does not make by itself"
        )
