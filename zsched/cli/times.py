"""Instants and durations as people read them, and instants as JSON has them."""

from __future__ import annotations

from datetime import UTC, datetime

from zsched.core.clock import Clock, SystemClock
from zsched.core.sentences import local_text as local_text
from zsched.core.wording import relative_text


def due_text(ms: int, tz: str, clock: Clock | None = None) -> str:
    """Both: ``2026-12-24 18:00:00+09:00 (in 3d 4h)``."""
    return f"{local_text(ms, tz)} ({relative_text(ms, (clock or SystemClock()).now_ms())})"


def iso_text(at: datetime) -> str:
    """``2026-12-24T18:00:00+09:00``; with milliseconds if there are any."""
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds")


def utc_text(at: datetime) -> str:
    """The same instant in UTC: ``2026-12-24T09:00:00Z``."""
    return iso_text(at.astimezone(UTC)).replace("+00:00", "Z")
