"""
Tokens of the HTTP API: who may do what, and how each is stored.

Only the SHA-256 of a token is stored, so nobody can read a token from Redis. The key is outside of ``zsched:{…}:*``,
which every service may write: else a service could make itself an operator (deploy/redis/users.acl).
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from zsched.core.model import iso
from zsched.errors import InvalidSchedule
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

_BEGIN: Final = "zs_"  # of each token, so that scanners of secrets find it
_BYTES: Final = 32
_USED_EVERY_MS: Final = 60_000  # the last use is recorded at most so often


class TokenRole(StrEnum):
    """The rights of a token."""

    VIEWER = "viewer"
    """Read."""
    SCHEDULER = "scheduler"
    """Read, and change schedules and runs."""
    OPERATOR = "operator"
    """Everything."""


@dataclass(frozen=True, slots=True)
class Limits:
    """
    Patterns (globs) of the functions, queues and tags of the schedules that a token may read and change; empty: all.
    With ``tags``, a schedule needs one that matches.
    """

    funcs: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def are_none(self) -> bool:
        """Return True if there are no limits."""
        return not (self.funcs or self.queues or self.tags)

    def refusal(self, func: str, queue: str, tags: Sequence[str]) -> tuple[str, Any, tuple[str, ...]] | None:
        """Return the option, the value and the patterns that refuse a schedule; None: it is within the limits."""
        for option, values, patterns in (("func", [func], self.funcs), ("queue", [queue], self.queues)):
            if patterns and not _matches(values, patterns):
                return option, values[0], patterns
        return ("tags", list(tags), self.tags) if self.tags and not _matches(tags, self.tags) else None

    def has_queue(self, queue: str) -> bool:
        """Return True if a schedule of *queue* can be within the limits."""
        return not self.queues or _matches([queue], self.queues)


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret. ``name`` is who acts, for the log. ``sees_arguments``: also results, tracebacks."""

    name: str
    role: TokenRole
    limits: Limits = Limits()
    sees_arguments: bool = False
    created_ms: int = 0
    created_by: str = ""
    expires_ms: int | None = None

    def to_text(self) -> str:
        """Return it as stored."""
        named = {"name": self.name, "role": self.role.value, "arguments": self.sees_arguments}
        patterns = {"funcs": self.limits.funcs, "queues": self.limits.queues, "tags": self.limits.tags}
        times = {"created_ms": self.created_ms, "created_by": self.created_by, "expires_ms": self.expires_ms}
        return json.dumps({**named, **patterns, **times})

    @classmethod
    def of(cls, text: str | bytes) -> Token:
        """Return the token of a stored *text*. Raises ValueError, KeyError, TypeError: another program wrote it."""
        held = json.loads(text)
        limits = Limits(*(tuple(map(str, held[name])) for name in ("funcs", "queues", "tags")))
        return cls(
            name=str(held["name"]),
            role=TokenRole(held["role"]),
            limits=limits,
            sees_arguments=held["arguments"] is True,
            created_ms=int(held["created_ms"]),
            created_by=str(held["created_by"]),
            expires_ms=None if held["expires_ms"] is None else int(held["expires_ms"]),
        )

    def to_dict(self, used_ms: int | None = None) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "name": self.name,
            "role": self.role.value,
            "funcs": list(self.limits.funcs),
            "queues": list(self.limits.queues),
            "tags": list(self.limits.tags),
            "arguments": self.sees_arguments,
            "created_at": iso(self.created_ms),
            "created_by": self.created_by,
            "expires_at": iso(self.expires_ms),
            "used_at": iso(used_ms),
        }


class Tokens:
    """The tokens of one namespace."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._key, self._used_key = link, keys.tokens(), keys.tokens_used()

    def add(self, token: Token) -> str:
        """
        Store *token*, and return its secret, which is shown only here.

        Raises:
            InvalidSchedule: another token has its name.
        """
        if any(other.name == token.name for _, other, _ in self.all()):
            raise InvalidSchedule("name", token.name, "a token has this name", "give another, or revoke that token")
        secret = _BEGIN + secrets.token_urlsafe(_BYTES)
        self._link.execute("HSET", self._key, digest_of(secret), token.to_text())
        return secret

    def find(self, digest: str, now_ms: int) -> Token | None:
        """Return the token whose secret has this *digest*, unless it has expired. Record its use, once a minute."""
        held = self._link.execute("HGET", self._key, digest)
        token = None if held is None else _readable(held)
        if token is None or (token.expires_ms is not None and token.expires_ms <= now_ms):
            return None
        used_ms = self._link.execute("HGET", self._used_key, digest)
        if used_ms is None or now_ms - int(used_ms) >= _USED_EVERY_MS:
            self._link.execute("HSET", self._used_key, digest, now_ms)
        return token

    def all(self) -> Iterator[tuple[str, Token, int | None]]:
        """Yield digest, token and the time of its last use (ms), by name."""
        used = _pairs(self._link.execute("HGETALL", self._used_key))
        found = ((digest, _readable(held)) for digest, held in _pairs(self._link.execute("HGETALL", self._key)).items())
        known = [(token.name, digest, token) for digest, token in found if token is not None]
        for _, digest, token in sorted(known, key=lambda each: each[0]):
            yield digest, token, int(used[digest]) if digest in used else None

    def revoke(self, name: str) -> bool:
        """Remove the token of this *name*; False: there is none."""
        digests = [digest for digest, token, _ in self.all() if token.name == name]
        for digest in digests:
            self._link.execute("HDEL", self._key, digest)
            self._link.execute("HDEL", self._used_key, digest)
        return bool(digests)


def digest_of(secret: str) -> str:
    """Return the name under which a secret is stored. It has 256 random bits, so a fast hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _matches(values: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)


def _readable(held: bytes) -> Token | None:
    try:
        return Token.of(held)
    except (ValueError, KeyError, TypeError):
        return None  # another program wrote it: it admits nobody


def _pairs(flat: list[bytes]) -> dict[str, bytes]:
    return {name.decode("utf-8", "replace"): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
