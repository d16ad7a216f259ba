"""
What a recurring trigger says, as a frozen value: the text that is stored, and nothing computed.

``TriggerSpec.to_text`` is canonical: equal rules give equal text. The engine compares that text
to decide whether a re-put changed the rule.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from functools import lru_cache


class Gap(Enum):
    """What becomes of a local time that a zone skips (spring forward)."""

    FIRST_VALID = "first_valid"  # moved to the first instant after the gap
    SHIFT = "shift"  # moved forward by the gap's length
    SKIP = "skip"  # this occurrence does not happen


class Fold(Enum):
    """Which pass of a local time that a zone repeats (fall back)."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class TriggerKind(Enum):
    """The recurring kinds; a one-shot's trigger is just an instant."""

    EVERY = "every"
    CRON = "cron"
    RRULE = "rrule"


@dataclass(frozen=True, slots=True)
class TriggerSpec:
    """
    One recurring rule. Instants are integer epoch milliseconds.

    ``expr`` is: every → whole milliseconds as decimal text; cron → the expression, fields
    separated by single spaces; rrule → the RRULE value without a COUNT (``count`` carries it).
    ``starts_ms`` and ``ends_ms`` are inclusive. ``count`` counts occurrences, not runs. ``jitter_ms``: occurrences
    are due up to so much later than their nominal times (``core.jitter``); triggers give nominal times.
    """

    kind: TriggerKind
    expr: str
    tz: str = "UTC"
    starts_ms: int | None = None
    ends_ms: int | None = None
    count: int | None = None
    gap: Gap = Gap.FIRST_VALID
    fold: Fold = Fold.FIRST
    jitter_ms: int = 0

    def to_text(self) -> str:
        """Canonical JSON of the fields that differ from their defaults; kind, expr and tz always stand."""
        default = TriggerSpec(self.kind, self.expr)
        fields = {
            name: value.value if isinstance(value, Enum) else value
            for name, value in asdict(self).items()
            if name in ("kind", "expr", "tz") or value != getattr(default, name)
        }
        return json.dumps(fields, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> TriggerSpec:
        """The inverse of ``to_text``. Raises ValueError, KeyError or TypeError for foreign text."""
        fields = json.loads(text)
        fields["kind"] = TriggerKind(fields["kind"])
        for name, enum in (("gap", Gap), ("fold", Fold)):
            if name in fields:
                fields[name] = enum(fields[name])
        return cls(**fields)

    @property
    def is_of_zone(self) -> bool:
        """Whether a zone's rules decide when it is due."""
        return self.tz != "UTC" and self.kind is not TriggerKind.EVERY


@lru_cache(maxsize=50_000)  # rules: some 500 bytes each, their text included (measured)
def spec_of(stored: bytes) -> TriggerSpec:
    """The rule that is *stored*, as Redis gives its text; each is read once. Raises as ``TriggerSpec.from_text``."""
    return TriggerSpec.from_text(stored.decode())
