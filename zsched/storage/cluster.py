"""
Redis Cluster: all keys of a namespace are in one slot, so a link speaks with one node, the slot's owner.

Every new connection looks the owner up: the nodes of the URL, and then the nodes that they named, are asked for CLUSTER
SLOTS until one answers. The owner must then confirm that the slot is its own, by a reply to EXISTS. Nothing is sent
twice by this module. If a node does not execute a command, its answer decides what to do:

- MOVED: the slot has another owner, after a migration or a failover. The connection breaks, and so do all others of the
  link before their next command; the next connection goes to the node that MOVED named. That node is another server,
  so a leader's term ends, and hold and doubt apply (docs/explanation/recovery.md). RQ's own keys moved in the same
  instant.
- TRYAGAIN, ASK: keys of the slot are being moved one by one. A script needs all of its keys in one place, so ASK is not
  followed. Each script first looks for a key that never exists (lua/lib/whole.lua), and ends with such an answer. The
  caller waits, and calls again, until the slot is whole.
- CLUSTERDOWN: no majority, or no owner. This is temporary, too.

Not guaranteed: that a slot has one owner. A master that was cut off accepts writes until ``cluster-node-timeout`` has
passed, and its Cluster loses them (``min-replicas-to-write`` ends that sooner).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import redis
from redis.connection import parse_url
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, NoPermissionError, TryAgainError
from redis.retry import Retry
from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

from zsched.config.urls import Address, ClusterUrl, host_port
from zsched.errors import ConfigError
from zsched.storage.found import FoundPool, Unfound, adopted_options, distrust_of, impatient, our_options
from zsched.storage.keys import Keys
from zsched.storage.remedies import ASKED_AGAIN, Endpoint
from zsched.storage.rqkeys import RQ_PREFIX_VARIABLE, RqKeys

_OWN: Final = ("connection_pool", "redis_connect_func")  # options that each pool makes
_MOST_ASKED: Final = 32  # nodes, for one answer; a large Cluster has a thousand


Classes = tuple[type[redis.Connection], type[redis.Connection]]  # without TLS, and with it
PLAIN: Final[Classes] = (SentinelManagedConnection, SentinelManagedSSLConnection)


class Redirected(Unfound):
    """A node did not execute a command, because it does not own the slot, or not all of its keys."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, ASKED_AGAIN)


class Following(SentinelManagedConnection):
    """A connection that leaves a node that does not own the slot. The sender of the command sends it again."""

    def read_response(self, *arguments: Any, **options: Any) -> Any:
        """Read a reply. Raise Redirected if another node owns the slot, or if a master became a replica meanwhile."""
        try:
            return super().read_response(*arguments, **options)
        except redis.ResponseError as error:
            if not isinstance(error, (AskError, TryAgainError)) and not str(error).startswith("UNBLOCKED "):
                raise
            pool = self.connection_pool.connection_pool_ref()
            if isinstance(error, MovedError):
                if pool is None or not pool.redirected(self, error):
                    raise  # an error of another slot
                self.host, self.port = pool.master_address  # where redis-py connects to again, without asking
            self.disconnect()  # type: ignore[no-untyped-call]  # redis-py's
            raise Redirected(str(error)) from error


class FollowingByTls(Following, SentinelManagedSSLConnection):
    """The same, over TLS."""


FOLLOWING: Final[Classes] = (Following, FollowingByTls)


class ClusterPool(FoundPool):
    """A pool of connections to the owner of a slot."""

    def __init__(self, discovery: SlotOwner, **options: Any) -> None:
        self.discovery = discovery
        super().__init__(
            str(discovery.slot), discovery, "cluster", ",".join(host_port(*seed) for seed in discovery.seeds), **options
        )

    @classmethod
    def by_url(
        cls, url: str, key: str, classes: Classes = PLAIN, retry: Retry | None = None, **options: Any
    ) -> ClusterPool:
        """
        Return a pool for a ``redis+cluster://`` URL and the slot of *key*. The URL's options override *options*.
        *retry*: the policy of connections for sending again; None: never.

        Raises:
            ValueError: not such a URL.
        """
        parsed = ClusterUrl.parse(url)
        to_node = {**options, **parse_url(parsed.plain), **our_options()}  # type: ignore[no-untyped-call]  # redis-py's
        to_node.pop("db", None)  # a node knows one, and no SELECT
        is_tls = to_node.pop("connection_class", None) is redis.SSLConnection
        discovery = SlotOwner(parsed.nodes, key, is_tls=is_tls, options=to_node)
        if retry is not None:
            to_node["retry"] = retry
        return cls(discovery, connection_class=classes[is_tls], **to_node)

    def like(self, classes: Classes = PLAIN) -> ClusterPool:
        """
        Return another pool that finds the owner as this one does, and never sends a command twice; FOLLOWING: for a
        client of redis-py, which does not know slots.
        """
        is_tls = issubclass(self.connection_class, redis.SSLConnection)
        options = {name: value for name, value in adopted_options(self).items() if name not in _OWN}
        return ClusterPool(self.discovery, connection_class=classes[is_tls], **options)

    def redirected(self, connection: Any, moved: MovedError) -> bool:
        """Let the next connection go to the node that *moved* names. Return False for a key of another slot."""
        if int(moved.slot_id) != self.discovery.slot:
            return False
        self.proxy.master_address = self.discovery.follow(connection, moved)
        self.disconnect(inuse_connections=False)  # each of them would get the same answer
        return True


