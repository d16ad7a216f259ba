"""Pools of redis-py's connections: by a URL, or like that of a given client. All send nothing twice."""

from typing import Any

import redis
from redis.connection import ConnectionPool, parse_url
from redis.sentinel import SentinelConnectionPool

from zsched.config.urls import check_url, is_cluster_url, is_sentinel_url, redact, shown
from zsched.errors import ConfigError
from zsched.storage import cluster, sentinel
from zsched.storage.found import FoundPool, adopted_options, our_options
from zsched.storage.keys import Keys

Pooled = tuple[ConnectionPool, str, float]  # a pool; its Redis, without a password; the timeout of its connections


def pool_by_url(url: str, timeout_s: float, password: str | None, keys: Keys | None) -> Pooled:
    """Return a pool for *url*; for a Cluster only with *keys*. Raises ConfigError."""
    try:
        url = check_url(url)
    except ValueError as error:
        raise ConfigError(f"redis url {shown(url)}: {error}") from None
    options: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, **our_options()}
    if password is not None:
        options["password"] = password
    pool: Any
    if is_sentinel_url(url):
        pool = sentinel.Pool.by_url(url, **options)
    elif is_cluster_url(url) and keys is not None:
        cluster.demand_one_slot(keys)
        pool = cluster.ClusterPool.by_url(url, keys.meta(), **options)
    else:
        pool = ConnectionPool(**{**options, **parse_url(url), **our_options()})  # type: ignore[no-untyped-call]  # redis-py's
    return pool, pool.where if isinstance(pool, FoundPool) else redact(url), timeout_s


def pool_like(client: redis.Redis) -> Pooled:
    """Return a pool to the server of *client*. Raises ConfigError."""
    given: object = client  # an untyped caller may give anything
    if isinstance(given, redis.RedisCluster):
        remedy = "use Client.from_url('redis+cluster://host:6379,host2:6379')"
        raise ConfigError(f"redis=RedisCluster: it may send a command twice; {remedy}")
    if not isinstance(client, redis.Redis):
        raise ConfigError(f"redis={shown(client)}: not a redis.Redis; give one, or use Client.from_url(url)")
    theirs = client.connection_pool
    options = adopted_options(theirs)
    timeout_s = options.get("socket_timeout") or 5.0
    if isinstance(theirs, SentinelConnectionPool):
        found = theirs.like() if isinstance(theirs, cluster.ClusterPool) else sentinel.Pool.adopt(theirs)
        return found, found.where, timeout_s
    where = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
    pool = ConnectionPool(connection_class=theirs.connection_class, **options)
    return pool, f"{where}/{options.get('db', 0)}", timeout_s
