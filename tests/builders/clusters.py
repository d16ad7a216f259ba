"""A Redis Cluster of three masters: real processes on ports of 127.0.0.1, moved slots, failovers."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from tests.builders.redises import connect
from tests.waiting import ENDS_S, WITHIN_S, eventually
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.embedded.server import Port

PREFIX = "{default}:rq"
SLOT = key_slot(b"default")
ENV = {"RQ_PREFIX": PREFIX}  # settings of a daemon
_SLOTS = 16384
_NODE_TIMEOUT_MS = 2000  # after which a master counts as failed, while the cluster forms and after ``kill``
_STEADY_MS = 20_000  # else: no failover because the machine was busy
_SERVER = {
    "cluster-enabled": "yes",
    "cluster-node-timeout": str(_NODE_TIMEOUT_MS),
    "cluster-replica-no-failover": "yes",  # while the cluster forms
    "repl-diskless-sync-delay": "0",
    "save": '""',
}
_GIVEN_UP = b"Manual failover timed out"  # in the log of a replica
_AT_ONCE = 100  # keys of a MIGRATE
_MOVE_MS = int(1000 * WITHIN_S)


class Cluster:
    """
    Three masters, each with *replicas*, held by *guard*; *settings* are settings of the servers. ``url`` is the URL for
    zsched. *tls*: files of certificates, as settings of a server; then nodes and zsched use TLS, and only the test does
    not.
    """

    def __init__(
        self, guard: Guard, replicas: int = 0, *, tls: Mapping[str, str] | None = None, **settings: str
    ) -> None:
        config = _SERVER | {name.replace("_", "-"): value for name, value in settings.items()}
        self._scheme = "redis" if tls is None else "rediss"
        self.servers, self._ports = list[EmbeddedRedis](), dict[EmbeddedRedis, int]()  # that nodes name each other by
        self._held = list[Port]()  # for TLS
        for _ in range(3 * (1 + replicas)):
            own, port = {}, None
            if tls is not None:
                port = Port()
                own = {"tls-port": str(port.number), "tls-cluster": "yes", "tls-replication": "yes", **tls}
                self._held.append(port)
            server = EmbeddedRedis(tcp=True, guard=guard, config=config | own)
            server.start()
            self.servers.append(server)
            self._ports[server] = port.number if port else server.port or 0
        masters, others = self.servers[:3], self.servers[3:]
        for number, master in enumerate(masters):
            first, last = (_SLOTS * each // 3 for each in (number, number + 1))
            self.tell(master, "SET-CONFIG-EPOCH", number + 1)
            self.tell(master, "ADDSLOTS", *range(first, last))
        eventually(self._have_met)
        for number, replica in enumerate(others):
            self.tell(replica, "REPLICATE", self.id_of(masters[number % 3]))
        eventually(lambda: all(b"cluster_state:ok" in self.tell(server, "INFO") for server in self.servers))
        eventually(lambda: all(self._is_copy(replica) for replica in others))
        eventually(lambda: self._named(masters[0]) == len(self.servers))
        self.configure("cluster-node-timeout", _STEADY_MS)
        self.configure("cluster-replica-no-failover", "no")

    @property
    def hosts(self) -> list[str]:
        """``host:port`` of every node."""
        return [f"127.0.0.1:{port}" for port in self._ports.values()]

    @property
    def url(self) -> str:
        """The URL that a user writes: three of the nodes."""
        return f"{self._scheme}+cluster://{','.join(self.hosts[:3])}"

    def empty(self) -> None:
        """Delete all data, and end a migration that a test left open."""
        for server in filter(self._is_master, self.servers):
            self.tell(server, "SETSLOT", SLOT, "STABLE")
            with connect(server.tcp_url) as client:
                client.flushall()
        eventually(lambda: all(self._is_copy(server) for server in self.servers if not self._is_master(server)))

    def owner(self) -> EmbeddedRedis:
        """Return the node that claims the slot of the namespace "default"."""
        return eventually(self._owner)

    def another(self) -> EmbeddedRedis:
        """A master that has another slot."""
        return next(server for server in self.servers if server is not self.owner() and self._is_master(server))

    def fail_over(self) -> EmbeddedRedis:
        """
        Let a replica of the owner take over in an orderly way; return it when all nodes name it. A replica gives up
        what takes longer than 5 s (CLUSTER_MF_TIMEOUT), and says so only in its log: then it is asked again.
        """
        new, seen = self.replica_of(self.owner()), -1

        def has_taken_over() -> bool:
            nonlocal seen
            if (given_up := (new.folder / "redis.log").read_bytes().count(_GIVEN_UP)) > seen:
                seen = given_up
                self.tell(new, "FAILOVER")
            return all(self._named_owner(server) == new.port for server in self.servers)

        eventually(has_taken_over, ENDS_S)
        return new

    def kill(self, server: EmbeddedRedis) -> None:
        """Kill *server*; the others notice it soon."""
        self.configure("cluster-node-timeout", _NODE_TIMEOUT_MS)
        server.kill()

    def another_than(self, old: EmbeddedRedis) -> EmbeddedRedis:
        """Return the owner as soon as it is another node than *old*."""
        return eventually(lambda: found if (found := self._owner()) is not old else None)

    def replica_of(self, master: EmbeddedRedis) -> EmbeddedRedis:
        """A replica of *master*."""
        id = self.id_of(master).decode()
        return next(server for server in self.servers if server.is_running and id in self._myself(server).split(" ")[3])

    # -- a migration, as redis-cli does it ------------------------------------------------------

    def begin_move(self, target: EmbeddedRedis) -> None:
        """Open the slot for a migration from its owner to *target*."""
        source = self.owner()
        self.tell(target, "SETSLOT", SLOT, "IMPORTING", self.id_of(source))
        self.tell(source, "SETSLOT", SLOT, "MIGRATING", self.id_of(target))

    def move_some(self, source: EmbeddedRedis, target: EmbeddedRedis, number: int = _AT_ONCE) -> int:
        """Move *number* keys; return the number of keys that existed."""
        with connect(source.tcp_url) as client:
            keys = client.execute_command("CLUSTER GETKEYSINSLOT", SLOT, number)
            if keys:
                client.execute_command("MIGRATE", "127.0.0.1", self._ports[target], "", 0, _MOVE_MS, "KEYS", *keys)
        return len(keys)

    def end_move(self, target: EmbeddedRedis) -> None:
        """Make *target* the owner of the slot, after the keys were moved there; *target* is informed first."""
        id = self.id_of(target)
        for server in [target, *(each for each in self.servers if each is not target and self._is_master(each))]:
            self.tell(server, "SETSLOT", SLOT, "NODE", id)

    def move(self, target: EmbeddedRedis) -> int:
        """Move the slot of the namespace "default" to *target*; return the number of its keys."""
        source = self.owner()
        self.begin_move(target)
        number = 0
        while some := self.move_some(source, target):
            number += some
        self.end_move(target)
        return number

    def move_whole(self, target: EmbeddedRedis) -> int:
        """Move the slot in one instant, as Valkey 9 can; skip the test with a server that cannot."""
        source = self.owner()
        with connect(source.tcp_url) as client:
            number = int(client.cluster("COUNTKEYSINSLOT", SLOT))  # type: ignore[no-untyped-call]  # redis-py's
        try:
            self.tell(source, "MIGRATESLOTS", "SLOTSRANGE", SLOT, SLOT, "NODE", self.id_of(target))
        except redis.ResponseError as error:
            pytest.skip(f"{source.server.version} moves slots key by key: {error}")
        self.another_than(source)
        return number

    # -- nodes ----------------------------------------------------------------------------------

    def tell(self, server: EmbeddedRedis, *command: Any) -> Any:
        """Return the reply of *server* to CLUSTER *command*, as bytes."""
        with connect(server.tcp_url) as client:
            connection: Any = client.connection_pool.get_connection()  # as it is: the client parses some replies
            try:
                connection.send_command("CLUSTER", *command)
                return connection.read_response()
            finally:
                connection.disconnect()

    def id_of(self, server: EmbeddedRedis) -> bytes:
        """Return the id of a node."""
        id: bytes = self.tell(server, "MYID")
        return id

    def configure(self, name: str, value: int | str) -> None:
        """Set the setting *name* of every node."""
        for server in self.servers:
            with connect(server.tcp_url) as client:
                client.config_set(name, value)

    def _owner(self) -> EmbeddedRedis | None:
        """Return the node that answers for the slot; None if no node does, or two do."""
        found = list[EmbeddedRedis]()
        for server in self.servers:
            with contextlib.suppress(redis.RedisError):
                if server.is_running and self._is_master(server) and self._named_owner(server) == server.port:
                    found.append(server)
        return found[0] if len(found) == 1 else None

    def _named_owner(self, server: EmbeddedRedis) -> int | None:
        """Return the port of the slot's owner in the view of *server*."""
        return next((port for first, last, port in self._ranges(server) if first <= SLOT <= last), None)

    def _ranges(self, server: EmbeddedRedis) -> Iterator[tuple[int, int, int]]:
        for first, last, master, *_ in self.tell(server, "SLOTS"):
            yield first, last, master[1]

    def _named(self, server: EmbeddedRedis) -> int:
        """Return the number of nodes that *server* names as owners of slots, or as their replicas."""
        return len({node[1] for _, _, *nodes in self.tell(server, "SLOTS") for node in nodes})

    def _have_met(self) -> bool:
        """
        Return True when all nodes know each other. Let those meet that do not: a node gives up a handshake after its
        node timeout.
        """
        for number, server in enumerate(self.servers):
            nodes = self.tell(server, "NODES").decode()
            for port in [self._ports[other] for other in self.servers[:number]]:
                if f" 127.0.0.1:{port}@" not in nodes:
                    self.tell(server, "MEET", "127.0.0.1", port)
        return all(self._known(server) == len(self.servers) for server in self.servers)

    def _known(self, server: EmbeddedRedis) -> int:
        return sum(b"handshake" not in line for line in self.tell(server, "NODES").splitlines())

    def _myself(self, server: EmbeddedRedis) -> str:
        return next(line for line in self.tell(server, "NODES").decode().splitlines() if "myself" in line)

    def _is_master(self, server: EmbeddedRedis) -> bool:
        return server.is_running and "master" in self._myself(server).split(" ")[2]

    def _is_copy(self, server: EmbeddedRedis) -> bool:
        with connect(server.tcp_url) as client:
            return client.info("replication").get("master_link_status") == "up"
