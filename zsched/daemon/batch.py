"""Batch size, steered by the time that calls take."""

from typing import Final

_FIRST: Final = 500
_WINDOW: Final = 100  # scripts; the network may have changed since older ones
_SMALL: Final = 20  # a script with this part of a batch takes about a round trip


class Batch:
    """
    A batch size steered by time: a script's time, less the round trip, is brought to *target_ms*.

    500 one-shots take 1.6 to 2.7 ms, 4,000 take 22 ms (measured on Redis 7.0). With an AOF, or on another machine, they
    take longer. So it begins with 500 at most.

    The round trip is the least time of the last 100 to 200 scripts, so a network that becomes slower is noticed. Under
    a backlog every script is full, and takes longer than the round trip. Then one script of 100 is a small one.
    """

    def __init__(self, most: int, target_ms: float, least: int = 50) -> None:
        self._size = min(most, _FIRST)
        self._most, self._least, self._target_ms = most, min(least, most), target_ms
        self._least_ms = self._least_ms_before = float("inf")  # of a script, in this window and the one before
        self._seen, self._has_small = 0, False  # of this window

    @property
    def size(self) -> int:
        """Number of schedules that the next script may take."""
        return self._small if self._measures else self._size

    def learn(self, took_ms: float, done: int) -> None:
        """Note that a script for *done* schedules took *took_ms*, measured by the caller."""
        measured = self._measures
        self._see(took_ms, done)
        if measured or done < self._size:
            return
        worked_ms = max(took_ms - min(self._least_ms, self._least_ms_before), 0.01)
        factor = min(max(self._target_ms / worked_ms, 0.5), 1.25)
        self._size = int(min(max(self._size * factor, self._least), self._most))

    @property
    def _small(self) -> int:
        return min(max(self._size // _SMALL, 2), self._size)

    @property
    def _measures(self) -> bool:
        """True if the next script is to measure the round trip: it is the last of a window without a small one."""
        return self._seen == _WINDOW - 1 and not self._has_small

    def _see(self, took_ms: float, done: int) -> None:
        self._least_ms = min(self._least_ms, took_ms)
        self._has_small = self._has_small or done <= self._small
        self._seen += 1
        if self._seen == _WINDOW:
            self._least_ms_before, self._least_ms = self._least_ms, float("inf")
            self._seen, self._has_small = 0, False
