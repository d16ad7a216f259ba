"""Checks of the Redis server that every view makes: does it accept writes, and has it memory to go on?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zsched.health.check import Finding, fine, health_check, problem, skipped, warning
from zsched.storage.server import Server
from zsched.storage.writes import WriteRefusal

_TIGHT, _FULL = 0.80, 0.95  # of the memory that Redis may use
_MIB: Final = 1024 * 1024
_STOPS: Final = "until then nothing can be scheduled and nothing fires, and nothing is lost"


@health_check("writes", Server, alert="Redis refuses writes")
def check_writes(server: Server) -> Iterator[Finding]:
    """Check that Redis accepts writes: without them nothing fires, and no daemon can report that it runs."""
    if (refusal := server.write_refusal) is None:
        yield fine("Redis accepts writes")
    else:
        sentence, command = refusal.sentence, tuple[object, ...]()
        match refusal:
            case WriteRefusal.REPLICA:
                sentence = f"it is a replica of {server.info.get('master_host')}:{server.info.get('master_port')}"
            case WriteRefusal.FEW_REPLICAS:
                keeping = server.good_replicas
                wanted = server.settings.get("min-replicas-to-write", "larger")
                sentence = f"{keeping} of its replicas keep up, and min-replicas-to-write is {wanted}"
                command = ("redis-cli", "CONFIG", "SET", "min-replicas-to-write", keeping)
            case WriteRefusal.FULL:
                sentence = f"it is full: {_memory(server)}"
        remedy = f"{refusal.remedy}; {_STOPS}"
        if command:
            remedy += "; if a failover may lose what is written"
        yield problem(f"Redis refuses writes: {sentence}", remedy, *command)


@health_check("no_replica", Server, "role")
def check_no_replica(server: Server) -> Iterator[Finding]:
    """Check that a master that can be replaced has a replica for that."""
    if server.is_replica or not server.can_be_replaced or server.following_replicas:
        return
    known = server.number("connected_slaves")
    without = "no replica" if not known else f"no replica that is up to date ({known} load its data)"
    remedy = "start its replica, or let another server follow it"
    if server.is_in_cluster:
        remedy += ": redis-cli --cluster add-node REPLICA:PORT NODE:PORT --cluster-slave"
    else:
        remedy += ": redis-cli -h REPLICA REPLICAOF MASTER PORT"
    yield warning(f"the master has {without}: nothing fires from its death on until it is back", remedy)


@health_check("memory", Server)
def check_memory(server: Server) -> Iterator[Finding]:
    """Check the memory: Redis refuses writes at maxmemory, and is killed when the machine's memory is exhausted."""
    if not server.limit_bytes:
        yield skipped("INFO reports neither maxmemory nor the machine's memory")
    elif server.makes_room:
        yield fine(f"Redis: {_memory(server)}; it evicts keys to make room")
    elif server.write_refusal is not WriteRefusal.FULL:
        share, said = server.used_bytes / server.limit_bytes, f"Redis: {_memory(server)}"
        most, machine = server.number("maxmemory"), server.number("total_system_memory")
        more = "free memory, or give more" + (", by raising maxmemory" if most and 2 * most < machine else "")
        remedy = f"{more}, before it is full: then nothing can be scheduled and nothing fires"
        yield problem(said, remedy) if share > _FULL else warning(said, remedy) if share > _TIGHT else fine(said)


@health_check("eviction", Server)
def check_policy(server: Server) -> Iterator[Finding]:
    """Check that Redis evicts no keys, also since the leader looked. The daemons' settings may allow it."""
    if server.may_evict:
        said = f"maxmemory-policy {server.policy} may drop schedules: by default no daemon begins to lead"
        yield warning(said, *config_set("maxmemory-policy", "noeviction"))


def config_set(name: str, value: object) -> tuple[str, *tuple[object, ...]]:
    """Return the remedy of changing a setting of Redis, and its command."""
    return "in redis.conf, and at once", "redis-cli", "CONFIG", "SET", name, value


def _memory(server: Server) -> str:
    """``9 MiB used, 95% of maxmemory``."""
    of = "maxmemory" if server.number("maxmemory") else "the machine's memory"
    return f"{server.used_bytes / _MIB:,.0f} MiB used, {server.used_bytes / server.limit_bytes:.0%} of {of}"
