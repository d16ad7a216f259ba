"""
An archive's file: its permissions, its lock, its opening, and the meaning of its errors.

One process writes it, guarded by a lock on ``<path>.lock``. The lock file has the id of that process. A
lock on the file itself would be lost whenever any code in the process closed it (fcntl(2), "record locks"). Only its
owner may read it (0600 in a folder 0700), because it has payloads. A file that is a symbolic link, belongs to another
user, or is open to others is refused: SQLite gives its write-ahead log the modes of the file. A file with a second name
(a hard link) is refused, too, because each name would have its own lock and write-ahead log. The same is true of the
lock file, which is checked before it is written. A folder that others may write is reported. Folders may be links: they
are resolved for file and lock, so that two paths of one file have one lock.
"""

import errno
import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Final

from zsched.archive.schema import APPLICATION_ID, VERSION, create
from zsched.errors import ArchiveCorrupt, ArchiveError, ArchiveFailed, ArchiveForeign, ArchiveInUse

_PAGE_BYTES: Final = 8192
# The page cache at most, and while it follows a backlog: random ids change pages of all of the state, and 24 MiB for a
# million take half as long again (measured). Every page of a cache was used before.
_CACHE_KIB, _BUSY_CACHE_KIB = 24_576, 122_880
_CHECKPOINT_PAGES: Final = 2000  # of the write-ahead log, before it is moved into the file: 16 MiB
_CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH)
# More codes while a file is opened or checked: SQLite does not know its format, or its content is missing.
CORRUPT_AT_OPEN: Final = (*_CORRUPT, sqlite3.SQLITE_ERROR)
_FLEETING: Final = ("overlay", "ramfs", "tmpfs")  # file systems of containers' layers, and of memory
_PARTS: Final = ("", "-wal", "-shm")  # of one database


