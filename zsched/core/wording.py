"""Wording for people: numbers of things, lists, and durations as people write them (``90``, ``5m``, ``1h30m``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
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


_UNITS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}(\.\d{1,9})?", re.ASCII)
_PARTS: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(ms|[wdhms])", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """
    Seconds, or numbers with w, d, h, m, s, ms: ``90``, ``5m``, ``1h30m``, ``500ms``.

    Raises:
        ValueError: it is none; the message repeats it and says what to give.
    """
    try:
        if _NUMBER.fullmatch(text):
            return _exactly(text, _UNITS["s"])
        parts = _PARTS.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            return sum((_exactly(number, _UNITS[unit]) for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"{text!r} is longer than any duration; give less") from None
    raise ValueError(f"{text!r} is no duration; give seconds, or 500ms, 5m, 1h30m, 2d")


def duration_text(ms: int) -> str:
    """*ms*, not negative, as ``parse_duration`` reads it, in the largest units: 5400000 is 1h30m."""
    if ms == 0:
        return "0s"
    text, rest = "", ms
    for unit, size in _UNITS.items():
        if unit != "w" and rest >= size:
            text, rest = f"{text}{rest // size}{unit}", rest % size
    return text


def relative_text(ms: int, now_ms: int) -> str:
    """``in 3d 4h`` or ``12s ago``: the two largest units, whole ones."""
    distance = abs(ms - now_ms)
    if distance < 1000:
        return "now"
    parts: list[str] = []
    for unit, size in list(_UNITS.items())[1:5]:  # d, h, m, s
        if distance >= size or parts:
            parts.append(f"{distance // size}{unit}")
            distance %= size
        if len(parts) == 2:
            break
    text = " ".join(part for part in parts if not part.startswith("0"))
    return f"in {text}" if ms > now_ms else f"{text} ago"


def _exactly(number: str, unit_ms: int) -> timedelta:
    whole, _, fraction = number.partition(".")
    microseconds = int(fraction.ljust(9, "0")) * unit_ms // 1_000_000 if fraction else 0
    sign = -1 if whole.startswith("-") else 1
    return timedelta(milliseconds=int(whole) * unit_ms) + sign * timedelta(microseconds=microseconds)
