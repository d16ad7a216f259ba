"""
Pools that look up the server for every new connection: behind Sentinels (``sentinel``) or in a Cluster (``cluster``).

redis-py's pool for Sentinels asks its manager for an address, connects to it, and drops idle connections to any other
address. Two things are added here. A new connection is greeted, so the server confirms its role. All connections of a
link move together: ``FoundPool.has_moved`` is True for connections to any other server than the one that was found
last, by any thread.

All connections of zsched, with or without a look-up, have ``our_options``: they send nothing twice.
"""

import ssl
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, SentinelConnectionPool

# Options of redis-py's client that must not be copied into our pools.
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
    """Return the options of *theirs*, overridden by ours."""
    kept = {k: v for k, v in theirs.connection_kwargs.items() if k not in _OF_CLIENT and not k.startswith("orig_")}
    return {"max_connections": theirs.max_connections} | kept | our_options()


_PATIENCE_S = 1.0  # for a Sentinel or a node to name the server: a dead one must not delay the questions to others


def impatient(options: dict[str, Any]) -> dict[str, Any]:
    """Return the *options* of a connection for such a question."""
    timeouts = "socket_timeout", "socket_connect_timeout"
    return options | {name: min(options.get(name) or _PATIENCE_S, _PATIENCE_S) for name in timeouts}


class Unfound(MasterNotFoundError):
    """The server was not found, or is no longer the right one. ``problem`` and ``remedy``: the parts of the message."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}; {remedy}")


class Finder(Protocol):
    """Finds the server, and greets it. Thread-safe."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the server's address, under redis-py's name. Raises MasterNotFoundError."""

    def greet(self, connection: Any) -> None:
        """Check that a new *connection* is to the right server. Raises redis.ConnectionError."""


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

    def find_master(self) -> None:
        """Look the server up now. Raises MasterNotFoundError."""
        self.proxy.get_master_address()  # type: ignore[no-untyped-call]  # redis-py's

    def has_moved(self, connection: Any) -> bool:
        """Return True if *connection* is to another server than the one that was found last."""
        return self.master_address not in (None, (connection.host, connection.port))

    def redirected(self, connection: Any, moved: redis.exceptions.MovedError) -> bool:
        """Record that *connection*'s server named another one. Return False if that is not expected."""
        return False


def distrust_of(error: BaseException | None) -> str | None:
    """Return the TLS error about the server's certificate; None for any other error."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return None if error is None else error.verify_message.rstrip(".")
