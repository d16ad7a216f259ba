"""
People who log in to ``zsched web``: each has an account, a password and sessions.

A password is stored as its scrypt hash, so nobody can read it from Redis. A session is a random secret in a cookie;
Redis has its SHA-256, the person's name and the mark of their password, until it lapses. The account is looked up
again for each request. So a session ends with its person, and with a new password, whose mark is another.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from zsched.errors import NOT_GIVEN, InvalidSchedule
from zsched.storage.accounts import Account, AccountRestored, fields_of, from_stored
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.tokens import digest_of, new_secret

_N, _R, _P = 2**15, 8, 1  # scrypt's cost: 32 MiB and about a tenth of a second for each password
_MOST_COST: Final = 2**20  # n × r × p that another program's entry may ask for: 128 MiB
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32
_LEAST, _MOST = 8, 1000  # characters, and bytes, of a password
_MARK: Final = 16  # hexadecimal digits


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """A password as stored: the parameters of scrypt, the salt and the hash."""

    n: int
    r: int
    p: int
    salt: bytes
    hash: bytes = field(repr=False)

    @classmethod
    def make(cls, password: str) -> PasswordHash:
        """Return the hash of a new *password*, under a new salt."""
        salt = secrets.token_bytes(_SALT_BYTES)
        return cls(_N, _R, _P, salt, _scrypt(password, salt, _N, _R, _P))

    @classmethod
    def of(cls, held: Mapping[str, Any]) -> PasswordHash:
        """Return the hash of *held*, as stored. Raises as ``from_stored`` expects it."""
        n, r, p = (int(held[name]) for name in ("n", "r", "p"))
        if min(n, r, p) < 1 or n * r * p > _MOST_COST:
            raise ValueError("no parameters of scrypt, or too expensive ones")
        return cls(n, r, p, *(bytes.fromhex(held[name]) for name in ("salt", "hash")))

    def to_stored(self) -> dict[str, Any]:
        """Return it as JSON for Redis."""
        return {"n": self.n, "r": self.r, "p": self.p, "salt": self.salt.hex(), "hash": self.hash.hex()}

    @property
    def mark(self) -> str:
        """Return a text that every new password changes, and that reveals nothing of it."""
        return hashlib.sha256(self.salt).hexdigest()[:_MARK]

    def admits(self, password: str) -> bool:
        """Return True if *password* is the right one. It takes a tenth of a second."""
        return hmac.compare_digest(_scrypt(password, self.salt, self.n, self.r, self.p), self.hash)


# In place of the hash of an unknown person: no password has it, and the work is the same.
_NOBODY: Final = PasswordHash(_N, _R, _P, bytes(_SALT_BYTES), bytes(_HASH_BYTES))


@dataclass(frozen=True, slots=True)
class Person:
    """An account of a person, with the hash of their password."""

    account: Account
    password: PasswordHash

    def to_text(self) -> str:
        """Return it as stored."""
        return json.dumps({**self.account.to_stored(), "password": self.password.to_stored()})

    @classmethod
    def of(cls, held: Mapping[str, Any]) -> Person:
        """Return the person of *held*, as stored. Raises as ``from_stored`` expects it."""
        return cls(Account.of(held), PasswordHash.of(held["password"]))


class People:
    """The people of one namespace, and their sessions."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._key, self._session_key = link, keys.people(), keys.session

    def add(self, account: Account, password: str) -> None:
        """
        Store a person.

        Raises:
            InvalidSchedule: another person has this name; or the password is too short or too long.
        """
        text = Person(account, PasswordHash.make(check_password(password))).to_text()
        if self._link.execute("HSETNX", self._key, account.name, text):
            return
        if self._link.execute("HGET", self._key, account.name) != text.encode():  # else a reply was lost
            remedy = "give another; or remove that person, or set their password, by zsched users"
            raise InvalidSchedule("name", account.name, "a person has this name", remedy)

    def set_password(self, name: str, password: str) -> bool:
        """Give person *name* another password, which ends their sessions; False: there is no such person."""
        made = PasswordHash.make(check_password(password))
        found = self._held(name)
        if found is None:
            return False
        self._link.execute("HSET", self._key, name, Person(found.account, made).to_text())
        return True

    def remove(self, name: str) -> bool:
        """Remove person *name*, which ends their sessions; False: there is no such person."""
        return bool(self._link.execute("HDEL", self._key, name))

    def all(self) -> Iterator[Person]:
        """Yield the people, by name."""
        held = fields_of(self._link.execute("HGETALL", self._key))
        people = (from_stored(text, Person.of) for _, text in sorted(held.items()))
        yield from (person for person in people if person is not None)

    def restore(self, saved: Iterable[Person]) -> Iterator[tuple[Account, AccountRestored]]:
        """Store each person of *saved* that is missing; yield what became of them."""
        for person in saved:
            name = person.account.name
            if self._link.execute("HSETNX", self._key, name, person.to_text()):
                yield person.account, AccountRestored.ADDED
            else:
                yield (
                    person.account,
                    AccountRestored.PRESENT if self._held(name) == person else AccountRestored.DIFFERENT,
                )

    def admitted(self, name: str, password: str, now_ms: int) -> Person | None:
        """Return person *name* if *password* is right, unless they have expired. An unknown name takes as long."""
        found = self._held(name)
        is_right = self._link.compute((_NOBODY if found is None else found.password).admits, password)
        return found if found is not None and is_right and found.account.is_valid(now_ms) else None

    def knows(self, name: str) -> bool:
        """Return True if there is a person of this name."""
        return self._held(name) is not None

    def _held(self, name: str) -> Person | None:
        found = from_stored(self._link.execute("HGET", self._key, name), Person.of)
        return found if found is not None and found.account.name == name else None

    # -- sessions -----------------------------------------------------------------------------------

    def begin_session(self, person: Person, lasts_ms: int) -> str:
        """Begin a session of *person*, and return its secret."""
        secret = new_secret()
        text = f"{person.password.mark} {person.account.name}"
        self._link.execute("SET", self._session_key(digest_of(secret)), text, "PX", lasts_ms)
        return secret

    def of_session(self, digest: str, now_ms: int) -> Account | None:
        """Return the account of the person whose session's secret has this *digest*; None: it has ended."""
        held = self._link.execute("GET", self._session_key(digest))
        mark, _, name = (held or b"").decode("utf-8", "replace").partition(" ")
        found = self._held(name) if name else None
        if found is None or found.password.mark != mark or not found.account.is_valid(now_ms):
            return None
        return found.account

    def end_session(self, digest: str) -> bool:
        """End the session whose secret has this *digest*; False: it had ended."""
        return bool(self._link.execute("DEL", self._session_key(digest)))


def check_password(password: str) -> str:
    """Return *password* if it is good for a person. Raises InvalidSchedule, which does not repeat it."""
    if len(password) < _LEAST:
        raise InvalidSchedule("password", NOT_GIVEN, "it is too short", f"give {_LEAST} characters or more")
    try:
        is_long = len(password.encode()) > _MOST
    except UnicodeEncodeError:
        raise InvalidSchedule("password", NOT_GIVEN, "it is not in UTF-8", "give it in UTF-8") from None
    if is_long:
        raise InvalidSchedule("password", NOT_GIVEN, "it is too long", f"give at most {_MOST:,} bytes")
    return password


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    """Return the hash. Accents are one character each, as terminals and browsers send them differently."""
    text = unicodedata.normalize("NFC", password).encode("utf-8", "replace")
    return hashlib.scrypt(text, salt=salt, n=n, r=r, p=p, maxmem=256 * n * r * p, dklen=_HASH_BYTES)
