"""
A check of rights: has a user those that its process needs? They are read from the scripts (``storage/rights``).

A command that is missing in the middle of a script stops it there, with half of its writes done: so all of them are
asked for before a daemon runs into it. Commands and keys are asked for apart, since a user's commands hold for all of
its keys: a command is missing if it is denied on every kind of key, a kind of key if it cannot be read or written.

Not guaranteed: a user with selectors (Redis 7), whose commands hold for some of its keys only, may lack a pair that is
not seen here. A user who may only read what its role only reads lacks that key here: zsched's roles have no such.

There are three ways to ask Redis whether a user may run a command, without doing anything:

by a script   Redis 7 and later tell a script the rights of its caller: only the right to run scripts is needed.
rehearsed     else commands are queued after MULTI, which checks each of them, and dropped by DISCARD.
ACL DRYRUN    tells another user's rights (7.0), if this user may ask that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

from zsched.core.wording import plural
from zsched.errors import RedisRefused, RedisUnavailable
from zsched.health.check import Finding, fine, health_check, problem, skipped
from zsched.health.facts import Probe
from zsched.storage.connection import Wire
from zsched.storage.registries import is_denied
from zsched.storage.rights import Rights, Role, rights_of

May = Callable[..., bool]  # tells of the words of a command whether they would be allowed, its keys and channels too

# What follows a command, by what it needs to be well-formed: @ is a key, & a channel. Nothing of it is executed.
_ARGUMENTS: Final = {
    "": "client|info cluster|slots discard exec hello info multi ping role time unsubscribe unwatch",
    "@": "del exists get hgetall hkeys hlen hvals llen lpop memory|usage persist pttl scard smembers ttl type watch "
    "xlen zcard zpopmin zrandmember",
    "@ 1": "blpop expire hdel hexists hget hmget hscan lindex lpos lpush pexpire rpush sadd set sismember smismember "
    "srem sscan zmscore zrem zscan zscore",
    "@ 1 1": "hincrby hincrbyfloat hset hsetnx lrange lrem zadd zcount zrange zrangebyscore zremrangebyscore",
    "@ @": "copy",
    "@ @ LEFT LEFT": "lmove",
    "@ @ LEFT LEFT 1": "blmove",
    "@ * 1 1": "xadd",
    "@ - +": "xrange",
    "@ + -": "xrevrange",
    "@ MAXLEN 1": "xtrim",
    "STREAMS @ 0": "xread",
    "1": "client|setname script|exists script|load select",
    "1 0": "eval",
    "1 1 @": "evalsha",
    "&": "subscribe",
    "& 1": "publish",
}
_FORMS: Final = {command: form.split() for form, commands in _ARGUMENTS.items() for command in commands.split()}
_READS: Final = ("hget", "hgetall")  # one of them shows whether a key may be read
_WRITES: Final = ("hset", "del")
_SPEAKS: Final = ("publish", "subscribe")
_HOW: Final = {
    True: "ask as an administrator, with --user NAME",
    False: "give it +multi +discard, which harm nothing: before Redis 7 nobody else can ask for it",
}
_WILD: Final = "zsched-doctor"  # what stands for a name in a pattern


@health_check("rights", Probe)
def check_rights(probe: Probe) -> Iterator[Finding]:
    """Commands, keys and channels of the probe's roles, asked for as its user."""
    if probe.is_replica:
        yield skipped("asked for where writes are taken: ask at the master")
        return
    if probe.user is not None and probe.release < (7,):
        yield skipped("before Redis 7 nobody can ask what another user may", "run zsched doctor as that user")
        return
    rights, name = rights_of(probe.roles, probe.keys), probe.user or probe.own_user
    role = " and a ".join(probe.roles)
    try:
        if probe.user is not None and probe.ask("ACL", "GETUSER", probe.user) is None:
            remedy = "deploy/redis/users.acl has one of each role; who there is"
            yield problem(f"there is no user {name}", remedy, "redis-cli", "ACL", "USERS")
            return
        with _asking(probe) as may:
            rule = _lacking(rights, may, is_reader=set(probe.roles) == {Role.DASHBOARD})
    except RedisUnavailable as error:  # a rehearsal is refused, say, where writes are
        yield skipped(str(error))
        return
    except RedisRefused as error:
        if not is_denied(error):
            raise
        yield skipped(f"user {name} may not find out what it may: {error.__cause__}", _HOW[probe.release >= (7,)])
        return
    if rule:
        yield problem(
            f"user {name} has not all rights of a {role}: scripts would fail, some of them in their middle",
            "in the ACL file, and at once",
            *("redis-cli", "ACL", "SETUSER", name, *rule),
        )
    else:
        has = f"{plural(len(rights.commands), 'command')} and {plural(len(rights.keys), 'pattern')} of keys"
        yield fine(f"user {name} has all rights of a {role}: {has}")


