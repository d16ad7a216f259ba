"""
fakeredis with a correct COPY, which zsched's scripts need.

The COPY of fakeredis (2.40) lets both keys share one value. So all runs of a schedule would share one job with each
other and with their template.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import redis
from fakeredis import FakeRedis, FakeRedisConnection, FakeServer


def fake() -> redis.Redis:
    """Make an empty Redis in this process, which nothing else uses."""
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
