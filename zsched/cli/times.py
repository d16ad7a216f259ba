"""Instants and durations as people read them, and instants as JSON has them."""

from __future__ import annotations

from datetime import UTC, datetime

from zsched.core.clock import Clock, SystemClock
from zsched.core.sentences import local_text as local_text

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def relative_text(ms: int, now_ms: int) -> str:
    """``in 3d 4h`` or ``12s ago``: the two largest units, whole ones."""
    distance = abs(ms - now_ms)
    if distance < 1000:
        return "now"
    parts: list[str] = []
    for unit, size in _UNITS:
        if distance >= size or parts:
            parts.append(f"{distance // size}{unit}")
            distance %= size
        if len(parts) == 2:
            break
    text = " ".join(part for part in parts if not part.startswith("0"))
    return f"in {text}" if ms > now_ms else f"{text} ago"


def due_text(ms: int, tz: str, clock: Clock | None = None) -> str:
    """Both: ``2026-12-24 18:00:00+09:00 (in 3d 4h)``."""
    return f"{local_text(ms, tz)} ({relative_text(ms, (clock or SystemClock()).now_ms())})"


def iso_text(at: datetime) -> str:
    """``2026-12-24T18:00:00+09:00``; with milliseconds if there are any."""
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds")


def utc_text(at: datetime) -> str:
    """The same instant in UTC: ``2026-12-24T09:00:00Z``."""
    return iso_text(at.astimezone(UTC)).replace("+00:00", "Z")
