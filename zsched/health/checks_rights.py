"""
Checks of rights: has a user all rights that its process needs, and do the rights of users hold?

``storage/rights`` reads the needs from the scripts.
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

Users are to be isolated on one Redis (its Lua sandbox, its databases), and on one machine (password files). Redis
restricts a script to the rights of its caller, and ``deploy/redis/users.acl`` relies on that. But one Lua interpreter
runs the scripts of all users. If a script can change a table that all of them share, it puts its own code into the
scripts of others, and that code runs with their rights (CVE-2025-46818, measured on 6.2.14). The sandbox itself is
tried: a script sets a shared field to the value that the field has. A patched server refuses that. So a distribution's
backport (Debian 12's 7.0.15) is judged by its behaviour. Databases do not isolate users: an ACL restricts keys and
commands, in the same way in each database.

Not guaranteed: that a server with an intact sandbox is safe from scripts. CVE-2025-49844, a use after free that lets a
script run code in the server, cannot be detected. The same releases fixed both. Other databases are searched only for
keys of the namespace and of RQ, which the same users may write.
"""

import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from zsched.config.reading import read_file, read_toml
from zsched.config.settings import Settings
from zsched.config.urls import SentinelUrl, has_password, is_sentinel_url
from zsched.core.wording import plural, some
from zsched.errors import RedisRefused, RedisUnavailable
from zsched.health.facts import Finding, Probe, fine, health_check, problem, skipped, warning
from zsched.storage.connection import Wire
from zsched.storage.jobs import is_denied
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
def check_rights(probe: Probe) -> Finding:
    """Check that the probe's user may use the commands, keys and channels of its roles."""
    if probe.server.is_replica:
        return skipped("rights are checked only at the master")
    if probe.user is not None and probe.server.release < (7,):
        return skipped("before Redis 7, no user can query the rights of another", "run zsched doctor as that user")
    rights, name = rights_of(probe.roles, probe.keys), probe.user or probe.own_user
    role = " and the role ".join(probe.roles)
    try:
        if probe.user is not None and probe.ask("ACL", "GETUSER", probe.user) is None:
            remedy = "zsched files users.acl prints one of each role; who there is"
            return problem(f"there is no user {name}", remedy, "redis-cli", "ACL", "USERS")
        with _asking(probe) as may:
            rule = _lacking(rights, may)
    except RedisUnavailable as error:  # such as a rehearsal at a server that takes no writes
        return skipped(str(error))
    except RedisRefused as error:
        if not is_denied(error):
            raise
        said = f"user {name} may not query its own rights: {error.__cause__}"
        return skipped(said, _HOW[probe.server.release >= (7,)])
    if rule:
        said = f"user {name} lacks rights of the role {role}: scripts would fail, some of them halfway"
        return problem(said, "in the ACL file, and at once", *("redis-cli", "ACL", "SETUSER", name, *rule))
    has = f"{plural(len(rights.commands), 'command')} and {plural(len(rights.keys), 'pattern')} of keys"
    return fine(f"user {name} has all rights of the role {role}: {has}")


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


# -- isolation ----------------------------------------------------------------------------------------


_DATABASES: Final = 100  # checked at most

# Each field belongs to a table that all scripts share; it gets the value that it has.
_TRIES: Final = """
local function takes(shared, field)
  return (pcall(function() shared[field] = shared[field] end))
end
local is_open = takes(getmetatable(''), '__index') or takes(string, 'format') or takes(redis, 'call')
return is_open and 1 or 0
"""


@health_check("sandbox", Probe)
def check_sandbox(probe: Probe) -> Finding:
    """Try to change a table that all scripts share."""
    try:
        sha = probe.ask("SCRIPT", "LOAD", _TRIES)
        is_open = probe.ask("EVALSHA", sha, 0) == 1
    except RedisRefused:
        return skipped(
            f"user {probe.own_user} may not run the script that tests this", "ask as a user who may run scripts"
        )
    if not is_open:
        return fine("scripts cannot change what other users' scripts do")
    # Without users of their own all clients may do everything, so there is no wall to break.
    said = problem if probe.own_user != "default" else warning
    return said(
        f"{probe.server.product} lets a script change what other users' scripts do (CVE-2025-46818): "
        "users.acl does not restrict a user who may run scripts",
        "upgrade to a release of Redis or Valkey of October 2025 or later, or to your distribution's security update "
        "(Redis 7.0 has no other)",
    )


