"""
The file of accounts: ``zsched tokens`` and the console's page of accounts write it, and the server reads it, at each
request if it has changed.

While a changed file cannot be used, or is missing, a server keeps the accounts that it has. A writer replaces the file
as a whole, one writer at a time, so no reader sees a part. What root writes belongs to the owner of the folder.

Beside it, in a folder ``….used``, is an empty file for each token that was used; its time is that of the last use.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Final

from zsched.config.reading import Watched, read_private
from zsched.config.settings import Settings
from zsched.errors import ConfigError, InvalidSchedule
from zsched.web.accounts import TOKEN_BYTES, Account, Accounts, digest_of

ADD: Final = ("zsched", "tokens", "add", "NAME", "--role", "operator")  # makes the first account

_BEGIN: Final = "zs_"  # of each token, so that scanners of secrets find it
_USED_EVERY_MS: Final = 60_000  # a use within this time after another is not recorded
_OF_ROOT: Final = "/var/lib/zsched-web"  # StateDirectory of the units in deploy/systemd


class AccountsFile(Watched[Accounts]):
    """The file at *path*. A server begins without accounts if it cannot be used."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), self._parsed, Accounts())
        self.path = path
        self._used = Path(f"{path}.used")
        self._noted = dict[str, int]()

    def read(self) -> Accounts:
        """Return its accounts; none if it is missing. Raises ConfigError: it cannot be used."""
        try:
            return self._parsed()
        except ConfigError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return Accounts()
            raise

    def _parsed(self) -> Accounts:
        place, owners = str(self.path), {0, os.geteuid()}
        with suppress(OSError):
            owners.add(self.path.parent.stat().st_uid)  # who could replace the file anyhow
        closed_by = f"chmod 600 {quote(place)}, and remove its line cookie_key, to get another key"
        content = read_private(place, place, made_by=" ".join(ADD), closed_by=closed_by, owners=owners)
        return Accounts.parse(content, place)

    # -- last uses ----------------------------------------------------------------------------------

    @property
    def records_uses(self) -> bool:
        """True if a server has recorded uses of tokens."""
        return self._used.is_dir()

    def note_use(self, digest: str, now_ms: int) -> None:
        """Record a use of a token, once a minute; nothing where the server may write no files."""
        if now_ms - self._noted.get(digest, 0) >= _USED_EVERY_MS:
            self._noted[digest] = now_ms
            with suppress(OSError):
                self._used.mkdir(0o700, exist_ok=True)
                (self._used / digest).touch(0o600)

    def with_uses(self, accounts: Accounts) -> list[tuple[Account, int | None]]:
        """Return *accounts* by name, each with the time of its last recorded use (ms)."""
        by_name = sorted(accounts.by_digest.items(), key=lambda each: each[1].name)
        return [(account, self._used_ms(digest)) for digest, account in by_name]

    def _used_ms(self, digest: str) -> int | None:
        with suppress(OSError):
            return (self._used / digest).stat().st_mtime_ns // 1_000_000
        return None

    # -- changes ------------------------------------------------------------------------------------

    def add(self, account: Account) -> str:
        """
        Add *account*, and return its token, which is shown only here.

        Raises:
            InvalidSchedule: another account has its name. ConfigError: the file cannot be read or written.
        """
        secret = _BEGIN + secrets.token_urlsafe(TOKEN_BYTES)
        with self._changed() as accounts:
            if any(other.name == account.name for other in accounts.values()):
                remedy = "give another, or revoke that account"
                raise InvalidSchedule("name", account.name, "an account has this name", remedy)
            accounts[digest_of(secret)] = account
        return secret

    def revoke(self, name: str) -> bool:
        """Remove the account *name*; False: there is none. Raises ConfigError: the file cannot be read or written."""
        with self._changed() as accounts:
            digests = _digests_of(name, accounts)
            for digest in digests:
                del accounts[digest]
                with suppress(OSError):
                    (self._used / digest).unlink()
        return bool(digests)

    def expire(self, name: str, expires_ms: int | None) -> bool:
        """Let account *name* expire at *expires_ms*, or never (None), also one that has expired. As ``revoke``."""
        with self._changed() as accounts:
            digests = _digests_of(name, accounts)
            accounts.update((digest, replace(accounts[digest], expires_ms=expires_ms)) for digest in digests)
        return bool(digests)

    @contextmanager
    def _changed(self) -> Iterator[dict[str, Account]]:
        """Yield the accounts, and write them if they have changed. Other writers wait. Raises ConfigError."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(self._open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT), "wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                present = self.read()
                yield (accounts := dict(present.by_digest))
                if accounts != present.by_digest:
                    self._replace(Accounts(accounts, present.cookie_key))
        except OSError as error:
            remedy = "write it as its owner, or give another [web] accounts_file"
            raise ConfigError(f"{self.path}: {error.strerror}; nothing was changed; {remedy}") from error

    def _replace(self, accounts: Accounts) -> None:
        """Replace the file, on the disk, too. Raises OSError; ConfigError: a server would refuse it."""
        content, new = accounts.to_text().encode(), Path(f"{self.path}.new")
        Accounts.parse(content, str(new))
        new.unlink(missing_ok=True)  # a killed writer left it
        with os.fdopen(self._open(str(new), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _open(self, path: str, flags: int) -> int:
        """Open a file beside it that only the owner of the folder may use, or this user. Raises OSError."""
        opened = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.geteuid() == 0 and os.fstat(opened).st_nlink == 1:  # a hard link may be of a file elsewhere
            folder = self.path.parent.stat()
            os.fchown(opened, folder.st_uid, folder.st_gid)
        return opened


def _digests_of(name: str, accounts: Mapping[str, Account]) -> list[str]:
    return [digest for digest, account in accounts.items() if account.name == name]


def accounts_file(settings: Settings, environment: Mapping[str, str] = os.environ) -> AccountsFile:
    """
    Return the file of [web] accounts_file; by default ``accounts-<namespace>.toml`` in systemd's STATE_DIRECTORY, in
    ``$XDG_STATE_HOME/zsched``, for root in the units' state directory, else in ``~/.local/state/zsched``.

    Raises:
        ConfigError: this user has no home directory.
    """
    if settings.web.accounts_file is not None:
        return AccountsFile(Path(settings.web.accounts_file))
    if state := environment.get("STATE_DIRECTORY", "").split(":")[0]:
        folder = Path(state)
    elif home := environment.get("XDG_STATE_HOME"):
        folder = Path(home, "zsched")
    else:
        folder = Path(_OF_ROOT if os.geteuid() == 0 else os.path.expanduser("~/.local/state/zsched"))
    if not folder.is_absolute():
        raise ConfigError(f"user id {os.getuid()} has no home directory; give [web] accounts_file")
    return AccountsFile(folder / f"accounts-{settings.namespace}.toml")