class Lock:
    """The right to write the archive at *path*, until ``release`` or the process's end."""

    def __init__(self, path: Path) -> None:
        """
        Take the right, and note this process in the lock file.

        Raises:
            ArchiveInUse: another process has it. ArchiveError, ArchiveFailed: folder or file cannot be created.
        """
        lock_path = path.parent.resolve() / f"{path.name}.lock"
        with converted(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = _own_file(lock_path, os.O_CREAT)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = os.read(self._fd, 32).decode(errors="replace").strip() or "another process"
            os.close(self._fd)
            remedy = "give each daemon an [archive] path of its own"
            raise ArchiveInUse(f"archive {path} is in use by process {who}; {remedy}") from error
        with suppress(OSError):  # on a full disk the lock is held, but without a number
            os.truncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release it; a second call does nothing. The file stays: without it two processes could have the lock."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def connect_to_write(path: Path, namespace: str, *, leaves_traces: bool = True) -> sqlite3.Connection:
    """
    Open the database at *path* for its writer; create it if missing. Without *leaves_traces*, deleted data is
    overwritten.

    Raises:
        ArchiveForeign: another namespace's, another version's, or not an archive.
        ArchiveCorrupt, ArchiveFailed, ArchiveError.
    """
    with converted(path, CORRUPT_AT_OPEN):
        for part in _PARTS:  # create the file if missing; check that only this user may use it and its parts
            with suppress(FileNotFoundError):
                os.close(_own_file(path.with_name(path.name + part), 0 if part else os.O_CREAT))
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            is_new = not _is_archive(db, path)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA secure_delete = {'OFF' if leaves_traces else 'ON'}")
            size_cache(db, is_busy=False)
            db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            if is_new:
                create(db)
            _check_namespace(db, path, namespace)
        except BaseException:
            db.close()
            raise
        return db


def size_cache(db: sqlite3.Connection, *, is_busy: bool) -> None:
    """Set the most that the page cache of *db* has. What is above it is freed."""
    db.execute(f"PRAGMA cache_size = -{_BUSY_CACHE_KIB if is_busy else _CACHE_KIB}")


def _own_file(path: Path, flags: int) -> int:
    """
    Open the file at *path* to write, with more *flags*, and return its descriptor, if only this user may use it.

    Raises:
        ArchiveError: others may use it. OSError.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            problem = "it is a symbolic link; give [archive] path where the file itself is"
            raise ArchiveError(f"archive {path}: {problem}") from error
        raise
    if objection := _objection(os.fstat(fd), quote(str(path))):
        os.close(fd)
        raise ArchiveError(f"archive {path}: {objection}")
    return fd


def _objection(found: os.stat_result, quoted: str) -> str:
    """Return why others may use the file *found*, and the remedy; "" if only this user may. *quoted*: its path."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a file; give [archive] path where a file can be made"
    if found.st_nlink > 1:
        remedy = f"make it a file of its own: mv {quoted} {quoted}.old; cp {quoted}.old {quoted}; chmod 600 {quoted}"
        return f"it has another name (a hard link); {remedy}"
    if found.st_uid != os.geteuid():
        owner = f"its owner is the user with number {found.st_uid}"
        return f"{owner}; run as that user, or chown {os.geteuid()} {quoted}"
    if found.st_mode & 0o077:
        return f"others may use it ({found.st_mode & 0o777:04o}), and an archive has payloads; chmod 600 {quoted}"
    return ""


def open_to_others(path: Path) -> str:
    """Return why others may put files beside the archive at *path*, and the remedy; "" if they may not."""
    folder = path.parent.resolve()
    found = folder.stat()
    writers = stat.S_IWOTH | (stat.S_IWGRP if found.st_gid != os.getegid() else 0)
    if not found.st_mode & writers or found.st_mode & stat.S_ISVTX:  # sticky: others cannot rename its files
        return ""
    problem = f"others may write into its folder ({stat.S_IMODE(found.st_mode):04o}), and put files in its place"
    return f"{problem}; chmod go-w {quote(str(folder))}"


@cache
def fleeting_disk(folder: Path) -> str:
    """Return the kind of *folder*'s file system if it ends with its container or machine; else ""."""
    device = os.stat(folder).st_dev
    for line in Path("/proc/self/mountinfo").read_text().splitlines():  # proc(5)
        mount, _, source = line.partition(" - ")
        if mount.split()[2] == f"{os.major(device)}:{os.minor(device)}" and source.split()[0] in _FLEETING:
            return source.split()[0]
    return ""


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open the database at *path* for a reader beside its writer. Raises as ``connect_to_write``."""
    with converted(path):
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        db.execute("PRAGMA query_only = ON")
        return db


def check_file(db: sqlite3.Connection, path: Path, namespace: str) -> None:
    """
    Check that *db* is an archive of *namespace* of this version.

    Raises:
        ArchiveForeign, ArchiveCorrupt, ArchiveFailed.
    """
    with converted(path, CORRUPT_AT_OPEN):
        if not _is_archive(db, path):
            raise ArchiveForeign(f"{path} is not an archive")
        _check_namespace(db, path, namespace)


def identity(path: Path) -> tuple[int, int]:
    """Return the identity of the file at *path*: SQLite keeps writing to a file that was deleted or moved."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def set_aside(path: Path, why: str, at: str) -> Path:
    """
    Rename the file and its parts to ``<path>.<why>-<at>``, so that a new one can be created.

    Raises:
        ArchiveFailed, ArchiveError: it cannot be renamed.
    """
    kept = path.with_name(f"{path.name}.{why}-{at}")
    with converted(path):
        for part in reversed(_PARTS):
            source = path.with_name(path.name + part)
            if source.exists():
                source.rename(kept.with_name(kept.name + part))
    return kept


@contextmanager
def converted(path: Path, corrupt: tuple[int, ...] = _CORRUPT) -> Iterator[None]:
    """Convert SQLite's and the system's errors: to ArchiveCorrupt for the codes *corrupt*, else to ArchiveFailed."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF  # the primary one
        is_no_text = not code and isinstance(error, sqlite3.OperationalError)  # Python's error for invalid text
        if code in corrupt or is_no_text:
            raise ArchiveCorrupt(f"archive {path}: {error}") from error
        raise ArchiveFailed(f"archive {path}: {error}") from error
    except UnicodeDecodeError as error:  # in a name or message from SQLite with content of the file
        raise ArchiveCorrupt(f"archive {path}: {error}") from error
    except (PermissionError, NotADirectoryError, FileExistsError, IsADirectoryError) as error:
        raise ArchiveError(
            f"archive {path}: {error.strerror}; give [archive] path where this user may write"
        ) from error
    except OSError as error:
        raise ArchiveFailed(f"archive {path}: {error.strerror or error}") from error


def _is_archive(db: sqlite3.Connection, path: Path) -> bool:
    """Return True if *db* is an archive of this version, False if empty. Raises ArchiveForeign, ArchiveCorrupt."""
    names = "application_id", "user_version"
    application, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    if application == APPLICATION_ID:
        if version < 1:
            raise ArchiveCorrupt(f"archive {path} is of version {version}, which does not exist")
        if version > VERSION:
            raise ArchiveForeign(
                f"archive {path} is of version {version}, this zsched reads up to {VERSION}; upgrade it"
            )
        if version < VERSION:
            remedy = f"move it away: mv {quote(str(path))} {quote(str(path))}.old; a daemon begins another"
            raise ArchiveForeign(
                f"archive {path} is of the older version {version}, this zsched reads {VERSION}; {remedy}"
            )
        return True
    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] or application:
        raise ArchiveForeign(f"{path} is a database of something else; give another [archive] path")
    return False


def _check_namespace(db: sqlite3.Connection, path: Path, namespace: str) -> None:
    found = db.execute("SELECT value FROM fact WHERE name = 'namespace'").fetchone()
    if found is not None and found[0] != namespace:
        raise ArchiveForeign(
            f"archive {path} is of namespace {found[0]!r}, not of {namespace!r}; give another [archive] path"
        )
