"""
The kinds of recurring triggers: the one list, and what follows from it.

To add a kind, write its module beside ``every``, ``cron`` and ``rrule``, and name its instance in ``KINDS`` and the
type of its option in ``KindOptions``. Calls, command line, files, messages and listings follow.
"""

from __future__ import annotations

import json
from datetime import timedelta
from functools import lru_cache
from typing import Final, TypedDict

from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Fold, Gap, TriggerKind, TriggerSpec
from zsched.core.wording import alternatives

KINDS: Final[tuple[TriggerKind, ...]] = (EVERY, CRON, RRULE)


class KindOptions(TypedDict, total=False):
    """The options of the kinds, with the types that a caller gives: for editors and type checkers."""

    every: float | timedelta | None
    cron: str | None
    rrule: str | None


RULES: Final = tuple(kind.name for kind in KINDS)
GIVE_A_RULE: Final = f"give {alternatives(RULES)}"  # a remedy: "give every, cron or rrule"

_BY_NAME: Final = {kind.name: kind for kind in KINDS}


def kind_named(name: str) -> TriggerKind:
    """Return the kind called *name*. Raises ValueError when there is none."""
    kind = _BY_NAME.get(name)
    if kind is None:
        raise ValueError(f"{name!r} is no kind of trigger; known are {', '.join(RULES)}")
    return kind


def read_spec(text: str) -> TriggerSpec:
    """Return the rule of which *text* is the ``to_text``. Raises ValueError, KeyError or TypeError for other text."""
    fields = json.loads(text)
    fields["kind"] = kind_named(fields["kind"])
    if "gap" in fields:
        fields["gap"] = Gap(fields["gap"])
    if "fold" in fields:
        fields["fold"] = Fold(fields["fold"])
    return TriggerSpec(**fields)


@lru_cache(maxsize=50_000)  # rules: some 500 bytes each, their text included (measured)
def spec_of(stored: bytes) -> TriggerSpec:
    """Return the rule that is *stored*, as Redis gives its text; each is read once. Raises as ``read_spec``."""
    return read_spec(stored.decode())
