"""
Other schedulers on this Redis: their keys, and the schedulers with a recent heartbeat.

    RQ's scheduler  a worker --with-scheduler: a STRING per queue that it serves, its name; since RQ 2.10 a HASH of it
    rq-scheduler    that package: all of its jobs in one ZSET; a HASH per process, which lapses its interval and 10 s
                    after its last sign of life; a STRING while one pushes
    RQ's cron       ``rq cron``: a ZSET of names with the second of their last beats, and a HASH of each

Nothing here writes. Raises RedisUnavailable and RedisRefused, as wires do.

Not guaranteed: an rq-scheduler that was stopped (SIGSTOP, a frozen machine) for longer than the life of its HASH stays
unseen when it continues: it only refreshes that key, and does not write it again. Then only its lock shows it, while it
pushes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from zsched.core.entry import text
from zsched.storage.connection import Wire
from zsched.storage.rqkeys import RQ_SCHEDULER, RQ_SCHEDULER_LOCK, RqKeys

CRON_OWNER: Final = "rq-cron:"  # with the module behind it managed_by of what was imported from RQ's cron
_CRON_LIVES_MS: Final = 120_000  # RQ's own: without a beat for longer it is gone; its entry stays when it was killed
_PER_STEP: Final = 1000  # keys that a step of a scan looks at: some 0.3 ms of Redis


class RqSchedulers(NamedTuple):
    """The names of those that run; ``is_all``: all keys of the database were looked at for them."""

    names: list[str]
    is_all: bool


class Cron(NamedTuple):
    """An ``rq cron`` that runs; ``module`` is its argument, "" where it does not tell."""

    name: str
    module: str

    def is_of(self, module: str) -> bool:
        """Return True if it runs *module*, or may: of a full path and a dotted name the ends are compared."""
        mine, other = dotted(self.module), dotted(module)
        short, long = sorted((mine, other), key=len)
        return not mine or mine == other or (long.startswith(".") and long.endswith(f".{short}"))


def rq_schedulers(wire: Wire, steps: int | None = None) -> RqSchedulers:
    """The rq-schedulers that run, or were killed and have not lapsed; *steps*: how long to look at most."""
    cursor, found, taken = b"0", set[str](), 0
    while steps is None or taken < steps:
        cursor, keys = wire.execute("SCAN", cursor, "MATCH", f"{RQ_SCHEDULER}*", "COUNT", _PER_STEP)
        states = {key: wire.execute("HMGET", key, "birth", "death") for key in keys}
        found.update(text(key) for key, (birth, death) in states.items() if birth and not death)
        taken += 1
        if cursor == b"0":
            break
    names = sorted(key.removeprefix(RQ_SCHEDULER) for key in found)
    if not names and wire.execute("EXISTS", RQ_SCHEDULER_LOCK):
        names = ["one that has the lock"]
    return RqSchedulers(names, cursor == b"0")


def crons(wire: Wire, rq: RqKeys, now_ms: int) -> list[Cron]:
    """RQ's cron schedulers that gave a sign of life lately; *now_ms* is the server's time."""
    names = wire.execute("ZRANGEBYSCORE", rq.crons(), (now_ms - _CRON_LIVES_MS) / 1000, "+inf")
    return [Cron(text(name), text(wire.execute("HGET", rq.cron(text(name)), "config_file") or b"")) for name in names]


def dotted(module: str) -> str:
    """The name of a module that is given as such, or as a path; that of a full path begins with a dot."""
    return module.removesuffix(".py").replace("/", ".")
