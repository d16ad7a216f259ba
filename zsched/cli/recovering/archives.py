"""Find and read archive files in a command, while daemons may write them."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Final

from zsched.archive import START, History, Recall, recalling
from zsched.archive.places import ArchiveFacts, archives_of, facts_at, state_folder
from zsched.config.settings import Settings
from zsched.config.urls import address_of
from zsched.core.clock import SystemClock
from zsched.core.entry import Position
from zsched.core.story.sentences import local_text
from zsched.errors import ArchiveCorrupt, ArchiveError, ArchiveForeign, NotFound, ZschedError

_REMEDY: Final = "it cannot be trusted; give another archive with --from FILE"
_LARGE_BYTES: Final = 64 << 20  # a larger file is announced before it is read: about a second


class NoArchive(NotFound):
    """There is no archive to read."""


@dataclass(frozen=True, slots=True)
class OpenedArchive(ArchiveFacts):
    """A verified archive: its facts, and its contents as ``recall``."""

    position: Position
    recall: Recall
    complete_since: str | None

    def text(self, tz: str) -> str:
        """Return a text with its file, its last entry and its first time; times in *tz*."""
        return f"{self.path}, {_extent(self.position, self.complete_since, tz)}"


def choose(
    settings: Settings, given: Path | None, gen: str | None, *, is_only_read: bool, say: Callable[[str], None]
) -> Path:
    """
    Choose the archive file: *given*, else the configured file, else a file that daemons of this Redis keep. *gen*: the
    names of the data set in Redis, or None. If several files end with the same log entry, any of them is chosen. If
    they differ and it *is_only_read*, the file with the latest entry is chosen and reported by *say*.

    Raises:
        NoArchive: there is no file. ArchiveError: there are several, or this user may not read them. ArchiveOfAnother:
        the archives of this address followed other data sets.
    """
    configured = given or (Path(settings.archive.path) if settings.archive.path else None)
    if configured is not None:
        if _is_there(configured):
            return configured
        name = "--from" if given else "[archive] path"
        remedy = "give --from FILE; zsched status says where daemons keep theirs"
        raise NoArchive(f"{name}={str(configured)!r}: there is no such file; {remedy}")
    address, folder = address_of(settings.redis.url), state_folder(os.environ)
    _is_there(folder)  # raises if this user may not read it
    if not (found := archives_of(settings.namespace, gen, address, os.environ)):
        where = f"{folder} has none of the Redis at {address}"
        remedy = "run as the daemon's user or root, or give --from FILE; zsched status says where daemons keep theirs"
        raise NoArchive(f"no archive of namespace {settings.namespace!r}: {where}; {remedy}")
    return found[0] if len(found) == 1 else _one_of(found, is_only_read=is_only_read, say=say)


def _one_of(found: Sequence[Path], *, is_only_read: bool, say: Callable[[str], None]) -> Path:
    known = {path: _end_of(path) for path in found}
    there_are = f"there are {len(found)} archives: " + "; ".join(f"{path}, {text}" for path, (_, text) in known.items())
    ends = {path: end for path, (end, _) in known.items() if end is not None}
    if len(ends) == len(found) and len(set(ends.values())) == 1:
        return found[0]
    if not is_only_read or not ends:
        raise ArchiveError(f"{there_are}; say which with --from FILE")
    furthest = max(ends, key=lambda path: (ends[path].t_us, ends[path].order))
    say(f"{there_are}; this uses {furthest}, the latest: --from FILE takes another one")
    return furthest


@contextmanager
def opened_archive(path: Path, namespace: str, say: Callable[[str], None]) -> Iterator[OpenedArchive]:
    """Verify all checksums of the archive at *path*, then open it. Raises ArchiveError."""
    size = sum(part.stat().st_size for part in (path, path.with_name(f"{path.name}-wal")) if part.exists())
    if size >= _LARGE_BYTES:
        say(f"reading {path} ({size >> 20:,} MiB) and comparing its checksums")
    try:
        with ExitStack() as opened:
            try:
                known = _known(path, *opened.enter_context(recalling(path, namespace, SystemClock())))
            except ArchiveForeign as error:
                raise _other_namespace(path, namespace, error) from error
            except (ValueError, KeyError, TypeError, AttributeError) as error:  # a recorded fact is invalid
                raise ArchiveCorrupt(f"archive {path}: its metadata is corrupted") from error
            yield known
    except ArchiveCorrupt as error:
        raise ArchiveCorrupt(f"{_named(path, error)}; {_REMEDY}") from error


def _known(path: Path, recall: Recall, facts: dict[str, Any]) -> OpenedArchive:
    if "position" not in facts:
        problem = "it has no data of Redis yet; its daemon is about to read it"
        raise ArchiveError(f"archive {path}: {problem}; give another one with --from FILE")
    gens, address = tuple(str(facts.get("gens", "")).split()), facts.get("address")
    position = Position.parse(facts["position"])
    return OpenedArchive(path, facts["namespace"], gens, address, position, recall, facts.get("complete_since"))


def _named(path: Path, error: Exception) -> str:
    """Return the message of *error* with the file's name: a checksum error names only the row."""
    return str(error) if str(path) in str(error) else f"archive {path}: {error}"


def _other_namespace(path: Path, namespace: str, error: ArchiveForeign) -> ArchiveError:
    """Return *error*, with the command to run if the archive is of another namespace."""
    facts = facts_at(path)
    if facts is None or facts.namespace == namespace:
        return error
    found = facts.namespace
    remedy = f"run zsched archive recover -n {quote(found)} --from {quote(str(path))}, or give another file with --from"
    return ArchiveForeign(f"archive {path} is of namespace {found!r}, not of {namespace!r}; {remedy}")


def _end_of(path: Path) -> tuple[Position | None, str]:
    """Return the last log entry of the archive at *path*, None if it is empty or cannot be read; and a text with it."""
    try:
        with History(path) as history:
            return history.position, _extent(history.position, history.complete_since)
    except (ZschedError, KeyError, ValueError) as error:
        return None, f"which cannot be read ({error})"


def _extent(position: Position | None, complete_since: str | None, tz: str = "UTC") -> str:
    """Return a text with an archive's last entry and its first time."""
    if position is None:
        return "empty"
    last = f"up to log entry {entry_text(position, tz)}"
    if complete_since is None or not (complete_since == START or complete_since.isdigit()):
        return last
    since = "the beginning" if complete_since == START else local_text(int(complete_since) // 1000, tz)
    return f"{last}, complete since {since}"


def entry_text(position: Position | None, tz: str = "UTC") -> str:
    """Return the id of the entry at *position*, and the time at which it was written."""
    return "nothing" if position is None else f"{position.id} of {local_text(position.t_us // 1000, tz, has_ms=True)}"


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError as error:
        raise ArchiveError(f"archive {path}: this user may not read it; run as the daemon's user or root") from error
