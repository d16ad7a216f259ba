"""
Schedules to put, in the form that the put scripts take.

Schedules that differ only in id, time or rule, and arguments share a *shape*, which a call has once, with a row for
each. ``one_shots_call`` and ``recurring_call`` make the calls of put.lua and put_recurring.lua.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from zsched.core.choices import IfExists, Priority
from zsched.core.model import Definition
from zsched.core.planning import Bracket
from zsched.core.triggers import TriggerSpec
from zsched.storage.rqjob import Pairs
from zsched.storage.scripts import BulkCall

KEEP_OP_MS: Final = 600_000  # time for which a repeated call is recognised

# Id; due ms, "+" and ms from the server's now, or "=" and such a time, computed; name (core/signed.py) and data
OneShotRow = tuple[str, str, bytes, bytes]
ROW_SIZE: Final = 4
RELATIVE: Final = ("+", "=")  # how the due of a delay begins


@dataclass(frozen=True, slots=True)
class Shape:
    """The shared part of one call's one-shots. ``pairs``: RQ's fields and ours, flat."""

    lane: Priority
    pairs: tuple[str | bytes, ...]
    if_exists: IfExists
    enabled: bool | None
    allow_past: bool
    if_version: str | None
    durable: bool = False
    signed: bytes = b""  # what its signatures cover besides their rows (``Signer.shared``); b"" without a signer


class RecurringShape:
    """
    The shared part of recurring schedules that differ in id, rule and arguments. ``own``: fields for zsched;
    ``template``: fields of their runs for RQ; both flat.
    """

    __slots__ = ("_digest", "durable", "enabled", "if_exists", "lane", "own", "signed", "template")

    def __init__(self, definition: Definition, own: Pairs, template: Pairs, signed: bytes = b"") -> None:
        self.lane, self.if_exists = definition.priority, definition.if_exists
        self.enabled, self.durable = definition.enabled, definition.durable
        self.own, self.template, self.signed = flat(own), flat(template), signed
        self._digest = hashlib.blake2b(digest_size=12)
        self._digest.update(_separated(self.lane.value, *self.own, *self.template))

    def digest(self, rule: str, data: bytes) -> str:
        """
        Return the digest of a put with *rule*, a spec's text. A put changes nothing if Redis has its digest and its
        signature already.
        """
        digest = self._digest.copy()
        digest.update(_separated(rule, data))
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class RecurringRecord:
    """A recurring schedule without its rule. ``name``: of its data (core/signed.py)."""

    id: str
    shape: RecurringShape
    name: bytes
    data: bytes

    def digest(self, spec: TriggerSpec) -> str:
        """Return the ``digest`` of the record by *spec*."""
        return self.shape.digest(spec.to_text(), self.data)


class RecurringRow(NamedTuple):
    """
    A recurring schedule to put by a plan; *rule* is its spec's text. ``seen_version``: put it only if Redis has this
    version; "": in any case.
    """

    record: RecurringRecord
    rule: str
    bracket: Bracket
    seen_version: str = ""


def one_shots_call(shape: Shape, rows: Iterable[str | bytes], op: str | None) -> BulkCall:
    """Return the call of put.lua for *rows* of *shape*: the texts of a ``OneShotRow``, or of many."""
    arguments = {
        "lane": shape.lane.value,
        "if_exists": shape.if_exists.value,
        "enabled": _choice(shape.enabled),
        "allow_past": int(shape.allow_past),
        "seen_version": shape.if_version or "",
        "op": op or "-",
        "keep_op_ms": KEEP_OP_MS if op else 0,
        "field_size": len(shape.pairs),
    }
    return "put", [*shape.pairs, *rows], arguments


def recurring_call(rows: Iterable[RecurringRow], op: str | None) -> BulkCall:
    """Return the call of put_recurring.lua for *rows*, of any shapes."""
    numbers: dict[int, int] = {}  # by identity of the shape, for speed
    texts_of: dict[tuple[Any, ...], int] = {}
    texts: list[Any] = []
    for record, rule, bracket, seen_version in rows:
        shape = record.shape
        number = numbers.get(id(shape))
        if number is None:
            said = (
                shape.lane.value, shape.if_exists.value, _choice(shape.enabled), len(shape.own), len(shape.template),
            )  # fmt: skip
            number = numbers[id(shape)] = texts_of.setdefault((*said, *shape.own, *shape.template), len(texts_of) + 1)
        texts += (
            number, record.id, seen_version, rule, shape.digest(rule, record.data),
            record.name, record.data,
            "" if bracket.anchor_ms is None else bracket.anchor_ms, bracket.next, bracket.jitter_ms,
            bracket.from_ms, bracket.until_ms,
        )  # fmt: skip
    arguments = {"op": op or "-", "keep_op_ms": KEEP_OP_MS if op else 0, "shape_count": len(texts_of)}
    return "put_recurring", [*(text for shape in texts_of for text in shape), *texts], arguments


def _choice(enabled: bool | None) -> str:
    """Return ``enabled`` for the put scripts."""
    return "" if enabled is None else str(int(enabled))


def flat(pairs: Pairs | dict[str, str]) -> tuple[str | bytes, ...]:
    """Return field and value texts, sorted by field, so that equal contents have equal texts."""
    return tuple(text for field in sorted(pairs) for text in (field, pairs[field]))


def _separated(*texts: str | bytes) -> bytes:
    """Join texts by a separator that keeps different lists different."""
    return b"".join(each for text in texts for each in (text if isinstance(text, bytes) else text.encode(), b"\0"))
