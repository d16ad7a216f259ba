"""
Pools whose server is looked up for every new connection, behind Sentinels (``sentinel``) or in a Cluster (``cluster``).

redis-py's pool for Sentinels asks its manager for an address, connects to it, and drops idle connections to any other
address. Added here: a new connection is greeted, so the server confirms what was said of it; and all connections of a
link move together. ``FoundPool.has_moved`` is true of those to any other server than the one found last, by whatever
thread.

Every connection of ours, looked up or not, is set up by ``our_options``: it sends nothing twice.
"""

from __future__ import annotations

import ssl
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

# Options of redis-py's own client machinery that must not move into a pool of ours.
_OF_CLIENT = ("maint_notifications_pool_handler", "maint_notifications_config", "himport_registry", "event_dispatcher")


def our_options() -> dict[str, Any]:
    """Return the options of every connection of ours."""
    return {
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "health_check_interval": 0,
        "protocol": 2,
        "decode_responses": False,
    }


def adopted_options(theirs: ConnectionPool) -> dict[str, Any]:
    """The options of *theirs*, with ours over them."""
    kept = {k: v for k, v in theirs.connection_kwargs.items() if k not in _OF_CLIENT and not k.startswith("orig_")}
    return kept | our_options()


# Seconds for a Sentinel or a node to say who has the data: one that just died must not keep us from asking the others.
PATIENCE_S = 1.0


class Finder(Protocol):
    """Finds the server, and greets it. Thread-safe."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the server's address, under redis-py's name. Raises MasterNotFoundError."""

    def greet(self, connection: Any) -> None:
        """Demand of a new *connection*'s server that it is the one. Raises redis.ConnectionError."""


class FoundPool(SentinelConnectionPool):
    """A pool of connections to the server that *finder* finds for *name*; *scheme* and *place* make its ``where``."""

    def __init__(self, name: str, finder: Finder, scheme: str, place: str, **options: Any) -> None:
        first = options.get("redis_connect_func")

        def connected(connection: Any) -> None:
            if first is None:
                connection.on_connect()
            else:
                first(connection)
            finder.greet(connection)

        options["redis_connect_func"] = connected
        super().__init__(name, finder, is_master=True, **options)  # type: ignore[no-untyped-call]  # redis-py's
        tls = "rediss" if issubclass(self.connection_class, redis.SSLConnection) else "redis"
        self.where = f"{tls}+{scheme}://{place}"

    def look(self) -> None:
        """Ask who has the data now. Raises MasterNotFoundError."""
        self.proxy.get_master_address()  # type: ignore[no-untyped-call]  # redis-py's

    def has_moved(self, connection: Any) -> bool:
        """Return True if *connection* is to another server than the one that was found last."""
        return self.master_address not in (None, (connection.host, connection.port))

    def redirected(self, connection: Any, moved: redis.exceptions.MovedError) -> bool:
        """Take note that *connection*'s server named another one. Return False if nothing like that is expected."""
        return False


def distrust_of(error: BaseException | None) -> str | None:
    """Return the TLS error about the server's certificate; None for any other error."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return None if error is None else error.verify_message.rstrip(".")
