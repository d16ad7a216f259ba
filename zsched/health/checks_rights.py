"""
A check of rights: has a user all rights that its process needs? ``storage/rights`` reads the needs from the scripts.

A denied command stops a script in its middle, with half of its writes done. So all commands are checked before a daemon
needs them. Commands and keys are checked separately, because a user's commands apply to all of its keys. A command is
missing if it is denied on every kind of key. A kind of key is missing if it cannot be read or written.

Not guaranteed: users with selectors (Redis 7), whose commands apply to some of their keys only. They may lack a pair of
command and key that this check does not see. A key that a role only reads counts as missing for a user who may only
read it; zsched's roles have no such key.

There are three ways to ask Redis whether a user may run a command, without executing it:

by a script   Redis 7 and later report the rights of a script's caller to it; only the right to run scripts is needed.
rehearsed     Before Redis 7, commands are queued after MULTI, which checks each of them, and dropped by DISCARD.
ACL DRYRUN    reports another user's rights (7.0), if this user may call it.
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
from zsched.storage.rights import Rights, rights_of

May = Callable[..., bool]  # True if a command, given by its words, is allowed with these keys and channels

# Commands by the arguments of a well-formed call: @ is a key, & a channel. None of these calls is executed.
_ARGUMENTS: Final = {
    "": "client|info cluster|slots discard exec hello info multi ping role time unsubscribe unwatch",
    "@": "del exists get hgetall hkeys hlen hvals llen lpop memory|usage persist pttl scard smembers ttl type watch "
    "xlen zcard zpopmin zrandmember",
    "@ 1": "blpop expire hdel hexists hget hmget hscan lindex lpos lpush pexpire rpush sadd set sismember smismember "
    "srem sscan zmscore zrem zscan zscore",
    "@ 1 1": "hincrby hincrbyfloat hset hsetnx lrange lrem ltrim zadd zcount zrange zrangebyscore zremrangebyrank"
    " zremrangebyscore",
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
_READS: Final = ("hget", "hgetall")  # a key is readable if one of them is allowed
_WRITES: Final = ("hset", "del")
_SPEAKS: Final = ("publish", "subscribe")
_HOW: Final = {
    True: "ask as an administrator, with --user NAME",
    False: "give it +multi +discard, which are harmless: before Redis 7 only the user itself can query them",
}
_WILD: Final = "zsched-doctor"  # replaces the wildcard of a pattern


@health_check("rights", Probe)
def check_rights(probe: Probe) -> Iterator[Finding]:
    """Check that the probe's user may use the commands, keys and channels of its roles."""
    if probe.server.is_replica:
        yield skipped("rights are checked only at the master")
        return
    if probe.user is not None and probe.server.release < (7,):
        yield skipped("before Redis 7, no user can query the rights of another", "run zsched doctor as that user")
        return
    rights, name = rights_of(probe.roles, probe.keys), probe.user or probe.own_user
    role = " and the role ".join(probe.roles)
    try:
        if probe.user is not None and probe.ask("ACL", "GETUSER", probe.user) is None:
            remedy = "zsched files users.acl prints one of each role; who there is"
            yield problem(f"there is no user {name}", remedy, "redis-cli", "ACL", "USERS")
            return
        with _asking(probe) as may:
            rule = _lacking(rights, may)
    except RedisUnavailable as error:  # such as a rehearsal at a server that takes no writes
        yield skipped(str(error))
        return
    except RedisRefused as error:
        if not is_denied(error):
            raise
        said = f"user {name} may not query its own rights: {error.__cause__}"
        yield skipped(said, _HOW[probe.server.release >= (7,)])
        return
    if rule:
        said = f"user {name} lacks rights of the role {role}: scripts would fail, some of them halfway"
        yield problem(said, "in the ACL file, and at once", *("redis-cli", "ACL", "SETUSER", name, *rule))
    else:
        has = f"{plural(len(rights.commands), 'command')} and {plural(len(rights.keys), 'pattern')} of keys"
        yield fine(f"user {name} has all rights of the role {role}: {has}")


def form_of(command: str, key: str, channel: str = _WILD) -> list[str]:
    """Return *command*, as an ACL writes it, with arguments, on *key* or *channel*."""
    places = {"@": key, "&": channel}
    return [*command.split("|"), *(places.get(word, word) for word in _FORMS[command])]


def _lacking(rights: Rights, may: May) -> list[str]:
    """Return the words of ACL SETUSER for the missing rights."""
    keys = {pattern: pattern.replace("*", _WILD) for pattern in rights.keys}
    channels = {pattern: pattern.replace("*", _WILD) for pattern in rights.channels}
    has = [name for name in rights.commands if _may_anywhere(may, name, keys.values(), channels.values())]
    ways = (_READS, _WRITES)
    return [
        *(f"~{pattern}" for pattern, key in keys.items() if not all(_reaches(may, has, one, key) for one in ways)),
        *(f"&{pattern}" for pattern, channel in channels.items() if not _reaches(may, has, _SPEAKS, channel)),
        *(f"+{name}" for name in rights.commands if name not in has),
    ]


def _reaches(may: May, has: Sequence[str], probes: Iterable[str], place: str) -> bool:
    """Return True if the first of *probes* among the commands *has* is allowed at *place*; False if there is none."""
    probe = next((command for command in probes if command in has), None)
    return probe is not None and may(*form_of(probe, place, place))


def _may_anywhere(may: May, command: str, keys: Iterable[str], channels: Iterable[str]) -> bool:
    """Return True if *command* is allowed on one of *keys* or *channels*."""
    form = _FORMS[command]
    if "&" in form:
        return any(may(*form_of(command, "", channel)) for channel in channels)
    return any(may(*form_of(command, key)) for key in (keys if "@" in form else [""]))


# -- questions without execution ---------------------------------------------------------------------

_MAY: Final = "return redis.acl_check_cmd(unpack(ARGV)) and 1 or 0"
_TRANSACTIONS: Final = ("MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH")  # done at once in a rehearsal, not queued


@contextmanager
def _asking(probe: Probe) -> Iterator[May]:
    """
    Yield a function that asks for the rights of the probe's user. It has its own connection, since a transaction cannot
    be shared.

    Raises:
        RedisRefused: no way to ask is allowed.
    """
    with closing(probe.link.open()) as wire:
        if probe.user is not None:
            yield lambda *command: bool(wire.execute("ACL", "DRYRUN", probe.user, *command) == b"OK")
        elif probe.server.release >= (7,) and (may := _by_script(wire)) is not None:
            yield may
        else:
            wire.execute("MULTI")
            yield rehearsed(wire)
            wire.execute("DISCARD")


def _by_script(wire: Wire) -> May | None:
    """Return a function that asks by a script; None if its user may not run scripts."""
    try:
        sha = wire.execute("SCRIPT", "LOAD", _MAY)
        wire.execute("EVALSHA", sha, 0, "PING")
    except RedisRefused as error:
        if is_denied(error):
            return None
        raise
    return lambda *command: bool(wire.execute("EVALSHA", sha, 0, *command))


def rehearsed(wire: Wire) -> May:
    """Return a function that asks in a transaction of *wire* that is never executed. Redis drops a lost one."""

    def may(*command: str) -> bool:
        if command[0].upper() in _TRANSACTIONS:
            return True  # MULTI was allowed, and more cannot be known
        try:
            wire.execute(*command)
        except RedisRefused as error:
            return not is_denied(error)  # Redis checks rights first, and its memory, for example, later
        return True

    return may
