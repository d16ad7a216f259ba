"""The doctor's connection to one Redis: the fact of those checks that ask questions of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zsched.config import Settings
from zsched.core.clock import Clock
from zsched.core.log import text
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms
from zsched.storage.registries import Command, allowed_replies, members, replies
from zsched.storage.rights import Role


@dataclass(frozen=True, slots=True)
class Probe:
    """
    One Redis over *wire*, and one namespace in it. ``info``: the server's INFO at the beginning. ``roles`` and
    ``user``: the roles that a user's rights are compared with, and that user; None: the connection's. ``link`` is for
    a check that needs a connection of its own. ``config_file``: the file from which settings were read, if any.

    Whatever asks Redis raises RedisRefused and RedisUnavailable.
    """

    settings: Settings
    link: Link
    wire: Wire
    keys: Keys
    clock: Clock
    info: Mapping[str, str]
    roles: tuple[Role, ...] = (Role.DAEMON,)
    user: str | None = None
    config_file: str | None = None

    @property
    def is_cluster(self) -> bool:
        """True in cluster mode."""
        return self.info.get("cluster_enabled") == "1"

    @property
    def is_replica(self) -> bool:
        """True if writes are refused."""
        return self.info.get("role", "master") != "master"

    @property
    def product(self) -> str:
        """Name and version of the server: "Redis 7.0.15", "Valkey 8.1.4"."""
        valkey = self.info.get("valkey_version")
        return f"Valkey {valkey}" if valkey else f"Redis {self.info.get('redis_version', 'of an unknown version')}"

    @property
    def release(self) -> tuple[int, ...]:
        """The server's version as numbers; a Valkey's is that of the Redis that it is compatible with."""
        parts = self.info.get("redis_version", "").split(".")[:3]
        return tuple(int(part) for part in parts if part.isdecimal())

    @property
    def own_user(self) -> str:
        """The name of the user of this connection."""
        return self.link.pool.connection_kwargs.get("username") or "default"

    def number(self, name: str) -> int:
        """A number of INFO, or 0."""
        value = self.info.get(name, "")
        return int(value) if value.isdecimal() else 0

    def ask(self, *command: Any) -> Any:
        """The reply to *command*."""
        return self.wire.execute(*command)

    def replies(self, commands: Iterable[Command]) -> list[Any]:
        """The replies to *commands*, pipelined; a refused one gives its RedisRefused."""
        return replies(self.wire, commands)

    def ask_all(self, commands: Iterable[Command]) -> list[Any]:
        """The replies to *commands*, pipelined; a key of a wrong type, which has a check of its own, gives None."""
        return allowed_replies(self.wire, commands)

    def members(self, key: str, most: int) -> list[str]:
        """At least *most* members of the set *key*, or all, sorted."""
        return members(self.wire, key, most)

    def setting(self, name: str) -> str | None:
        """The value of *name* by CONFIG GET; None if this server does not know it."""
        found = self.ask("CONFIG", "GET", name)
        return text(found[1]) if found else None

    def queues(self) -> list[str]:
        """The names of the queues that RQ knows, sorted."""
        [keys] = self.ask_all([("SMEMBERS", self.keys.rq.queues())])
        return sorted(self.keys.rq.queue_name(text(key)) for key in keys or ())

    def now_ms(self) -> int:
        """The server's time, as scripts see it."""
        return server_now_ms(self.wire, self.keys)


def info_of(wire: Wire) -> dict[str, str]:
    """INFO by name."""
    lines = text(wire.execute("INFO")).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
