"""How findings name numbers of things, and many things."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_SHOWN: Final = 4  # names; of more, it is said that there are


def counted(number: int, noun: str) -> str:
    """``1 worker``, ``2,000 workers``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def some(names: Sequence[str]) -> str:
    """The first of *names*, by commas."""
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