@health_check("databases", Probe)
def check_databases(probe: Probe) -> Finding:
    """Look in the other databases for keys that users of this one may write."""
    if probe.server.is_in_cluster:
        return fine("a Redis Cluster has no other database")
    if probe.own_user == "default":
        return fine("the connection has no user of its own: every such client may write in every database")
    database = int(probe.link.pool.connection_kwargs.get("db") or 0)
    others = sorted(n for n in map(int, re.findall(r"(?m)^db(\d+)$", "\n".join(probe.server.info))) if n != database)
    named = (probe.keys.meta(), probe.keys.rq.queues())
    shared, unknown = list[str](), list[str]()
    with closing(probe.link.open()) as wire:
        for number in others[:_DATABASES]:
            found = wire.replies([("SELECT", number), *(("EXISTS", key) for key in named)])
            if 1 in found:
                shared.append(str(number))
            elif any(isinstance(reply, RedisRefused) for reply in found):
                unknown.append(str(number))
    if shared:
        return warning(
            f"RQ or this namespace is also in database {some(shared)}, and users are not limited to one: "
            f"who may write in database {database} may write there",
            "give each its own Redis; Redis databases prevent accidents, not attacks",
        )
    elif unknown:
        return skipped(f"this user may not look into database {some(unknown)}", "ask as the operator of users.acl")
    return fine("no other database has RQ or this namespace in it")


# -- files of passwords ------------------------------------------------------------------------------
_READERS: Final = {stat.S_IRGRP: "its group", stat.S_IROTH: "every user of this machine"}
_MOVE: Final = "write the password into a file of its own, [redis] password_file, with mode 600"


@health_check("passwords", Probe)
def check_passwords(probe: Probe) -> Iterator[Finding]:
    """Look at the modes of password files, and of a configuration file with a password in it."""
    seen, is_fine = 0, True
    for setting, file, remedy in _files(probe.settings, probe.config_file):
        try:
            mode = _mode(Path(file))
        except OSError as error:
            is_fine = False
            yield skipped(f"{setting} {file}: {error.strerror}", "ask as the user who reads it")
            continue
        seen += 1
        if readers := [who for bit, who in _READERS.items() if mode & bit]:
            is_fine = False
            yield warning(f"{setting} {file} has a password, and {' and '.join(readers)} may read it", remedy)
    if is_fine:
        owners = f"only the owner may read {'it' if seen == 1 else 'them'}"
        yield fine(f"{plural(seen, 'file')} with a password: {owners}" if seen else "no file with a password is named")


def _files(settings: Settings, config_file: str | None) -> Iterator[tuple[str, str, str]]:
    """Yield the setting that names a file with a password, that file, and what to do if others may read it."""
    url, named = settings.redis.url, {"[redis] password_file": settings.redis.password_file}
    if is_sentinel_url(url):
        named["[redis] sentinel_password_file"] = SentinelUrl.parse(url).options.get("sentinel_password_file")
    for setting, file in named.items():
        if file is not None:
            yield setting, file, f"chmod 600 {shlex.quote(file)}"
    if config_file is not None:
        written = read_toml(read_file(Path(config_file)).decode())
        if has_password(str(written.get("redis", {}).get("url", ""))):
            yield "the configuration file", config_file, _MOVE


def _mode(file: Path) -> int:
    """Return the mode of *file*, without rights that the mode of its folder makes useless."""
    target = file.resolve(strict=True)
    mode, folder = target.stat().st_mode, target.parent.stat().st_mode
    for enters, reads in ((stat.S_IXGRP, stat.S_IRGRP), (stat.S_IXOTH, stat.S_IROTH)):
        mode &= ~0 if folder & enters else ~reads
    return mode
