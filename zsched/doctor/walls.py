"""
Checks of the walls between the users of one Redis: its Lua sandbox, and its databases.

Redis holds a script to the rights of its caller, and ``deploy/redis/users.acl`` relies on that. But one Lua interpreter
runs the scripts of all users. If a script can change a table that all of them share, it puts its own code into the
scripts of others, and that code runs with their rights (CVE-2025-46818, measured on 6.2.14).

The sandbox itself is tried first: a script sets a shared field to the value that the field has. A patched server
refuses that. So a distribution's backport (Debian 12's 7.0.15) is judged by what it does. The version decides only
where the user may not run scripts.

Databases are no wall: an ACL knows keys and commands, and holds in each database alike.

Not guaranteed: that a server whose sandbox holds is safe from scripts. Nobody can see CVE-2025-49844, a use after free
that lets a script run code in the server. The same releases fixed both. Databases are looked at for the namespace's own
keys and RQ's, which the same users may write, and for no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

from zsched.core.wording import some
from zsched.doctor.finding import Finding, fine, problem, skipped, warning
from zsched.doctor.patient import Patient, user_of
from zsched.errors import RedisRefused
from zsched.storage.replies import replies

# The first patched release of each series (Redis of 3 October 2025; Valkey of the same day). A series that is missing
# has none (Redis 7.0), unless it is later than the last one here.
PATCHED_REDIS: Final = {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2}
PATCHED_VALKEY: Final = {(7, 2): 11, (8, 0): 6, (8, 1): 4}

_DATABASES: Final = 100  # checked at most

# Each field belongs to a table that all scripts share; it gets the value that it has.
_TRIES: Final = """
local function takes(shared, field)
  return (pcall(function() shared[field] = shared[field] end))
end
local is_open = takes(getmetatable(''), '__index') or takes(string, 'format') or takes(redis, 'call')
return is_open and 1 or 0
"""


def look_at_sandbox(patient: Patient) -> Iterator[Finding]:
    """Try to change what all scripts share; without the right to run scripts, go by the version."""
    holds, is_patched = _holds(patient), _is_patched(patient)
    if holds is False:
        # Without users of their own all clients may do everything, so there is no wall to break.
        told = problem if user_of(patient) != "default" else warning
        yield told(
            f"{patient.product} lets a script change what other users' scripts do (CVE-2025-46818): "
            "users.acl does not hold back a user who may run scripts",
            _remedy(),
        )
    elif holds is None and not is_patched:
        yield warning(
            f"{patient.product} may be older than the fixes of its Lua sandbox (CVE-2025-46818, CVE-2025-49844), "
            f"and user {user_of(patient)} may not run the script that tells",
            f"{_remedy()}; or ask as a user who may run scripts",
        )
    elif holds is None:
        yield fine(f"{patient.product} has the fixes of the Lua sandbox, by its version")
    else:
        how = "" if is_patched else f"; {patient.product} has the fixes by a backport"
        yield fine(f"scripts cannot change what other users' scripts do{how}")


def look_at_databases(patient: Patient) -> Iterator[Finding]:
    """Look in the other databases for keys that users of this one may write."""
    if user_of(patient) == "default":
        yield fine("the connection has no user of its own: every such client may write in every database")
        return
    mine = int(patient.link.pool.connection_kwargs.get("db") or 0)
    others = sorted(n for n in map(int, re.findall(r"(?m)^db(\d+)$", "\n".join(patient.info))) if n != mine)
    told_by = (patient.keys.meta(), patient.keys.rq_queues())
    shared, unknown = list[str](), list[str]()
    with closing(patient.link.open()) as wire:
        for number in others[:_DATABASES]:
            told = replies(wire, [("SELECT", number), *(("EXISTS", key) for key in told_by)])
            if 1 in told:
                shared.append(str(number))
            elif any(isinstance(reply, RedisRefused) for reply in told):
                unknown.append(str(number))
    if shared:
        yield warning(
            f"RQ or this namespace is also in database {some(shared)}, and users are not held to one: "
            f"who may write in database {mine} may write there",
            "give each its own Redis; databases keep apart who connects by mistake, not who wants to",
        )
    elif unknown:
        yield skipped(f"this user may not look into database {some(unknown)}", "ask as the operator of users.acl")
    else:
        yield fine("no other database has RQ or this namespace in it")


def _holds(patient: Patient) -> bool | None:
    """Return True if the server refuses the change, None if this user may not try."""
    try:
        sha = patient.ask("SCRIPT", "LOAD", _TRIES)
        return bool(patient.ask("EVALSHA", sha, 0) == 0)
    except RedisRefused:
        return None


def _is_patched(patient: Patient) -> bool:
    """Compare the version with the first patched release of its series."""
    valkey = patient.info.get("valkey_version")
    told, first = (valkey, PATCHED_VALKEY) if valkey else (patient.info.get("redis_version", ""), PATCHED_REDIS)
    parts = told.split(".")[:3]
    if len(parts) < 3 or not all(map(str.isdecimal, parts)):
        return False
    major, minor, patch = map(int, parts)
    if (major, minor) > max(first):
        return True
    return (major, minor) in first and patch >= first[major, minor]


def _remedy() -> str:
    redis, valkey = map(releases, (PATCHED_REDIS, PATCHED_VALKEY))
    return (
        f"upgrade to Redis {redis} or later, to Valkey {valkey} or later, or to your distribution's security update "
        "(7.0 has no other)"
    )


def releases(first: Mapping[tuple[int, int], int]) -> str:
    """Write the first patched releases as people do: "7.2.11, 8.0.6, 8.1.4"."""
    return ", ".join(f"{major}.{minor}.{patch}" for (major, minor), patch in first.items())
