"""How much one call may take: schedules of a script by time, entries of the log by weight."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zsched.core.log import Entry

_FIRST: Final = 500
_WINDOW: Final = 100  # scripts; for what is older the network may have become another
_SMALL: Final = 20  # a script that does no more than this part of a batch takes about a round trip
_PAGE_BYTES: Final = 4 << 20  # of a page of the log, about


class Batch:
    """
    A batch size steered by time: what a script took, less the round trip, is brought to *target_ms*.

    500 one-shots take 1.6 to 2.7 ms, 4,000 take 22 ms (measured on Redis 7.0); with an AOF, or on another
    machine, fewer fit. So it begins with 500 at most.

    The round trip is the least that one of the last 100 to 200 scripts took, so a network that becomes slower is
    noticed. Under a backlog each of them is full, and works longer than that: then one script of 100 is a small one.
    """

    def __init__(self, most: int, target_ms: float, least: int = 50) -> None:
        self._size = min(most, _FIRST)
        self._most, self._least, self._target_ms = most, min(least, most), target_ms
        self._least_ms = self._least_ms_before = float("inf")  # that a script took, in this window and the one before
        self._seen, self._has_small = 0, False  # of this window

    @property
    def size(self) -> int:
        """How many the next script may take."""
        return self._small if self._measures else self._size

    def learn(self, took_ms: float, done: int) -> None:
        """A script that did *done* took *took_ms* as the caller saw it."""
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
        """Whether the next script is there to measure the round trip: the last of a window without a small one."""
        return self._seen == _WINDOW - 1 and not self._has_small

    def _see(self, took_ms: float, done: int) -> None:
        self._least_ms = min(self._least_ms, took_ms)
        self._has_small = self._has_small or done <= self._small
        self._seen += 1
        if self._seen == _WINDOW:
            self._least_ms_before, self._least_ms = self._least_ms, float("inf")
            self._seen, self._has_small = 0, False


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
