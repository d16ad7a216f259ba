"""
Accounts of the HTTP API: what a caller may do, by a token or as a person who logs in.

``tokens`` and ``people`` store them, each in a key outside of ``zsched:{…}:*``, which every service may write: else a
service could make itself an operator (deploy/redis/users.acl).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from zsched.core.model import iso
from zsched.core.options.allowed import LimitedBy, is_allowed

T = TypeVar("T")


class AccountRole(StrEnum):
    """The rights of an account."""

    VIEWER = "viewer"
    """Read."""
    SCHEDULER = "scheduler"
    """Read, and change schedules and runs."""
    OPERATOR = "operator"
    """Everything."""


@dataclass(frozen=True, slots=True)
class Limits:
    """
    Patterns of the functions, queues and tags of the schedules that a caller may read and change; empty: all. Every
    function that a schedule names must be allowed, part by part (``is_allowed``). Queues and tags are globs. With
    ``tags``, a schedule needs one that matches.
    """

    funcs: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def are_none(self) -> bool:
        """Return True if there are no limits."""
        return not (self.funcs or self.queues or self.tags)

    def refusal(self, by: LimitedBy) -> tuple[str, Any, tuple[str, ...]] | None:
        """Return the option, the value and the patterns that refuse a schedule; None: it is within the limits."""
        for option, path in by.functions.items():
            if self.funcs and not is_allowed(path, self.funcs):
                return option, path, self.funcs
        if not self.has_queue(by.queue):
            return "queue", by.queue, self.queues
        return ("tags", list(by.tags), self.tags) if self.tags and not _matches(by.tags, self.tags) else None

    def has_queue(self, queue: str) -> bool:
        """Return True if a schedule of *queue* can be within the limits."""
        return not self.queues or _matches([queue], self.queues)


@dataclass(frozen=True, slots=True)
class Account:
    """The rights of a caller. ``name`` is who acts, for the log. ``sees_arguments``: also results, tracebacks."""

    name: str
    role: AccountRole
    limits: Limits = Limits()
    sees_arguments: bool = False
    created_ms: int = 0
    created_by: str = ""
    expires_ms: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        """Return True if it has not expired."""
        return self.expires_ms is None or now_ms < self.expires_ms

    def to_stored(self) -> dict[str, Any]:
        """Return it as JSON for Redis."""
        named = {"name": self.name, "role": self.role.value, "arguments": self.sees_arguments}
        patterns = {"funcs": self.limits.funcs, "queues": self.limits.queues, "tags": self.limits.tags}
        times = {"created_ms": self.created_ms, "created_by": self.created_by, "expires_ms": self.expires_ms}
        return {**named, **patterns, **times}

    @classmethod
    def of(cls, held: Mapping[str, Any]) -> Account:
        """Return the account of *held*, as stored. Raises as ``from_stored`` expects it."""
        limits = Limits(*(tuple(map(str, held[name])) for name in ("funcs", "queues", "tags")))
        return cls(
            name=str(held["name"]),
            role=AccountRole(held["role"]),
            limits=limits,
            sees_arguments=held["arguments"] is True,
            created_ms=int(held["created_ms"]),
            created_by=str(held["created_by"]),
            expires_ms=None if held["expires_ms"] is None else int(held["expires_ms"]),
        )

    def to_dict(self) -> dict[str, Any]:
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
        }


class AccountRestored(StrEnum):
    """The outcome of restoring a token or a person from a backup."""

    ADDED = "added"
    """It was missing."""
    PRESENT = "present"
    """It is there already."""
    NAME_TAKEN = "name_taken"
    """Another token has its name; nothing was written."""
    DIFFERENT = "different"
    """It is there with another name, password, expiry or other rights; nothing was written."""


def from_stored(held: bytes | None, of: Callable[[Mapping[str, Any]], T]) -> T | None:
    """Return *of* the stored JSON *held*; None if another program wrote it: then it admits nobody."""
    try:
        return None if held is None else of(json.loads(held))
    except (ValueError, KeyError, TypeError):
        return None


def fields_of(flat: Sequence[bytes]) -> dict[str, bytes]:
    """Return the fields of a hash, as HGETALL replies them."""
    return {name.decode("utf-8", "replace"): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _matches(values: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)
