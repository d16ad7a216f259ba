"""Wording of numbers of things, and of lists, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_SHOWN: Final = 4  # names; of more, it is said that there are


def plural(number: int, noun: str) -> str:
    """``1 run``, ``2,000 runs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def some(names: Sequence[str], most: int = _SHOWN) -> str:
    """The first of *names*, by commas."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def alternatives(names: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
