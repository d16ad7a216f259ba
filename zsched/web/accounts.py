"""
Accounts: who may do what at ``zsched web``. They stand in a file (``accounts_file``), in TOML, one for a namespace::

    cookie_key = "…"            # signs the cookies of sessions; 64 hexadecimal digits

    [accounts.shop]
    sha256 = "…"                # of its token, which is stored nowhere
    role = "scheduler"          # viewer, scheduler or operator
    queues = ["shop-*"]         # limits: also funcs and tags
    expires_at = 2027-02-27T12:00:00Z

A token has 256 random bits. So nobody guesses one, and a fast hash finds its account.

A session is a cookie: the SHA-256 of the token that its person pasted, its end, and a code of both by ``cookie_key``.
So it ends with its token. The key stands in the same file, so servers that share the file share sessions, too. Whoever
reads the file could sign a cookie, so a file that others may read is refused.

Redis has no part in this: no user of Redis can make, read or lose an account.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from zsched.config import parsing as parse
from zsched.config.reading import read_toml
from zsched.core.clock import from_ms, to_ms
from zsched.core.model import json_of
from zsched.core.options.allowed import Limits
from zsched.core.toml import key_text, toml_text
from zsched.errors import ConfigError

TOKEN_BYTES: Final = 32  # of a token and of the key
_LIMITS: Final = ("funcs", "queues", "tags")
_DIGITS: Final = re.compile(rf"[0-9a-f]{{{2 * TOKEN_BYTES}}}")


class AccountRole(StrEnum):
    """The rights of an account."""

    VIEWER = "viewer"  # reads
    SCHEDULER = "scheduler"  # reads, and changes schedules and runs
    OPERATOR = "operator"  # does everything


def _instant(given: object) -> int:
    """Parse a time of TOML with its offset, as milliseconds."""
    if isinstance(given, datetime) and given.tzinfo is not None:
        return to_ms(given)
    raise ValueError("write a time with its offset: 2027-02-27T12:00:00Z")


def _digits(given: object) -> str | None:
    """Parse hexadecimal digits of 32 bytes; else None, so that no message repeats a secret."""
    return given if isinstance(given, str) and _DIGITS.fullmatch(given) else None


_TABLES: Final = parse.Tables(
    "accounts",
    parse.line(200),
    {
        "sha256": _digits,
        "role": parse.one_of(*AccountRole),
        **dict.fromkeys(_LIMITS, parse.any_words),
        "arguments": parse.boolean,
        "created_at": _instant,
        "created_by": parse.line(200),
        "expires_at": _instant,
    },
)


@dataclass(frozen=True, slots=True)
class Account:
    """The rights of a caller. ``name`` is who acts, for the log. ``sees_arguments``: also results, tracebacks."""

    name: str
    role: AccountRole
    limits: Limits = field(default_factory=Limits)
    sees_arguments: bool = False
    created_ms: int = 0
    created_by: str = ""
    expires_ms: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        """Return True if it has not expired."""
        return self.expires_ms is None or now_ms < self.expires_ms

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON, by ``json_of``."""
        limits = {kind: list(getattr(self.limits, kind)) for kind in _LIMITS}
        names = "name", "role", *_LIMITS, "arguments", "created_at", "created_by", "expires_at"
        return json_of(self, *names, **limits, arguments=self.sees_arguments, created_by=self.created_by)

    def to_lines(self, digest: str) -> Iterator[str]:
        """Yield its table in the file. *digest*: the SHA-256 of its token."""
        given = {"sha256": digest, **self.to_dict(), "created_at": from_ms(self.created_ms)}
        if self.expires_ms is not None:
            given["expires_at"] = from_ms(self.expires_ms)
        yield f"[{_TABLES.heading}.{key_text(given.pop('name'))}]"
        yield from (f"{name} = {toml_text(value)}" for name, value in given.items() if value)

    @classmethod
    def from_table(cls, name: str, table: Mapping[str, Any]) -> Self:
        """Return the account of a parsed *table* with a role."""
        return cls(
            name=name,
            role=AccountRole(table["role"]),
            limits=Limits(*(table.get(kind, ()) for kind in _LIMITS)),
            sees_arguments=table.get("arguments", False),
            created_ms=table.get("created_at", 0),
            created_by=table.get("created_by", ""),
            expires_ms=table.get("expires_at"),
        )


def _new_key() -> str:
    return secrets.token_hex(TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of a file, by the SHA-256 of their tokens, and the key of their cookies."""

    by_digest: Mapping[str, Account] = field(default_factory=dict)
    cookie_key: str = field(default_factory=_new_key, repr=False)

    def find(self, digest: str | None, now_ms: int) -> Account | None:
        """Return the account whose token has this *digest*, unless it has expired."""
        found = self.by_digest.get(digest or "")
        return found if found is not None and found.is_valid(now_ms) else None

    def cookie(self, digest: str, until_ms: int) -> str:
        """Return the cookie of a session, until *until_ms*, of the token with this *digest*."""
        text = f"{digest}.{until_ms}"
        return f"{text}.{self._code(text)}"

    def digest_in(self, cookie: str, now_ms: int) -> str | None:
        """Return the digest of the token of the session in *cookie*; None: it is not signed, or it has ended."""
        text, _, code = cookie.rpartition(".")
        if not hmac.compare_digest(code.encode(), self._code(text).encode()):
            return None
        digest, _, until_ms = text.partition(".")
        return digest if now_ms < int(until_ms) else None

    def _code(self, text: str) -> str:
        return hmac.digest(bytes.fromhex(self.cookie_key), text.encode(), "sha256").hex()

    def to_text(self) -> str:
        """Return the text of the file."""
        lines = ["# Accounts of zsched web. `zsched tokens` writes this file, and keeps no comments."]
        lines += [f"cookie_key = {toml_text(self.cookie_key)}"]
        for digest, account in sorted(self.by_digest.items(), key=lambda each: each[1].name):
            lines += ["", *account.to_lines(digest)]
        return "\n".join([*lines, ""])

    @classmethod
    def parse(cls, content: bytes, place: str) -> Self:
        """Return the accounts of the *content* of the file at *place*. Raises ConfigError."""
        try:
            found = read_toml(content.decode())
        except ValueError as error:
            raise ConfigError(f"{place}: {error}") from error
        if (key := _digits(found.pop("cookie_key", _new_key()))) is None:
            raise ConfigError(f"{place}: cookie_key: not 64 hexadecimal digits; remove its line, to get another key")
        by_digest = dict[str, Account]()
        for name, table in _TABLES.read(Path(place), found.pop(_TABLES.heading, {})).items():
            digest, where = table.get("sha256"), f"{place}: [{_TABLES.heading}.{name}]"
            if digest is None:
                raise ConfigError(f"{where} sha256: not 64 hexadecimal digits; zsched tokens add makes a token")
            if "role" not in table:
                raise ConfigError(f"{where} role: it is missing; write one of: {', '.join(AccountRole)}")
            if digest in by_digest:
                raise ConfigError(f"{where} sha256: {by_digest[digest].name} has the same token; remove one of them")
            by_digest[digest] = Account.from_table(name, table)
        for name in found:
            hint = parse.suggest(name, ("cookie_key", _TABLES.heading))
            raise ConfigError(f"{place}: {name} is not a key of an accounts file; {hint}")
        return cls(by_digest, key)


def digest_of(secret: str) -> str:
    """Return the digest by which the account of a token is found."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
