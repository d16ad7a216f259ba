"""How much one call may take: schedules of a script by time, entries of the log by weight."""

from __future__ import annotations

from collections.abc import Iterable

from zsched.core.log import Entry

_FIRST = 500
_PAGE_BYTES = 4 << 20  # of a page of the log, about


class Batch:
    """
    A batch size steered by time: what a script took, less the round trip, is brought to *target_ms*.

    500 one-shots take 1.6 to 2.7 ms, 4,000 take 22 ms (measured on Redis 7.0); with an AOF, or on another
    machine, fewer fit. So it begins with 500 at most.
    """

    def __init__(self, most: int, target_ms: float, least: int = 50) -> None:
        self.size = min(most, _FIRST)
        self._most, self._least, self._target_ms = most, min(least, most), target_ms
        self._round_trip_ms = float("inf")

    def learn(self, took_ms: float, done: int) -> None:
        """A script that did *done* took *took_ms* as the caller saw it."""
        self._round_trip_ms = min(self._round_trip_ms, took_ms)
        if done < self.size:
            return
        worked_ms = max(took_ms - self._round_trip_ms, 0.01)
        factor = min(max(self._target_ms / worked_ms, 0.5), 1.25)
        self.size = int(min(max(self.size * factor, self._least), self._most))


class Pages:
    """
    How many entries one read of the log may bring: one, then twice as many each time, as long as they are light.

    XRANGE counts entries and not bytes, so what comes next may be heavier than all before it; then the page after it is
    short.
    """

    def __init__(self, most: int) -> None:
        self.size, self._most = 1, most

    def learn(self, entries: Iterable[Entry]) -> None:
        """*entries* were read."""
        heaviest = max((sum(map(len, entry.body)) for entry in entries), default=0)
        self.size = max(min(2 * self.size, self._most, _PAGE_BYTES // max(heaviest, 1)), 1)