class SlotOwner:
    """Finds the owner of the slot of *key* for a ``SentinelConnectionPool``. Thread-safe."""

    def __init__(self, seeds: Iterable[Address], key: str, *, is_tls: bool, options: dict[str, Any]) -> None:
        self.seeds, self.slot, self._key = tuple(seeds), key_slot(key.encode()), key
        self._nodes = self.seeds  # nodes to ask, in this order
        self._next: Address | None = None  # named by MOVED; connected to without a question
        self._is_tls, self._connection_class = is_tls, redis.SSLConnection if is_tls else redis.Connection
        self._options = impatient(options)
        self._options.pop("max_connections", None)  # of the pool

    def discover_master(self, service_name: str) -> Address:
        """
        Return the address of the slot's owner, from MOVED or else from the first node that answers.

        Raises:
            Unfound: no node knows it; the message has the reasons, and the remedy.
            redis.AuthenticationError, redis.ConnectionError: every node refuses the password, or is not trusted.
        """
        named, self._next = self._next, None
        if named is not None:
            return named
        problems, errors, answered = list[str](), list[Exception](), self._nodes[0]
        for node in self._nodes[:_MOST_ASKED]:
            try:
                owner, known = _owner(self._ask(node), self.slot, node)
            except (redis.RedisError, OSError, ValueError, TypeError, IndexError) as error:
                problems.append(f"{host_port(*node)}: {str(error) or type(error).__name__}")
                errors.append(error)
                continue
            if owner is not None:
                rest = (each for each in (*self.seeds, *known) if each != node)
                self._nodes = tuple(dict.fromkeys((node, *rest)))
                return owner
            problems.append(f"{host_port(*node)}: no node has slot {self.slot}")
            answered = node
        for_the_user = [one for one in errors if isinstance(one, redis.AuthenticationError) or distrust_of(one)]
        if len(for_the_user) == len(problems):  # a wrong password, or an untrusted certificate
            raise errors[-1]
        one = Endpoint({"host": answered[0], "port": answered[1]}, is_tls=self._is_tls)
        problem = f"no node of the Cluster says who owns slot {self.slot} ({'; '.join(problems)})"
        if len(errors) < len(problems):  # some answered: the Cluster lacks the owner
            raise Unfound(problem, f"start the nodes that are missing, or give the slot to one: {one.cluster_check()}")
        raise Unfound(problem, f"start the nodes, or correct their addresses or password: {one.cli('PING')}")

    def greet(self, connection: Any) -> None:
        """
        Refuse a new *connection* if it is to another node than the slot's owner.

        Raises:
            redis.ConnectionError: it is another node, or the Cluster is down.
        """
        connection.send_command("EXISTS", self._key, check_health=False)
        try:
            connection.read_response()
        except MovedError as error:
            owner = host_port(*self.follow(connection, error))
            here = host_port(connection.host, connection.port)
            raise Redirected(f"{here} no longer owns slot {self.slot}, but {owner}") from error
        except (AskError, NoPermissionError):  # the owner, with a moving slot, or an ACL without EXISTS
            return
        except ClusterDownError as error:
            self._nodes = self._nodes[1:] + self._nodes[:1]
            problem = f"{host_port(connection.host, connection.port)}: {error}"
            raise Unfound(problem, Endpoint.of(connection).when_busy(error)) from error

    def follow(self, connection: Any, moved: MovedError) -> Address:
        """
        Return the node in *moved*, on *connection*'s host if it has none. The next connection goes there, and later
        ones ask it first: other nodes may learn of the new owner later.
        """
        owner = self._next = (moved.host or connection.host, int(moved.port))
        self._nodes = tuple(dict.fromkeys((owner, *self._nodes)))
        return owner

    def _ask(self, node: Address) -> list[Any]:
        """Return the reply of *node* to CLUSTER SLOTS, which Redis 6.2 to 8 have."""
        host, port = node
        connection: Any = self._connection_class(host=host, port=port, **self._options)  # redis-py's is untyped
        try:
            connection.connect()
            connection.send_command("CLUSTER", "SLOTS", check_health=False)
            reply: list[Any] = connection.read_response()
            return reply
        finally:
            connection.disconnect()


def demand_one_slot(keys: Keys) -> None:
    """
    Check that zsched's keys and RQ's are in one slot.

    Raises:
        ConfigError: zsched's *keys* are in one slot of a Redis Cluster, and RQ's in others.
    """
    slot, theirs = key_slot(keys.meta().encode()), slots_of(keys.rq)
    if {slot} == theirs:
        return
    where = "spreads RQ's keys over all slots" if len(theirs) > 1 else f"puts RQ's keys in slot {theirs.pop()}"
    raise ConfigError(
        f"namespace {keys.namespace!r} is in slot {slot} of a Redis Cluster, and RQ's prefix {keys.rq.prefix!r} "
        f"{where}: a script needs all of its keys in one slot; set [rq] prefix, and {RQ_PREFIX_VARIABLE} of RQ's "
        f"workers, to '{{{keys.namespace}}}:rq'"
    )


def slots_of(rq: RqKeys) -> set[int]:
    """Return the slot of all of RQ's keys; several slots if its prefix has no hash tag."""
    return {key_slot(key.encode()) for key in (rq.queues(), rq.workers())}


def _owner(slots: list[Any], slot: int, asked: Address) -> tuple[Address | None, list[Address]]:
    """Return the master of *slot*, or None, and the masters of all slots, from a reply to CLUSTER SLOTS."""
    owner, masters = None, list[Address]()
    for first, last, (host, port, *_), *_ in slots:
        master = (host.decode() if host not in (None, b"", b"?") else asked[0], int(port))
        masters.append(master)
        if first <= slot <= last:
            owner = master
    return owner, masters
