"""
Facts, which checks judge. A view has some of them, and shows the checks that need one of these:

    DaemonHealth   what a daemon knows of its own main loop            /readyz, status line
    RedisUnseen    that Redis gave no answer                           /readyz, status line
    Overview       counts, leader, archives: one look at Redis         status line, status, doctor
    Recent         the last minutes, from the log in Redis             status, doctor
    StalledQueues  queues from which nobody takes jobs                 status, doctor
    QueuesUnknown  that this user may not ask for these                status
    Probe          Redis itself, for questions of a check's own        doctor
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from zsched.config import Settings
from zsched.core.clock import Clock
from zsched.core.log import text
from zsched.core.recent import Recent
from zsched.errors import RedisRefused
from zsched.storage.connection import Command, Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms
from zsched.storage.overview import Overview
from zsched.storage.queues import StalledQueues
from zsched.storage.reader import Reader
from zsched.storage.registries import allowed_replies, members
from zsched.storage.rights import Role

# Redis' timeouts in one pass of a daemon's main loop: for a connection to one address and to another, for a reply, and
# for the rest.
TIMEOUTS: Final = 5


class DaemonHealth:
    """
    Health of a daemon's main loop. Only that loop writes it, but for ``failing``; any thread reads it.

    ``last_pass_ms``: when a pass ended, by the monotonic clock, led or not, with Redis or without. ``leads``: whether
    its term is on. ``trouble``: the reason why it neither leads nor stands by, or None.
    ``failing``: the threads and chores beside the main loop that fail at present, with reasons (``daemon.failures``).
    """

    def __init__(self, clock: Clock) -> None:
        self.last_pass_ms = clock.monotonic_ms()
        self.leads = False
        self.trouble: str | None = "it starts: Redis has not said yet whether it may lead"
        self.failing: dict[str, str] = {}


class RedisUnseen(NamedTuple):
    """Redis gave no answer, or refused one."""

    reason: str


class QueuesUnknown(NamedTuple):
    """This user may not ask who takes jobs from queues."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One look at a namespace, without asking an archive: nobody waits for one that is ill."""

    overview: Overview
    recent: Recent
    queues: StalledQueues | QueuesUnknown

    @classmethod
    def look(cls, reader: Reader, clock: Clock) -> Facts:
        """
        Look now; at the queues with the namespace's runs, or which its schedules use.

        Raises:
            RedisUnavailable, RedisRefused.
        """
        queues: StalledQueues | QueuesUnknown
        try:
            queues = reader.stalled_queues().of_ours
        except RedisRefused:  # the doctor says which right is missing
            queues = QueuesUnknown()
        recent = reader.recent(clock)
        return cls(reader.overview(), recent, queues)  # the overview comes last: the verdict is of now


# -- the doctor's connection to one Redis -----------------------------------------------------------


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
    def is_unfollowed_node(self) -> bool:
        """True if the connection is to one node of a Redis Cluster, and stays there."""
        return self.is_cluster and not self.wire.follows_slot

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
        return self.wire.replies(commands)

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
