"""
The one module that reads a clock.

Durations come from the monotonic clock. Stored instants come from the Redis server's TIME; the wall
clock of this machine makes a first guess, which the server's scripts check (the bracket of ``put_recurring``).
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z, the last instant that datetime and RQ can write


class Clock(Protocol):
    """The only source of time for the rest of zsched."""

    def now_ms(self) -> int:
        """Return the wall clock, in epoch milliseconds: a guess of the server's TIME."""

    def monotonic_ms(self) -> float:
        """Return milliseconds of a clock that never jumps."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1_000_000


SYSTEM: Final = SystemClock()


@dataclass
class ManualClock:
    """A clock for tests, which moves only by its methods. ``advance`` moves wall and monotonic time together."""

    wall_ms: float = 1_767_225_600_000  # 2026-01-01T00:00Z
    elapsed_ms: float = 0.0

    def now_ms(self) -> int:
        return int(self.wall_ms)

    def monotonic_ms(self) -> float:
        return self.elapsed_ms

    def advance(self, ms: float) -> None:
        """Time passes."""
        self.wall_ms += ms
        self.elapsed_ms += ms

    def jump(self, ms: int) -> None:
        """Set the wall clock; no time passes."""
        self.wall_ms += ms


def to_ms(instant: datetime) -> int:
    """
    Return the epoch milliseconds of an aware *instant*, rounded up, so that nothing is early.

    Raises:
        ValueError: *instant* is naive.
    """
    try:
        return -((_EPOCH - instant) // _MS)
    except TypeError as error:
        raise ValueError("a naive datetime is ambiguous") from error


def clamped_ms(ms: int) -> int:
    """Return *ms*, which another writer may have written, limited to the years 1970 to 9999."""
    return min(max(ms, 0), LAST_MS)


def from_ms(ms: int) -> datetime:
    """Return the aware UTC datetime of epoch milliseconds."""
    return _EPOCH + timedelta(milliseconds=ms)
