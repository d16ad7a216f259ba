"""
fakeredis, with the one thing put right that zsched's scripts need and it does not do: COPY copies.

Its own (2.40) gives the new key the very value of the old one, so the runs of a schedule would share one job with each
other and with their template.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import redis
from fakeredis import FakeRedis, FakeRedisConnection, FakeServer


def fake() -> redis.Redis:
    """A Redis in this process, with nothing in it, shared with nobody."""
    client: redis.Redis = FakeRedis(server=FakeServer(), connection_class=_Connection)
    return client


class _Connection(FakeRedisConnection):
    def _connect(self) -> Any:
        socket: Any = super()._connect()
        shares = socket.copy

        def copy(key: Any, new_key: Any, *options: bytes) -> int:
            copied: int = shares(key, new_key, *options)
            if copied:
                new_key.value = deepcopy(key.value)
            return copied

        socket.copy = copy
        return socket
