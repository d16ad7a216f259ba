"""
Schedules to put, in the form that the put scripts take.

Schedules that differ only in id, time or rule, and arguments share a *shape*, which a call has once, with a row for
each. ``one_shots_call`` and ``recurring_call`` make the calls of put.lua and put_recurring.lua.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from zsched.core.occurrences.planning import Bracket, PlannedRule
from zsched.core.options.choices import IfExists, Priority
from zsched.storage.rqjob import Pairs
from zsched.storage.scripts import BulkCall

KEEP_OP_MS: Final = 600_000  # time for which a repeated call is recognised
ROW_SIZE: Final = 4
RELATIVE: Final = ("+", "=")  # how the due of a delay begins


@dataclass(frozen=True)
class Shape:
    """
    The shared part of schedules that differ in id, time or rule, and arguments. ``job``: fields of their jobs, or of
    the templates of their runs; ``own``: those of recurring schedules for zsched; both flat. ``signed``: what
    signatures cover besides their rows (``Signer.shared``); b"" without a signer.
    """

    lane: Priority
    job: tuple[str | bytes, ...]
    own: tuple[str | bytes, ...]
    if_exists: IfExists
    enabled: bool | None
    allow_past: bool = False
    durable: bool = False
    signed: bytes = b""

    @cached_property
    def choice(self) -> str:
        """``enabled`` for the scripts."""
        return "" if self.enabled is None else str(int(self.enabled))

    @cached_property
    def texts(self) -> tuple[str | bytes | int, ...]:
        """The texts of the shape for put_recurring.lua."""
        sizes = len(self.own), len(self.job)
        return self.lane.value, self.if_exists.value, self.choice, *sizes, *self.own, *self.job

    @cached_property
    def begun(self) -> hashlib.blake2b:
        """The digest of its schedules, before rule and data."""
        digest = hashlib.blake2b(digest_size=12)
        digest.update(_separated(self.lane.value, *self.own, *self.job))
        return digest


class Put(NamedTuple):
    """
    A schedule to put. ``due`` of a one-shot: ms; "+" and ms from the server's now; or "=" and such a time, computed.
    ``name``: of its data (core/runs/signature.py). ``if_version``: put it only if Redis has this version; "": in any
    case.
    """

    shape: Shape
    id: str
    due: str
    name: bytes
    data: bytes
    rule: PlannedRule | None = None
    if_version: str = ""

    @property
    def row(self) -> tuple[str, str, bytes, bytes]:
        """The texts of its row for put.lua."""
        return self[1:5]

    @property
    def is_relative(self) -> bool:
        """True if it is due some time after the server's now."""
        return self.due[:1] in RELATIVE

    @property
    def is_conditional(self) -> bool:
        """True if the same put, sent twice, may be answered differently."""
        return bool(self.if_version) or self.shape.if_exists is not IfExists.REPLACE

    @property
    def digest(self) -> str:
        """
        The digest of a recurring schedule. A put changes nothing if Redis has its digest and its signature already.
        """
        assert self.rule is not None
        digest = self.shape.begun.copy()
        digest.update(_separated(self.rule.text, self.data))
        return digest.hexdigest()


def one_shots_call(shape: Shape, if_version: str, rows: Iterable[str | bytes], op: str | None) -> BulkCall:
    """Return the call of put.lua for *rows* of *shape*: the texts of one after another."""
    arguments = {
        "lane": shape.lane.value,
        "if_exists": shape.if_exists.value,
        "enabled": shape.choice,
        "allow_past": int(shape.allow_past),
        "seen_version": if_version,
        "op": op or "-",
        "keep_op_ms": KEEP_OP_MS if op else 0,
        "field_size": len(shape.job),
    }
    return "put", [*shape.job, *rows], arguments


def recurring_call(rows: Iterable[tuple[Put, Bracket]], op: str | None) -> BulkCall:
    """Return the call of put_recurring.lua for *rows* of any shapes, each with its plan."""
    numbers: dict[int, int] = {}  # by identity of the shape, for speed
    shapes: dict[tuple[Any, ...], int] = {}
    texts: list[Any] = []
    for put, bracket in rows:
        number = numbers.get(id(put.shape))
        if number is None:
            number = numbers[id(put.shape)] = shapes.setdefault(put.shape.texts, len(shapes) + 1)
        assert put.rule is not None
        texts += (
            number, put.id, put.if_version, put.rule.text, put.digest, put.name, put.data,
            "" if bracket.anchor_ms is None else bracket.anchor_ms, bracket.next, bracket.jitter_ms,
            bracket.from_ms, bracket.until_ms,
        )  # fmt: skip
    arguments = {"op": op or "-", "keep_op_ms": KEEP_OP_MS if op else 0, "shape_count": len(shapes)}
    return "put_recurring", [*(text for shape in shapes for text in shape), *texts], arguments


def flat(pairs: Pairs | dict[str, str]) -> tuple[str | bytes, ...]:
    """Return field and value texts, sorted by field, so that equal contents have equal texts."""
    return tuple(text for field in sorted(pairs) for text in (field, pairs[field]))


def _separated(*texts: str | bytes) -> bytes:
    """Join texts by a separator that keeps different lists different."""
    return b"".join(each for text in texts for each in (text if isinstance(text, bytes) else text.encode(), b"\0"))
