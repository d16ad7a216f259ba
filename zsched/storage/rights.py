"""
Rights of each kind of process in Redis: its commands, keys and channels, as an ACL takes them.

The one source for ``deploy/redis/users.acl`` and ``zsched doctor``; a test compares the file. Redis applies the
caller's rights to a script, so the commands of scripts are read from their texts: a new command in a script becomes a
new right automatically. Commands outside of scripts, by Python and by RQ's own worker, are a list.

The rights use only words that Redis 6.2 knows, later ones and Valkey too, so that one file serves all. There are no
selectors, and no read-only rights to a key (7.0; and EVALSHA needs both rights for each of its keys). So a user's
commands apply to all of its keys.

Not guaranteed: a client can damage its namespace. It runs the scripts that write there, and can also do by hand what
they do (SECURITY.md).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from inspect import signature
from typing import Final, NamedTuple

from zsched.storage.keys import Keys
from zsched.storage.rqkeys import RqKeys
from zsched.storage.scripts import load

_CALL: Final = re.compile(r"\bp?call\('([A-Z]+)'")  # also redis.call under a local name


class Role(StrEnum):
    """A kind of process."""

    CLIENT = "client"  # schedules, queries, cancels: services, and the commands of ``zsched``
    DAEMON = "daemon"  # ``zsched daemon``, and ``zsched archive recover``
    WORKER = "worker"  # RQ's worker, and ``current_run`` in its tasks
    WEB = "web"  # ``zsched web``: a client that also reads all that RQ keeps, for rq-dashboard


# The users of deploy/redis/users.acl, and their roles. If tasks return a Next, their worker schedules over its own
# connection, so it is a client, too.
USERS: Final[Mapping[str, tuple[Role, ...]]] = {
    "zsched-client": (Role.CLIENT,),
    "zsched-daemon": (Role.DAEMON,),
    "zsched-worker": (Role.WORKER,),
    "zsched-scheduling-worker": (Role.WORKER, Role.CLIENT),
    "zsched-web": (Role.WEB,),
}

_OF_CLIENTS: Final = (
    "archived", "cancel", "cancel_run", "enqueue", "get", "look", "named_texts", "pause", "put", "put_recurring",
    "resume", "retry", "run_now", "skip",
)  # fmt: skip

# The scripts of each role: names of files in zsched/lua.
SCRIPTS: Final[Mapping[Role, tuple[str, ...]]] = {
    Role.CLIENT: _OF_CLIENTS,
    Role.DAEMON: (
        "acquire", "adopt", "advance", "audit", "deadline", "end_pauses", "fire", "free_slots", "get", "limits",
        "look", "lost", "merged", "name", "named_texts", "native", "notified", "quarantine", "release", "renew",
        "replan", "report", "restore", "restore_runs", "seat", "set_aside", "shown", "track", "trim", "unblock",
    ),
    Role.WORKER: ("note",),
    Role.WEB: _OF_CLIENTS,
}  # fmt: skip

# Commands to set up and keep a connection. MULTI and DISCARD find out a user's rights (checks_rights); CLUSTER SLOTS
# and EXISTS find the owner of its keys.
_CONNECTION: Final = "client|setname cluster|slots discard exists hello multi ping role select"

_BY_CLIENTS: Final = (
    "blpop evalsha exists get hdel hget hgetall hkeys hlen hmget hscan hsetnx info lrem memory|usage pexpire pttl "
    "rpush scard script|load sismember smembers time xlen xrange xread xrevrange zcard zcount zrange zrangebyscore"
)

# Commands outside of scripts, including those that run them.
_COMMANDS: Final[Mapping[Role, str]] = {
    Role.CLIENT: _BY_CLIENTS,
    Role.DAEMON: (
        "blpop evalsha exists get hdel hget hgetall hlen hmget hscan info lindex llen lpos lpush lrange memory|usage "
        "pexpire pttl rpush scard script|load smembers sscan subscribe time type xlen xrange xread xrevrange zcard "
        "zcount zrandmember zrange zrangebyscore zrem zremrangebyscore zscan zscore"
    ),
    # Of RQ's worker, read from its sources, 2.8 to 3.0; without CLIENT LIST, which it can do without. EVAL: run.note.
    # Only RQ 3: CLIENT INFO, which shows only the own connection, and ZPOPMIN and ZCOUNT, for rate limits. TIME is for
    # a guard.
    Role.WORKER: (
        "blmove blpop client|info del eval evalsha exec exists expire get hdel hexists hget hgetall hincrby "
        "hincrbyfloat hset info llen lmove lpop lpos lpush lrange lrem persist publish rpush sadd script|exists "
        "script|load set smembers srem subscribe time ttl unsubscribe unwatch watch xadd xlen xread xrevrange zadd "
        "zcard zcount zpopmin zrange zrangebyscore zrem zremrangebyscore zscore"
    ),
    # Also of RQ's classes, as rq-dashboard uses them; WATCH and EXEC are of a pipeline that reads.
    Role.WEB: (
        f"{_BY_CLIENTS} del exec hexists hset lindex llen lpos lrange set sscan ttl type unwatch watch xrange zscore"
    ),
}

# RQ's keys that are used outside of scripts, without their prefix.
_RQ_KEYS: Final[Mapping[Role, str]] = {
    Role.CLIENT: "queues rl-keys rl:* suspended wip:* worker:* workers:*",
    Role.DAEMON: ("executions:* failed:* finished:* job:* queue:* queues rl-keys rl:* scheduled:* wip:* zsched:warned"),
    Role.WORKER: "*",
    Role.WEB: "*",
}


class Rights(NamedTuple):
    """
    Rights of a process, sorted: ``commands`` with their ACL names (``hget``, ``script|load``), ``keys`` and
    ``channels`` as patterns.
    """

    commands: tuple[str, ...]
    keys: tuple[str, ...]
    channels: tuple[str, ...]

    @property
    def rule(self) -> str:
        """The words that give them to a new user, for ``ACL SETUSER`` or a file."""
        words = [f"~{key}" for key in self.keys]
        words += ["resetchannels", *(f"&{channel}" for channel in self.channels)]  # 6.2 allows all by default
        return " ".join([*words, *(f"+{command}" for command in self.commands)])


def rights_of(roles: Iterable[Role], keys: Keys) -> Rights:
    """Return the rights of a process with all of *roles* in the namespace of *keys*."""
    commands, patterns, channels = set(_CONNECTION.split()), set[str](), set[str]()
    for role in roles:
        commands.update(_COMMANDS[role].split())
        patterns.update(f"{keys.rq.prefix}:{key}" for key in _RQ_KEYS[role].split())
        for script in SCRIPTS[role]:
            commands |= commands_of(script)
            patterns |= rq_keys_of(script, keys.rq)
            patterns |= {_pattern(keys.named(key)) for key in load(script).keys if key.startswith("rq_")}
        if role is not Role.WORKER:
            patterns.add(f"{keys.prefix}*")
        channels.add(keys.wake())
        channels.add(keys.rq.pubsub("*"))  # clients and leaders ask workers to stop a run
    if (every := f"{keys.rq.prefix}:*") in patterns:
        patterns = {every, *(pattern for pattern in patterns if not pattern.startswith(every[:-1]))}
    return Rights(tuple(sorted(commands)), tuple(sorted(patterns)), tuple(sorted(channels)))


def commands_of(script: str) -> set[str]:
    """Return the ACL names of the commands that a script may call."""
    return {command.lower() for command in _CALL.findall(load(script).text)}


def rq_keys_of(script: str, rq: RqKeys) -> set[str]:
    """Return the patterns of RQ's keys that a script builds."""
    code = re.sub("--.*", "", load(script, rq.prefix).text)
    starts = re.findall(rf"'({re.escape(rq.prefix)}:[a-z-]+:)'", code)  # the name of a queue or job follows
    return {f"{start}*" for start in starts} - {rq.pubsub("*")}  # which is no key, but each worker's channel


def _pattern(key: Callable[..., str]) -> str:
    return key("*") if signature(key).parameters else key()


def acl_file(keys: Keys) -> str:
    """
    Return an ACL file with all users of a namespace, and ``operator``, the only one who may do everything.

    Redis accepts no comments in it, and refuses it until each password's SHA-256, 64 hexadecimal digits, is filled in.
    ``default`` is off and has no password, so nobody can log in as it. But it has all rights: Redis (7.0) reads its AOF
    as that user, and would leave out forbidden commands, every script's writes among them.
    """
    lines = ["user default reset off ~* &* +@all", "user operator reset on #SHA256-OF-operator ~* &* +@all"]
    lines += [f"user {user} reset on #SHA256-OF-{user} {rights_of(roles, keys).rule}" for user, roles in USERS.items()]
    return "\n".join([*lines, ""])
