"""
Other schedulers on this Redis: their keys, and the schedulers with a recent heartbeat; other namespaces of zsched.

    RQ's scheduler  a worker --with-scheduler: its name in a STRING per queue; since RQ 2.10 a HASH about it
    rq-scheduler    that package: all of its jobs in one ZSET; a HASH per process, which expires its interval and 10 s
                    after its last refresh; a STRING while one pushes
    RQ's cron       ``rq cron``: a ZSET of names with the second of their last heartbeat, and a HASH of each

Nothing here writes. Raises RedisUnavailable and RedisRefused, as wires do.

Not guaranteed: an rq-scheduler that was stopped (SIGSTOP, a frozen machine) for longer than the life of its HASH is not
seen when it continues: it only refreshes that key, and does not write it again. Then only its lock shows it, during a
push.
"""

import math
from contextlib import suppress
from typing import Final, NamedTuple

from zsched.core.entry import text
from zsched.core.wording import some
from zsched.errors import RedisRefused
from zsched.storage.connection import Channel, Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.meta import is_empty
from zsched.storage.rqkeys import RQ_SCHEDULER, RQ_SCHEDULER_LOCK, RqKeys

CRON_OWNER: Final = "rq-cron:"  # the owner of schedules imported from RQ's cron; the module follows
RQ_SCHEDULED_OWNER, RQ_SCHEDULER_OWNER = "rq-scheduled", "rq-scheduler"  # of other imported schedules
_CRON_LIVES_MS: Final = 120_000  # RQ's own limit between heartbeats; the entry of a killed one stays
_PER_STEP: Final = 1000  # keys per step of a scan: about 0.3 ms of Redis
_STEPS: Final = 50  # to find the other namespaces
_NAMED: Final = 8  # of them


class RqSchedulers(NamedTuple):
    """The names of running rq-schedulers; ``is_all``: all keys of the database were searched."""

    names: list[str]
    is_all: bool


class Cron(NamedTuple):
    """A running ``rq cron``; ``module`` is its argument, or "" if unknown."""

    name: str
    module: str

    def is_of(self, module: str) -> bool:
        """Return True if it runs, or may run, *module*. The ends of a full path and of a dotted name are compared."""
        mine, other = dotted(self.module), dotted(module)
        short, long = sorted((mine, other), key=len)
        return not mine or mine == other or (long.startswith(".") and long.endswith(f".{short}"))


def _scanned(channel: Channel, pattern: str, steps: float) -> tuple[list[str], bool]:
    """Return the keys of *pattern* that *steps* steps of a scan find, and whether they searched all keys."""
    cursor, found = b"", list[bytes]()
    while cursor != b"0" and steps > 0:
        cursor, keys = channel.execute("SCAN", cursor or b"0", "MATCH", pattern, "COUNT", _PER_STEP)
        found, steps = found + keys, steps - 1
    return sorted({text(key) for key in found}), cursor == b"0"


def rq_schedulers(wire: Wire, steps: float = math.inf) -> RqSchedulers:
    """Return the rq-schedulers that run, or were killed recently; *steps*: limit of the scan."""
    keys, is_all = _scanned(wire, f"{RQ_SCHEDULER}*", steps)
    states = {key: wire.execute("HMGET", key, "birth", "death") for key in keys}
    names = [key.removeprefix(RQ_SCHEDULER) for key, (birth, death) in states.items() if birth and not death]
    if not names and wire.execute("EXISTS", RQ_SCHEDULER_LOCK):
        names = ["one that has the lock"]
    return RqSchedulers(names, is_all)


def emptiness(link: Link, keys: Keys) -> str:
    """
    Return "" if the namespace has a key; else a sentence that names the namespaces of this Redis, as far as this user
    may scan it. Only an empty namespace costs that scan, which ends after 50,000 keys.
    """
    metas, is_all = list[str](), False
    if not is_empty(link, keys):
        return ""
    with suppress(RedisRefused):
        metas, is_all = _scanned(link, "zsched:{*}:meta", _STEPS)
    names = [meta.partition("{")[2].partition("}")[0] for meta in metas]
    is_all = is_all and not link.is_to_cluster  # a scan sees one node
    others = f"; this Redis has: {some(names, _NAMED)}" if names else "; this Redis has no other" if is_all else ""
    return f"namespace {keys.namespace} is empty here{others}"


def crons(wire: Wire, rq: RqKeys, now_ms: int) -> list[Cron]:
    """Return RQ's cron schedulers with a recent heartbeat; *now_ms* is the server's time."""
    names = wire.execute("ZRANGEBYSCORE", rq.crons(), (now_ms - _CRON_LIVES_MS) / 1000, "+inf")
    return [Cron(text(name), text(wire.execute("HGET", rq.cron(text(name)), "config_file") or b"")) for name in names]


def dotted(module: str) -> str:
    """Return the dotted name of a module given by name or path; the name for a full path begins with a dot."""
    return module.removesuffix(".py").replace("/", ".")
