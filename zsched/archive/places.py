"""
Places of archives when no path is configured, and the choice of those that belong to the data set in a Redis.

The state folder has a folder for each data set, ``<namespace>-<address>``. It has a file for each daemon of this
machine, ``1.db``, ``2.db``, …: a daemon takes the first one that no other process uses. A folder's name is the address
that it was created for. The archives in it record which data sets they followed:

1. An archive followed the name of the Redis (``meta.gen``): its folder is used, for any address. The log then shows
   whether this Redis is a copy (``daemon.own_archive``).
2. No archive followed the name of the Redis, and all archives of its address followed others: refused. This is another
   data set, and only an operator can know which is wrong.
3. Otherwise the folder of this address is used, since Redis was flushed or is new; without one, a new folder.

A configured path is checked by the same rules.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from errno import EACCES
from pathlib import Path
from shlex import quote
from typing import Final

from zsched.archive import body
from zsched.archive.check import stored_facts
from zsched.archive.file import connect_to_read, converted
from zsched.core.entry import Position
from zsched.core.recovery.difference import is_same_set
from zsched.errors import ArchiveError, ArchiveFailed, ArchiveOfAnother

_INSTANCES: Final = 16  # daemons of one namespace and user on one machine without a configured path
_LONGEST: Final = 100  # characters of a folder's name; most file systems take 255
_NOWHERE: Final = Position(0, 0, -1)


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """
    Facts of the archive at *path*. ``gens``: names of the data sets that it followed. ``address``: the Redis that it
    was created for, or None. ``position``: its last entry.
    """

    path: Path
    namespace: str
    gens: Sequence[str]
    address: str | None
    position: Position | None

    def objection(self, gen: str | None, address: str) -> str | None:
        """Return why it is not of the data set at *address* with the names *gen* (None: no name); None if it is."""
        if not is_same_set(gen, self.gens):
            names = ", ".join(self.gens)
            return f"archive {self.path} followed the data set {names}, and the Redis at {address} is {gen}"
        is_named, is_empty = gen is not None and bool(self.gens), not self.gens and self.position is None
        if is_named or is_empty or self.address in (None, address):
            return None
        there = f"the data set of the Redis at {address} has {'another name' if gen else 'no name'}"
        return f"archive {self.path} was made for the Redis at {self.address}, and {there}"


def facts_at(path: Path) -> ArchiveFacts | None:
    """Return the facts of the archive at *path*; None if it cannot be read or has none."""
    with suppress(ArchiveError, ValueError, KeyError, TypeError), closing(connect_to_read(path)) as db:
        with converted(path):
            facts = stored_facts(db, path)
        gens, address = str(facts.get("gens", "")).split(), facts.get("address")
        return ArchiveFacts(path, str(facts["namespace"]), gens, address, body.position_of(facts.get("position")))
    return None


def state_folder(environment: Mapping[str, str]) -> Path:
    """
    Return systemd's STATE_DIRECTORY, else ``$XDG_STATE_HOME/zsched`` (``~/.local/state``).

    Raises:
        ArchiveError: there is none of them, and this user has no home directory.
    """
    if state := environment.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(state)
    if home := environment.get("XDG_STATE_HOME"):
        return Path(home, "zsched")
    try:
        return Path(environment.get("HOME") or Path.home(), ".local/state/zsched")
    except RuntimeError as error:  # no entry for this user id, as in some containers
        raise ArchiveError(
            f"archive: user id {os.getuid()} has no home directory; give [archive] path, or set STATE_DIRECTORY"
        ) from error


def archives_of(namespace: str, gen: str | None, address: str, environment: Mapping[str, str]) -> list[Path]:
    """
    Return the archives of the data set at *address* with the names *gen* (None: no name). Archives in the same folder
    that cannot be read are returned too.

    Raises:
        ArchiveOfAnother: the archives of its address followed other data sets.
    """
    folder = _folder_of(_found(namespace, environment), gen, address)
    paths = [] if folder is None else sorted(folder.glob("*.db"))
    return [path for path in paths if (facts := facts_at(path)) is None or facts.objection(gen, address) is None]


def paths_for(namespace: str, gen: str | None, address: str, environment: Mapping[str, str]) -> list[Path]:
    """
    Return the paths at which a daemon of the data set at *address* with the names *gen* (None: no name) may keep its
    archive. They are in one folder, in the order in which to try them: the archive that knows most comes first, because
    a lost Redis is rebuilt from what this daemon has.

    Raises:
        ArchiveOfAnother: the archives of its address followed other data sets.
    """
    found = _found(namespace, environment)
    folder = _folder_of(found, gen, address) or _fresh(state_folder(environment), namespace, address, found)
    rank = {facts.path: n for n, facts in enumerate(found) if facts.objection(gen, address) is None}
    return sorted((folder / f"{n + 1}.db" for n in range(_INSTANCES)), key=lambda path: rank.get(path, len(found)))


def refused(objection: str, file: Path, away: Path) -> ArchiveOfAnother:
    """Return the error for an *objection* to the archive *file*, with the remedy. *away*: the path to move away."""
    recover = f"zsched archive recover --from {quote(str(file))}"
    return ArchiveOfAnother(
        f"{objection}; if that Redis was rebuilt or moved, {recover} puts what the archive knows into it (with --force "
        "while a daemon leads); if it is another one, give this daemon another [archive] path, "
        f"or move {quote(str(away))} away"
    )


def _found(namespace: str, environment: Mapping[str, str]) -> list[ArchiveFacts]:
    """Return the facts of all archives of *namespace* below the state folder, the newest archive first."""
    paths = state_folder(environment).glob(f"{namespace}-*/*.db")
    found = [facts for path in paths if (facts := facts_at(path)) is not None and facts.namespace == namespace]
    return sorted(found, key=lambda facts: (-(facts.position or _NOWHERE).t_us, facts.path))


def _folder_of(found: Sequence[ArchiveFacts], gen: str | None, address: str) -> Path | None:
    """Return the folder of the data set, or None if there is none. Raises ArchiveOfAnother."""
    for facts in found:
        if gen is not None and facts.gens and is_same_set(gen, facts.gens):
            return facts.path.parent
    here = [facts for facts in found if facts.address == address]
    if fitting := [facts for facts in here if facts.objection(gen, address) is None]:
        return fitting[0].path.parent
    if here:
        raise refused(here[0].objection(gen, address) or "", here[0].path, here[0].path.parent)
    return None


def _fresh(state: Path, namespace: str, address: str, found: Sequence[ArchiveFacts]) -> Path:
    """Return a folder named after *address* that has no archive of another address."""
    name = re.sub(r"[^A-Za-z0-9.]+", "-", address).strip("-")
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST - 9]}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
    taken = {facts.path.parent for facts in found if facts.address not in (None, address)}
    number, folder = 1, state / f"{namespace}-{name}"
    while folder in taken:
        number += 1
        folder = state / f"{namespace}-{name}-{number}"
    return folder


def demand_folder(folder: Path) -> None:
    """
    Create *folder*, and check that archives can be created in it. Disk errors are ignored here: they may be temporary.

    Raises:
        ArchiveError: this user has no permission.
    """
    with suppress(ArchiveFailed), converted(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
