"""
Files that people give: read up to a bound, and parsed as TOML up to a depth.

A file may be a device or a pipe, as in ``zsched apply <(generate)``. So a reader stops behind the bound. It waits for
the end of a pipe, but not for the first writer of a named one. tomllib needs time and memory for the square of the
number of a key's parts: 20,000 parts, in 40 kB, took 18 s and 1.6 GB (measured). So they are counted first.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Generic, TypeVar

from zsched.errors import ConfigError

T = TypeVar("T")

MOST_BYTES: Final = 16 * 2**20  # of a file of schedules, a crontab or a backup
SMALL_BYTES: Final = 2**20  # of a file of settings, keys or a password
_MOST_PARTS: Final = 32  # of a key: a.b has two
_MOST_DOTS: Final = 200_000  # outside of texts; more would take minutes and gigabytes (measured)
_TEXTS: Final = re.compile(  # an unclosed one goes to its end, so that no text is looked at twice
    r'''"""(?:\\.|[^\\])*?(?:"""+|\Z)|\'\'\'.*?(?:\'\'\'+|\Z)|"(?:\\.|[^"\\\n])*+"?|'[^'\n]*+'?|\#[^\n]*+''', re.DOTALL
)
_MANY_PARTS: Final = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{_MOST_PARTS}}}", re.ASCII)

REDIS_CREDENTIAL = "redis-password"
SIGNING_CREDENTIAL = "zsched-signing-keys"


def open_file(file: str | os.PathLike[str]) -> IO[bytes]:
    """Open *file* to read its bytes. A named pipe without a writer is empty. Raises OSError, ValueError."""
    opened = open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))  # noqa: SIM115
    os.set_blocking(opened.fileno(), True)
    return opened


def bounded(opened: IO[bytes], most: int) -> bytes:
    """Return the rest of *opened*. Raises OSError: it has more than *most* bytes."""
    found = opened.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes; split it, or name another one")
    return found


def read_file(file: str | os.PathLike[str], most: int = SMALL_BYTES) -> bytes:
    """Return the content of *file*. Raises OSError: it cannot be read, or has more than *most* bytes. ValueError."""
    with open_file(file) as opened:
        return bounded(opened, most)


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read or parsed, for people."""
    return getattr(error, "strerror", None) or str(error)


def credential_file(env: Mapping[str, str], name: str) -> str | None:
    """Return the path of the credential *name*; None without one, or if it is blank."""
    file = Path(env.get("CREDENTIALS_DIRECTORY") or os.devnull, name)
    with suppress(OSError):
        return str(file) if read_file(file).strip() else None
    return None


def read_password_file(file: str, place: str, what: str = "the password") -> str:
    """
    Read *file*, without its line end. *place*: the setting that names it; *what* it has to contain.

    Raises:
        ConfigError: it cannot be read or is empty.
    """
    try:
        if not (password := read_file(os.path.expanduser(file)).decode().rstrip("\r\n")):
            raise ValueError("it is empty")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{place}={file!r}: {reason_of(error)}; write {what} into it") from error
    return password


def read_private(
    file: str, place: str, *, made_by: str, closed_by: str, owners: Collection[int], others: int = 0o077
) -> bytes:
    """
    Read a *file* of secrets, which *place* names in messages. *made_by*, *closed_by*: what makes such a file, and what
    ends the access of others to it. *owners*: the users who may own it; *others*: the bits of its mode that let others
    in.

    Raises:
        ConfigError: it cannot be read, others may read it, or another user owns it.
    """
    try:
        with open_file(file) as opened:
            status, content = os.fstat(opened.fileno()), bounded(opened, SMALL_BYTES)
    except (OSError, ValueError) as error:
        is_closed = isinstance(error, PermissionError)
        remedy = "let the user of this process own it" if is_closed else f"make one with: {made_by}"
        raise ConfigError(f"{place}: {reason_of(error)}; {remedy}") from error
    if (mode := stat.S_IMODE(status.st_mode)) & others:
        raise ConfigError(f"{place}: its mode is {mode:04o}: other users of this machine can read it; {closed_by}")
    if status.st_uid not in owners:
        problem = f"user {status.st_uid} owns it, and could write into it"
        raise ConfigError(f"{place}: {problem}; let root or the user of this process own it")
    return content


class Watched(Generic[T]):
    """A file that is read again when it has changed. ``problem``: why its last change is not used; or ""."""

    def __init__(self, file: str, read: Callable[[], T], content: T | None = None) -> None:
        """*read* returns the content of *file*, or raises ConfigError. *content*: until it can be read for once."""
        self._file, self._read, self._content = file, read, content
        self._seen: tuple[int, ...] | None = ()  # of the content; none was read yet
        self.problem = ""

    def current(self) -> T:
        """
        Return the content; if its last change cannot be used, that of before, and the next call reads it again. Raises
        ConfigError: there is none.
        """
        seen = _identity(self._file)
        if self._content is None or self.problem or seen != self._seen:
            try:
                self._content, self._seen, self.problem = self._read(), seen, ""
            except ConfigError as error:
                if self._content is None:
                    raise
                self.problem = str(error)
        return self._content


def _identity(file: str) -> tuple[int, ...] | None:
    with suppress(OSError):
        status = os.stat(file)
        return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size  # ctime: also its mode
    return None


def read_toml(text: str) -> dict[str, Any]:
    """Parse *text*. Raises ValueError: it is not TOML, or too deep; the message ends with the place."""
    blank = _TEXTS.sub(lambda found: "_" + "\n" * found[0].count("\n"), text)
    if many := _MANY_PARTS.search(blank):
        line = blank.count("\n", 0, many.start()) + 1
        raise ValueError(f"a key has more than {_MOST_PARTS} parts; give fewer (at line {line}, column 1)")
    if (dots := blank.count(".")) > _MOST_DOTS:
        problem = f"it has {dots:,} dots in names and numbers, more than {_MOST_DOTS:,}"
        raise ValueError(f"{problem}; split it (at end of document)")
    import tomllib  # a client without a file need not wait for it

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
