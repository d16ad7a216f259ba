"""
The present state of Redis, read when somebody asks and at most once a second, however many ask.

It has connections of its own with a short timeout: Prometheus gives up after ten seconds by default, and that Redis
does not answer is worth a page too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from zsched.core.clock import Clock
from zsched.errors import ZschedError
from zsched.storage.overview import Overview
from zsched.storage.reader import Reader

LONGEST_S: Final = 2.0  # for a connection or a reply
_EVERY_MS: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Sight:
    """
    One look at Redis; ``overview`` is None when it gave no answer, and ``trouble`` says why. ``depths``: by queue.
    """

    overview: Overview | None = None
    depths: Mapping[str, int] = field(default_factory=dict)
    trouble: str = ""


class Lookout:
    """Looks through *reader*. Any thread may ask; one looks, the others wait for what it sees."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader, self._clock, self._lock = reader, clock, Lock()
        self._sight, self._looked_ms = Sight(), float("-inf")

    def look(self) -> Sight:
        """Redis, as it was a second ago at most; that it does not answer, or refuses, is a sight too."""
        with self._lock:
            if self._clock.monotonic_ms() - self._looked_ms >= _EVERY_MS:
                self._sight = self._see()
                self._looked_ms = self._clock.monotonic_ms()
            return self._sight

    def _see(self) -> Sight:
        try:
            return Sight(self._reader.overview(), self._reader.queue_depths())
        except ZschedError as error:
            return Sight(trouble=str(error))
