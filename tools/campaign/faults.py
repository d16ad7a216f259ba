"""The list of faults: the name of each, its effect, and its consequence for the audit."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from tools.campaign import clocks, crowds, hostile, losing, plain, returning
from tools.campaign.stage import Stage

Strike = Callable[[Stage, random.Random], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """
    One fault. ``what`` describes it in a sentence. ``loses``: Redis forgets history, so the archives must have reached
    the log's end before it strikes. ``is_extra``: it strikes only if named or chosen by an option.
    """

    name: str
    strike: Strike
    what: str
    loses: bool = False
    is_extra: bool = False


FAULTS = [
    Fault("leader-killed", plain.kill_leader, "kill -9 of the leader, started again after a moment"),
    Fault("standby-killed", plain.kill_standby, "kill -9 of the standby, started again after a moment"),
    Fault("leader-paused", plain.pause_leader, "SIGSTOP of the leader past its lease, then SIGCONT"),
    Fault("redis-killed-always", plain.kill_redis_always, "kill -9 of Redis with appendfsync always"),
    Fault("redis-killed-everysec", plain.kill_redis_everysec, "kill -9 of Redis with appendfsync everysec"),
    Fault("redis-paused", plain.pause_redis, "SIGSTOP of Redis for 3 s"),
    Fault("replies-cut", plain.cut_replies, "one reply in ten is lost with its connection, to clients and daemons"),
    Fault("requests-cut", plain.cut_requests, "one request in ten never arrives and its connection closes"),
    Fault("network-slow", plain.slow_network, "every reply takes 20 to 120 ms"),
    Fault("half-open", plain.half_open, "nothing arrives and nothing closes, for 3 s"),
    Fault("script-flush", plain.flush_scripts, "SCRIPT FLUSH, three times"),
    Fault("memory-full", plain.fill_memory, "maxmemory a little below what is used, for 1 to 2 s"),
    Fault("no-replicas", plain.refuse_writes, "min-replicas-to-write 1, so every write is refused, for 1 to 2 s"),
    Fault("archive-disk-full", plain.fill_disk, "neither archive can be written, for 2 s"),
    Fault("log-trimmed", plain.trim_log, "a standby returns and the log was trimmed past its archive's position"),
    Fault("same-millisecond", crowds.same_millisecond, "10,000 one-shots due in the same millisecond"),
    Fault("malformed", crowds.malformed, "one of 1,000 due one-shots has its hash broken by another writer"),
    Fault("queue-wrong-type", crowds.wrong_queue, "an RQ queue's key is a string for a while"),
    Fault("key-vanished", crowds.vanish, "hashes of 40 one-shots and 4 rules are deleted before they are due"),
    Fault("zone-unknown", crowds.lack_zone, "a leader whose machine lacks a time zone"),
    Fault("rules-churned", crowds.churn_rules, "rules change between fire and advance, on a slow network"),
    Fault("hostile-jobs", hostile.write_jobs, "a worker's user writes hostile texts into waiting jobs"),
    Fault("aof-cut", losing.cut_aof, "kill -9 of Redis, up to 200 bytes of its AOF's end missing", loses=True),
    Fault("older-aof", losing.older_aof, "an AOF of some seconds ago is put back", loses=True),
    Fault("older-rdb", losing.older_rdb, "an RDB of some seconds ago is put back", loses=True),
    Fault("older-aof-election", losing.older_aof_election, "the same while the leader is killed -9", loses=True),
    Fault("flushall", losing.flush, "FLUSHALL while clients write", loses=True),
    Fault("flushall-election", losing.flush_election, "FLUSHALL while the leader is killed -9", loses=True),
    Fault("flushall-burst", losing.flush_burst, "FLUSHALL within milliseconds of 500 fires", loses=True),
    Fault("flushall-alone", losing.flush_alone, "the same with one daemon, which must notice itself", loses=True),
    Fault("replica-promoted", losing.promote, "a replica behind a cut link is promoted, all move to it", loses=True),
    Fault("empty-archive-first", losing.empty_first, "FLUSHALL, and a daemon with an empty archive leads", loses=True),
    Fault("returns-while-slow", returning.return_while_slow, "a daemon returns, the other is slow", loses=True),
    Fault("leader-paused-flushall", returning.pause_over_flush, "FLUSHALL while the leader is paused", loses=True),
    Fault("older-rdb-cancelled", returning.cancelled_before_older_rdb, "an RDB has what was cancelled", loses=True),
    Fault("fire-on-its-way", returning.fire_on_its_way, "a fire arrives after FLUSHALL and a restore", loses=True),
    Fault("clock-forth", clocks.forth, "Redis's clock jumps an hour forth, and back after 1.5 s", is_extra=True),
    Fault("clock-back", clocks.back, "Redis's clock jumps an hour back, and forth after 1.5 s", is_extra=True),
]  # fmt: skip
BY_NAME = {fault.name: fault for fault in FAULTS}


def chosen(only: tuple[str, ...], *, clock: bool) -> list[Fault]:
    """Return the faults of those names, or all that are not extra; with *clock* also the faults of the clock."""
    if only:
        return [BY_NAME[name] for name in only]
    return [fault for fault in FAULTS if clock or not fault.is_extra]
