"""The settings of an asyncio client of redis-py, as those of a client that blocks. Nothing connects by it."""

from __future__ import annotations

import copy
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelPool
from redis.sentinel import Sentinel, SentinelConnectionPool

from zsched.errors import ConfigError

_OWN = ("connection_pool", "retry")  # of each client


def blocking(client: Any) -> Any:
    """
    Return a ``redis.Redis`` with the settings of *client*, a ``redis.asyncio.Redis``; any other object unchanged.

    Raises:
        ConfigError: *client* is an asyncio client of a Cluster.
    """
    if isinstance(client, redis.asyncio.RedisCluster):
        remedy = "use AsyncClient.from_url('redis+cluster://host:6379,host2:6379')"
        raise ConfigError(f"redis=RedisCluster: it may send a command twice; {remedy}")
    if not isinstance(client, redis.asyncio.Redis):
        return client
    theirs = client.connection_pool
    connection_class: Any = getattr(redis.sentinel, name := theirs.connection_class.__name__, None)
    connection_class = connection_class or getattr(redis.connection, name, None)
    if connection_class is None:
        raise ConfigError(f"redis=a client with connections of class {name}: give one with connections of redis-py")
    given = theirs.connection_kwargs | {"max_connections": theirs.max_connections}
    options = {name: value for name, value in given.items() if name not in _OWN}
    if not isinstance(theirs, AsyncSentinelPool):
        return redis.Redis(connection_pool=redis.ConnectionPool(connection_class=connection_class, **options))
    manager = copy.copy(theirs.sentinel_manager)
    found_by: Any = Sentinel([], min_other_sentinels=manager.min_other_sentinels)  # type: ignore[no-untyped-call]
    found_by.sentinels = [blocking(one) for one in manager.sentinels]
    pool: Any = SentinelConnectionPool(  # type: ignore[no-untyped-call]
        theirs.service_name, found_by, is_master=theirs.is_master, connection_class=connection_class, **options
    )
    return redis.Redis(connection_pool=pool)
