"""
The ground of a contest: options of the run, children in a guard, and a private redis-server per row.

All contestants of a row use the same server over its loopback port, as in production, emptied before
each of them. Nothing outlives the run: see ``zsched.embedded.guard``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import redis

from bench.results import Broken
from zsched.client import Client
from zsched.core.clock import Clock, SystemClock
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Lease, Term
from zsched.storage.log import Log, LogPlace
from zsched.storage.server import Server

_TIMEOUT_S = 120.0  # for one reply: FLUSHALL of ten million keys takes long
_POLL_S = 0.02  # between two looks at a state that is waited for
_SLOW_US = 10_000  # the figure to reach: nobody waits longer for one script


@dataclass
class Arena:
    """
    One run of the benchmark. ``say`` tells progress; ``repeat`` is the number of repetitions.

    ``clock`` measures; nothing of the benchmark reads another one.
    """

    guard: Guard
    say: Callable[[str], None]
    is_quick: bool = False
    repeat: int = 3
    clock: Clock = field(default_factory=SystemClock)

    def size(self, full: int, quick: int) -> int:
        """Return the size for this kind of run."""
        return quick if self.is_quick else full

    @contextmanager
    def redis(self, *, appendonly: bool = False, config: Mapping[str, str] | None = None) -> Iterator[Ground]:
        """A private server; with *appendonly*, fsync every second. *config*: lines of redis.conf."""
        with (
            EmbeddedRedis(tcp=True, appendonly=appendonly, config=config, guard=self.guard) as server,
            redis.Redis.from_url(server.tcp_url, protocol=2, socket_timeout=_TIMEOUT_S) as commands,
        ):
            yield Ground(server.tcp_url, commands, self.clock)

    def wait_for(self, what: str, is_true: Callable[[], object], within_s: float = 60.0) -> None:
        """
        Look until *is_true*.

        Raises:
            Broken: not within *within_s*.
        """
        until_ms = self.clock.monotonic_ms() + within_s * 1000
        while not is_true():
            if self.clock.monotonic_ms() > until_ms:
                raise Broken(f"waited {within_s:.0f} s in vain: {what}")
            time.sleep(_POLL_S)

    def sleep_until(self, at_ms: float) -> None:
        """Sleep until the wall clock, which the server of the same machine shares, says *at_ms*."""
        left_ms = at_ms - self.clock.now_ms()
        if left_ms > 0:
            time.sleep(left_ms / 1000)


class Ground:
    """
    One private server: its URL, a plain client of it (``redis``), and zsched's keys and client.

    ``redis`` is Any because redis-py types a reply as all that any protocol and setting may give.
    """

    redis: Any

    def __init__(self, url: str, commands: redis.Redis, clock: Clock) -> None:
        self.url, self.redis, self.keys = url, commands, Keys("default")
        self._clock = clock

    def client(self, signing_keys_file: str | None = None) -> Client:
        """A client of zsched, as a service has it."""
        return Client.from_url(self.url, timeout_s=_TIMEOUT_S, signing_keys_file=signing_keys_file)

    @contextmanager
    def wire(self) -> Iterator[Wire]:
        """A connection as a daemon has it."""
        with closing(Link.from_url(self.url, _TIMEOUT_S).open()) as wire:
            yield wire

    def clear(self) -> None:
        """
        Empty the server and let it look as if a daemon had led here for long.

        A daemon fires nothing during the first lease on a Redis that it does not know (``hold``) or that has no name
        (``gen``), and marks as uncertain what was due before (``doubt``): right after a loss, and not what is measured
        here.
        """
        self.redis.flushall()
        with self.wire() as wire:
            lease = Lease(wire, self.keys, Server.of(wire), self._clock, "bench", 1000)
            term = lease.acquire()
            assert isinstance(term, Term), "an empty server has no leader"
            lease.release(term)
        self.redis.hset(self.keys.meta(), mapping={"hold": 0, "doubt": -1, "gen": uuid.uuid4().hex})
        self.redis.config_set("slowlog-log-slower-than", _SLOW_US)
        self.redis.slowlog_reset()

    def waiting(self) -> int:
        """Count the schedules in zsched's lanes."""
        keys = self.keys
        return sum(int(self.redis.zcard(lane)) for lane in (keys.due_high(), keys.due_normal(), keys.due_low()))

    def archives(self) -> int:
        """Count the archives that follow the log."""
        with self.wire() as wire:
            return Archivers(wire, self.keys).alive()

    def is_archived(self) -> bool:
        """Return True if an archive has all that the log holds now on its disk."""
        with self.wire() as wire:
            last = Log(wire, self.keys).last()
            if last is None:
                return False
            return Archivers(wire, self.keys).archived(LogPlace.of(last.position)) == "archived"

    def slow_scripts_ms(self) -> list[float]:
        """Since ``clear``: durations of scripts that took longer than 10 ms, by SLOWLOG."""
        entries = self.redis.slowlog_get(1000)
        return [entry["duration"] / 1000 for entry in entries if entry["command"][:7].upper() == b"EVALSHA"]

    def used_memory(self) -> int:
        """Bytes that the allocator gave out, freed pages returned."""
        self.redis.execute_command("MEMORY", "PURGE")
        return int(self.redis.info("memory")["used_memory"])
