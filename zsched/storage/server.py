"""
The Redis server itself, as INFO describes it: identity, version, role, and whether it accepts writes.

A server that refuses writes ends all firing, and the namespace's data do not show it: daemons cannot report there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from zsched.core.entry import text
from zsched.errors import RedisRefused
from zsched.storage.connection import Wire
from zsched.storage.failures import one_node_only
from zsched.storage.remedies import WriteRefusal

# Settings that say more than INFO about refused writes. Ordinary users may not read them, and each refusal would be in
# Redis' ACL LOG, so they are asked for only where INFO leaves it open.
_SETTINGS: Final = ("min-replicas-to-write", "stop-writes-on-bgsave-error", "save")
_NEVER: Final = "noeviction"


@dataclass(frozen=True, slots=True)
class Server:
    """
    One Redis server process with one history. ``info``: INFO by name. ``settings``: the readable ones, by name.
    ``can_be_replaced``: True if Sentinels or a Cluster make a replica the master when this one fails.
    """

    info: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    can_be_replaced: bool = False

    @classmethod
    def of(cls, wire: Wire) -> Self:
        """
        Ask the server at the other end of *wire*.

        Raises:
            RedisRefused: it is a node of a Cluster, and *wire* does not follow slots; or it refuses INFO.
            RedisUnavailable: it does not answer.
        """
        found = cls.read(wire)
        if found.is_in_cluster and not wire.follows_slot:
            raise RedisRefused(one_node_only(wire.where))
        return found

    @classmethod
    def read(cls, wire: Wire) -> Self:
        """Ask any server, with the settings that decide whether it refuses writes. Raises as ``of``."""
        info = dict(line.split(":", 1) for line in text(wire.execute("INFO")).splitlines() if ":" in line)
        found = cls(info, can_be_replaced=wire.found is not None)
        few = found.good_replicas is not None and (not found.good_replicas or found._has_refused("NOREPLICAS"))
        if not few and info.get("rdb_last_bgsave_status", "ok") == "ok":
            return found
        replies = wire.replies(("CONFIG", "GET", name) for name in _SETTINGS)
        readable = (reply for reply in replies if not isinstance(reply, RedisRefused) and reply)
        return replace(found, settings={text(name): text(value) for name, value, *_ in readable})

    @property
    def id(self) -> str:
        """Return ``run_id`` and ``master_replid``: a restart changes the first, a promotion the second."""
        return f"{self.info.get('run_id', '')}{self.info.get('master_replid', '')}"

    @property
    def product(self) -> str:
        """Name and version: "Redis 7.0.15", "Valkey 8.1.4"."""
        valkey = self.info.get("valkey_version")
        return f"Valkey {valkey}" if valkey else f"Redis {self.info.get('redis_version', 'of an unknown version')}"

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers; for Valkey, the version of the Redis that it is compatible with."""
        parts = self.info.get("redis_version", "").split(".")[:3]
        return tuple(int(part) for part in parts if part.isdecimal())

    @property
    def is_in_cluster(self) -> bool:
        """True for a node of a Redis Cluster."""
        return self.info.get("cluster_enabled") == "1"

    @property
    def is_replica(self) -> bool:
        """True if it follows a master."""
        return self.info.get("role", "master") != "master"

    @property
    def following_replicas(self) -> int:
        """The number of replicas that follow this master now."""
        return sum("state=online" in self.info.get(f"slave{n}", "") for n in range(self.number("connected_slaves")))

    @property
    def policy(self) -> str:
        """The ``maxmemory-policy``."""
        return self.info.get("maxmemory_policy", _NEVER)

    @property
    def may_evict(self) -> bool:
        """True if it may drop keys to make room."""
        return self.number("maxmemory") > 0 and self.policy != _NEVER

    @property
    def makes_room(self) -> bool:
        """True if it evicts keys at maxmemory; with a volatile policy it may have found none to evict."""
        return self.may_evict and (self.policy.startswith("allkeys") or not self._has_refused("OOM"))

    def number(self, name: str) -> int:
        """Return a number of INFO, or 0."""
        value = self.info.get(name, "")
        return int(value) if value.isdecimal() else 0

    def objection(self, allow_eviction: bool) -> str | None:
        """Return why a daemon must not lead on this server, or None."""
        if self.is_replica:
            return "it is a replica: writes would be refused"
        if self.may_evict and not allow_eviction:
            return f"maxmemory-policy {self.policy} may evict schedules; set noeviction, or [daemon] allow_eviction"
        return None

    @property
    def write_refusal(self) -> WriteRefusal | None:
        """Return why it refuses writes now, or None. Source: Redis' processCommand, and INFO's documentation."""
        if self.is_replica:
            return WriteRefusal.REPLICA
        if self.has_few_replicas:
            return WriteRefusal.FEW_REPLICAS
        if self.used_bytes > self.number("maxmemory") > 0 and not self.makes_room:
            return WriteRefusal.FULL
        return WriteRefusal.UNSAVED if self._is_unsaved else None

    @property
    def used_bytes(self) -> int:
        """The memory that counts towards maxmemory: without the buffers of replicas and of the append-only file."""
        return self.number("used_memory") - self.number("mem_not_counted_for_evict")

    @property
    def limit_bytes(self) -> int:
        """The memory that it may use: maxmemory, or else the machine's; 0 if INFO tells neither."""
        return self.number("maxmemory") or self.number("total_system_memory")

    @property
    def good_replicas(self) -> int | None:
        """The number of replicas that keep up; None if no number is demanded."""
        return self.number("min_slaves_good_slaves") if "min_slaves_good_slaves" in self.info else None

    @property
    def has_few_replicas(self) -> bool:
        """True if fewer replicas keep up than it demands."""
        if self.good_replicas is None:
            return False
        wanted = self.settings.get("min-replicas-to-write")
        return self.good_replicas < (1 if wanted is None else int(wanted))

    @property
    def _is_unsaved(self) -> bool:
        if self.info.get("aof_enabled") == "1" and self.info.get("aof_last_write_status", "ok") != "ok":
            return True
        if self.info.get("rdb_last_bgsave_status", "ok") == "ok":
            return False
        stops, save = self.settings.get("stop-writes-on-bgsave-error"), self.settings.get("save")
        return self._has_refused("MISCONF") if stops is None or save is None else stops == "yes" and bool(save)

    def _has_refused(self, code: str) -> bool:
        """Return True if it has given this error since its start."""
        return f"errorstat_{code}" in self.info
