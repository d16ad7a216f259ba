"""What a connection is connected to: the identity that leadership depends on, and what speaks against leading."""

from __future__ import annotations

from dataclasses import dataclass

from zsched.errors import RedisRefused
from zsched.storage.connection import Wire


@dataclass(frozen=True, slots=True)
class Server:
    """
    One Redis server process with one history, as INFO tells.

    ``id`` is its ``run_id`` and ``master_replid``: a restart changes the first, a promotion the second.
    """

    id: str
    version: str
    role: str
    maxmemory: int
    policy: str

    @classmethod
    def of(cls, wire: Wire) -> Server:
        """
        Ask the server at the other end of *wire*.

        Raises:
            RedisRefused: it runs in cluster mode, in which RQ cannot work.
            RedisUnavailable: it does not answer.
        """
        info = dict(line.split(":", 1) for line in wire.execute("INFO").decode().splitlines() if ":" in line)
        if info.get("cluster_enabled") == "1":
            raise RedisRefused(
                f"Redis at {wire.where} is a cluster, and RQ cannot run on one; use a single Redis or Sentinel"
            )
        return cls(
            id=f"{info.get('run_id', '')}{info.get('master_replid', '')}",
            version=info.get("valkey_version") or info.get("redis_version", "unknown"),
            role=info.get("role", "master"),
            maxmemory=int(info.get("maxmemory", 0)),
            policy=info.get("maxmemory_policy", "noeviction"),
        )

    def objection(self, allow_eviction: bool) -> str | None:
        """Why a daemon must not lead on this server, or None."""
        if self.role != "master":
            return f"it is a {self.role}: writes would be refused"
        if self.maxmemory > 0 and self.policy != "noeviction" and not allow_eviction:
            return f"maxmemory-policy {self.policy} may evict schedules; set noeviction, or [daemon] allow_eviction"
        return None
