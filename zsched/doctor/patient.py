"""What checks look at: one Redis over one connection, and one namespace in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zsched.config import Settings
from zsched.core.clock import Clock
from zsched.core.log import text
from zsched.core.model import Priority
from zsched.storage.archivers import Report, reports_of
from zsched.storage.connection import Link, Wire
from zsched.storage.daemons import DaemonSeen, daemons_of
from zsched.storage.keys import Keys
from zsched.storage.replies import Command, allowed_replies, members, replies
from zsched.storage.rights import Role
from zsched.storage.time import server_now_ms


@dataclass(frozen=True, slots=True)
class Patient:
    """
    ``info``: the server's INFO at the beginning. ``roles`` and ``user``: what a user's rights are compared
    with, and whose they are; None: the connection's. ``link`` is for a check that needs a connection of its own.
    ``config_file``: where settings were read from, if from a file.

    What asks Redis raises RedisRefused and RedisUnavailable.
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
        """Whether it runs in cluster mode."""
        return self.info.get("cluster_enabled") == "1"

    @property
    def is_replica(self) -> bool:
        """Whether writes are refused."""
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

    def number(self, name: str) -> int:
        """A number of INFO; 0 when it tells none."""
        told = self.info.get(name, "")
        return int(told) if told.isdecimal() else 0

    def ask(self, *command: Any) -> Any:
        """The reply to *command*."""
        return self.wire.execute(*command)

    def replies(self, commands: Iterable[Command]) -> list[Any]:
        """The replies to *commands*, pipelined; of what is refused its RedisRefused."""
        return replies(self.wire, commands)

    def ask_all(self, commands: Iterable[Command]) -> list[Any]:
        """The replies to *commands*, pipelined; None of a key of a wrong type, which is said by a check of its own."""
        return allowed_replies(self.wire, commands)

    def members(self, key: str, most: int) -> list[str]:
        """At least *most* members of the set *key*, or all, sorted."""
        return members(self.wire, key, most)

    def setting(self, name: str) -> str | None:
        """What CONFIG GET says of *name*; None if this server does not know it."""
        found = self.ask("CONFIG", "GET", name)
        return text(found[1]) if found else None

    def now_ms(self) -> int:
        """The server's time, as scripts see it."""
        return server_now_ms(self.wire, self.keys)

    def leader(self) -> str | None:
        """The id of the daemon that leads."""
        lease = self.ask("GET", self.keys.lease())
        return text(lease).partition(":")[0] if lease else None

    def has_begun(self) -> bool:
        """Whether a daemon ever led here."""
        return self.ask("HGET", self.keys.meta(), "epoch") is not None

    def has_schedules(self) -> bool:
        """Whether anything recurs, or is to fire."""
        recurring, *waiting = self.ask_all(
            [("SCARD", self.keys.recurring()), *(("ZCARD", self.keys.due(lane)) for lane in Priority)]
        )
        return bool(recurring) or any(waiting)

    def reports(self) -> list[Report]:
        """What archives told last."""
        return reports_of(self.ask("HGETALL", self.keys.archivers()))

    def daemons(self) -> list[DaemonSeen]:
        """The daemons that run."""
        seen = daemons_of(self.reports(), self.leader(), self.now_ms())
        return [daemon for daemon in seen if daemon.is_running]


def user_of(patient: Patient) -> str:
    """The name of the user whose connection this is."""
    return patient.link.pool.connection_kwargs.get("username") or "default"


def info_of(wire: Wire) -> dict[str, str]:
    """INFO by name."""
    lines = text(wire.execute("INFO")).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