def form_of(command: str, key: str, channel: str = _WILD) -> list[str]:
    """*command*, as an ACL writes it, with arguments, on *key* or *channel*."""
    places = {"@": key, "&": channel}
    return [*command.split("|"), *(places.get(word, word) for word in _FORMS[command])]


def _lacking(rights: Rights, may: May, *, is_reader: bool) -> list[str]:
    """The words of ACL SETUSER that give what is missing. For a reader no key has to be writable."""
    keys = {pattern: pattern.replace("*", _WILD) for pattern in rights.keys}
    channels = {pattern: pattern.replace("*", _WILD) for pattern in rights.channels}
    has = [name for name in rights.commands if _may_anywhere(may, name, keys.values(), channels.values())]
    ways = [_READS] if is_reader else [_READS, _WRITES]
    return [
        *(f"~{pattern}" for pattern, key in keys.items() if not all(_reaches(may, has, one, key) for one in ways)),
        *(f"&{pattern}" for pattern, channel in channels.items() if not _reaches(may, has, _SPEAKS, channel)),
        *(f"+{name}" for name in rights.commands if name not in has),
    ]


def _reaches(may: May, has: Sequence[str], probes: Iterable[str], place: str) -> bool:
    """Return True if the first of *probes* that the user *has* is allowed at *place*; False without such a probe."""
    probe = next((command for command in probes if command in has), None)
    return probe is not None and may(*form_of(probe, place, place))


def _may_anywhere(may: May, command: str, keys: Iterable[str], channels: Iterable[str]) -> bool:
    """Return True if *command* is allowed on any of them."""
    form = _FORMS[command]
    if "&" in form:
        return any(may(*form_of(command, "", channel)) for channel in channels)
    return any(may(*form_of(command, key)) for key in (keys if "@" in form else [""]))


# -- asking without doing anything -------------------------------------------------------------------

_MAY: Final = "return redis.acl_check_cmd(unpack(ARGV)) and 1 or 0"
_TRANSACTIONS: Final = ("MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH")  # done at once in a rehearsal, not queued


@contextmanager
def _asking(probe: Probe) -> Iterator[May]:
    """
    Yield a function that asks for the rights of the probe's user. It has a connection of its own, as nobody else may
    come into a transaction.

    Raises:
        RedisRefused: no way to ask is allowed.
    """
    with closing(probe.link.open()) as wire:
        if probe.user is not None:
            yield lambda *command: bool(wire.execute("ACL", "DRYRUN", probe.user, *command) == b"OK")
        elif probe.release >= (7,) and (may := _by_script(wire)) is not None:
            yield may
        else:
            wire.execute("MULTI")
            yield rehearsed(wire)
            wire.execute("DISCARD")


def _by_script(wire: Wire) -> May | None:
    """Ask by a script; None: its user may not run scripts."""
    try:
        sha = wire.execute("SCRIPT", "LOAD", _MAY)
        wire.execute("EVALSHA", sha, 0, "PING")
    except RedisRefused as error:
        if is_denied(error):
            return None
        raise
    return lambda *command: bool(wire.execute("EVALSHA", sha, 0, *command))


def rehearsed(wire: Wire) -> May:
    """Ask in a transaction of *wire* that is never executed; if it is lost, Redis drops what was queued."""

    def may(*command: str) -> bool:
        if command[0].upper() in _TRANSACTIONS:
            return True  # MULTI was allowed, and more cannot be known
        try:
            wire.execute(*command)
        except RedisRefused as error:
            return not is_denied(error)  # Redis looks at rights first, and then whether it is out of memory, say
        return True

    return may
