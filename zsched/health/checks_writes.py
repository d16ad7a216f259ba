"""Checks of the Redis server that every view makes: does it accept writes, and has it memory to go on?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zsched.health.check import Finding, fine, health_check, problem, skipped, warning
from zsched.storage.overview import Overview
from zsched.storage.server import Server
from zsched.storage.writes import WriteRefusal

_TIGHT, _FULL = 0.80, 0.95  # of the memory that Redis may use
_MIB: Final = 1024 * 1024
_STOPS: Final = "until then nothing can be scheduled and nothing fires, and nothing is lost"


@health_check("writes", Overview, "redis", alert="Redis refuses writes")
def check_writes(overview: Overview) -> Iterator[Finding]:
    """Check that Redis accepts writes: without them nothing fires, and no daemon can report that it runs."""
    if overview.server is None:
        yield skipped("this user may not ask for INFO")
    elif (refusal := overview.server.write_refusal) is None:
        yield fine("Redis accepts writes")
    else:
        sentence, command = refusal.sentence, tuple[object, ...]()
        match refusal:
            case WriteRefusal.REPLICA:
                info = overview.server.info
                sentence = f"it is a replica of {info.get('master_host')}:{info.get('master_port')}"
            case WriteRefusal.FEW_REPLICAS:
                keeping = overview.server.good_replicas
                wanted = overview.server.settings.get("min-replicas-to-write", "more")
                sentence = f"min-replicas-to-write is {wanted}, and {keeping} of its replicas keep up"
                command = ("redis-cli", "CONFIG", "SET", "min-replicas-to-write", keeping)
            case WriteRefusal.FULL:
                sentence = f"it is full: {_memory(overview.server)}"
        remedy = f"{refusal.remedy}; {_STOPS}"
        if command:
            remedy += "; if a failover may lose what is written"
        yield problem(f"Redis refuses writes: {sentence}", remedy, *command)


@health_check("memory", Overview)
def check_memory(overview: Overview) -> Iterator[Finding]:
    """Check the memory: Redis refuses writes at maxmemory, and is killed when the machine's memory is exhausted."""
    server = overview.server
    if server is None or not _limit(server):
        yield skipped("INFO reports neither maxmemory nor the machine's memory")
    elif server.write_refusal is not WriteRefusal.FULL:
        share, said = server.used_bytes / _limit(server), f"Redis: {_memory(server)}"
        most, machine = server.number("maxmemory"), server.number("total_system_memory")
        more = "free memory, or give more" + (", by raising maxmemory" if most and 2 * most < machine else "")
        remedy = f"{more}, before it is full: then nothing can be scheduled and nothing fires"
        yield problem(said, remedy) if share > _FULL else warning(said, remedy) if share > _TIGHT else fine(said)


def _limit(server: Server) -> int:
    return server.number("maxmemory") or server.number("total_system_memory")


def _memory(server: Server) -> str:
    """``9 MiB used, 95% of maxmemory``."""
    of = "maxmemory" if server.number("maxmemory") else "the machine's memory"
    return f"{server.used_bytes / _MIB:,.0f} MiB used, {server.used_bytes / _limit(server):.0%} of {of}"
