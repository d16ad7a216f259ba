"""
Tokens of the HTTP API: each is an account's secret for programs.

Only the SHA-256 of a token is stored, so nobody can read a token from Redis.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Self

from zsched.errors import InvalidSchedule
from zsched.storage.accounts import Account, AccountRestored, fields_of, from_stored
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

_BEGIN: Final = "zs_"  # of each token, so that scanners of secrets find it
_BYTES: Final = 32
_USED_EVERY_MS: Final = 60_000  # the last use is recorded at most so often
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Saved(NamedTuple):
    """A token as a line of a backup: the SHA-256 of its secret, and its account."""

    digest: str
    account: Account

    def to_line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps({"sha256": self.digest, **self.account.to_stored()})

    @classmethod
    def of(cls, line: str | bytes) -> Self:
        """Return the token of a *line*. Raises ValueError, KeyError, TypeError: it is not such a line."""
        held = json.loads(line)
        if not _DIGEST.fullmatch(held["sha256"]):
            raise ValueError("sha256 is not 64 hexadecimal digits")
        return cls(held["sha256"], Account.of(held))


class Tokens:
    """The tokens of one namespace."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._key, self._used_key = link, keys.tokens(), keys.tokens_used()

    def add(self, account: Account) -> str:
        """
        Store a token of *account*, and return its secret, which is shown only here.

        Raises:
            InvalidSchedule: another token has its name.
        """
        if any(other.name == account.name for _, other, _ in self.all()):
            raise InvalidSchedule("name", account.name, "a token has this name", "give another, or revoke that token")
        secret = _BEGIN + new_secret()
        self._link.execute("HSET", self._key, digest_of(secret), json.dumps(account.to_stored()))
        return secret

    def find(self, digest: str, now_ms: int) -> Account | None:
        """Return the account whose token has this *digest*, unless it has expired. Record its use, once a minute."""
        found = from_stored(self._link.execute("HGET", self._key, digest), Account.of)
        if found is None or not found.is_valid(now_ms):
            return None
        used_ms = self._link.execute("HGET", self._used_key, digest)
        if used_ms is None or now_ms - int(used_ms) >= _USED_EVERY_MS:
            self._link.execute("HSET", self._used_key, digest, now_ms)
        return found

    def all(self) -> Iterator[tuple[str, Account, int | None]]:
        """Yield digest, account and the time of the last use (ms), by name."""
        used = fields_of(self._link.execute("HGETALL", self._used_key))
        held = fields_of(self._link.execute("HGETALL", self._key))
        found = ((digest, from_stored(text, Account.of)) for digest, text in held.items())
        known = [(account.name, digest, account) for digest, account in found if account is not None]
        for _, digest, account in sorted(known, key=lambda each: each[:2]):
            yield digest, account, int(used[digest]) if digest in used else None

    def restore(self, saved: Iterable[Saved]) -> Iterator[tuple[Account, AccountRestored]]:
        """Store each token of *saved* that is missing; yield what became of it."""
        by_digest = {digest: account for digest, account, _ in self.all()}
        names = {account.name for account in by_digest.values()}
        for digest, account in saved:
            present = by_digest.get(digest)
            if present is not None:
                yield account, AccountRestored.PRESENT if present == account else AccountRestored.DIFFERENT
            elif account.name in names:
                yield account, AccountRestored.NAME_TAKEN
            else:
                self._link.execute("HSETNX", self._key, digest, json.dumps(account.to_stored()))
                by_digest[digest] = account
                names.add(account.name)
                yield account, AccountRestored.ADDED

    def revoke(self, name: str) -> bool:
        """Remove the token of this *name*; False: there is none."""
        digests = [digest for digest, account, _ in self.all() if account.name == name]
        for digest in digests:
            self._link.execute("HDEL", self._key, digest)
            self._link.execute("HDEL", self._used_key, digest)
        return bool(digests)


def new_secret() -> str:
    """Return a new secret of 256 random bits."""
    return secrets.token_urlsafe(_BYTES)


def digest_of(secret: str) -> str:
    """Return the name under which a secret is stored. It has 256 random bits, so a fast hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
