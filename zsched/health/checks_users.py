"""
Checks of the isolation of users: on one Redis (its Lua sandbox, its databases), and on one machine (password files).

Redis restricts a script to the rights of its caller, and ``deploy/redis/users.acl`` relies on that. But one Lua
interpreter runs the scripts of all users. If a script can change a table that all of them share, it puts its own code
into the scripts of others, and that code runs with their rights (CVE-2025-46818, measured on 6.2.14).

The sandbox itself is tried: a script sets a shared field to the value that the field has. A patched server refuses
that. So a distribution's backport (Debian 12's 7.0.15) is judged by its behaviour.

Databases do not isolate users: an ACL restricts keys and commands, in the same way in each database.

Not guaranteed: that a server with an intact sandbox is safe from scripts. CVE-2025-49844, a use after free that lets a
script run code in the server, cannot be detected. The same releases fixed both. Other databases are searched only for
keys of the namespace and of RQ, which the same users may write.
"""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from zsched.config.reading import read_file, read_toml
from zsched.config.settings import Settings
from zsched.config.urls import SentinelUrl, has_password, is_sentinel_url
from zsched.core.wording import plural, some
from zsched.errors import RedisRefused
from zsched.health.check import Finding, fine, health_check, problem, skipped, warning
from zsched.health.facts import Probe

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
def check_sandbox(probe: Probe) -> Iterator[Finding]:
    """Try to change a table that all scripts share."""
    try:
        sha = probe.ask("SCRIPT", "LOAD", _TRIES)
        is_open = probe.ask("EVALSHA", sha, 0) == 1
    except RedisRefused:
        yield skipped(
            f"user {probe.own_user} may not run the script that tests this", "ask as a user who may run scripts"
        )
        return
    if not is_open:
        yield fine("scripts cannot change what other users' scripts do")
        return
    # Without users of their own all clients may do everything, so there is no wall to break.
    said = problem if probe.own_user != "default" else warning
    yield said(
        f"{probe.server.product} lets a script change what other users' scripts do (CVE-2025-46818): "
        "users.acl does not restrict a user who may run scripts",
        "upgrade to a release of Redis or Valkey of October 2025 or later, or to your distribution's security update "
        "(Redis 7.0 has no other)",
    )


@health_check("databases", Probe)
def check_databases(probe: Probe) -> Iterator[Finding]:
    """Look in the other databases for keys that users of this one may write."""
    if probe.server.is_in_cluster:
        yield fine("a Redis Cluster has no other database")
        return
    if probe.own_user == "default":
        yield fine("the connection has no user of its own: every such client may write in every database")
        return
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
        yield warning(
            f"RQ or this namespace is also in database {some(shared)}, and users are not limited to one: "
            f"who may write in database {database} may write there",
            "give each its own Redis; Redis databases prevent accidents, not attacks",
        )
    elif unknown:
        yield skipped(f"this user may not look into database {some(unknown)}", "ask as the operator of users.acl")
    else:
        yield fine("no other database has RQ or this namespace in it")


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
        readers = [who for bit, who in _READERS.items() if mode & bit]
        if readers:
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
