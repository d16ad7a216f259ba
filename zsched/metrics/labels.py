"""Values of labels: what others wrote, made fit to be shown, and never more of them than Prometheus can bear."""

from __future__ import annotations

from threading import Lock
from typing import Final

MOST: Final = 50  # values of one label: with more queues a scrape takes longer than 10 ms (measured)
OTHER: Final = "other"  # stands for those that came later
UNKNOWN: Final = "unknown"  # nobody recorded it
_LONGEST: Final = 200  # characters


class Names:
    """The first names that came, each under itself, *most* of them at most; the others are all ``other``."""

    def __init__(self, most: int = MOST) -> None:
        self._room, self._known, self._lock = most, {OTHER, UNKNOWN}, Lock()

    def of(self, name: str) -> str:
        """The label's value for *name*; the same from now on. Any thread may ask."""
        if name in self._known:
            return name
        name = label_text(name) or UNKNOWN
        with self._lock:
            if name not in self._known and self._room:
                self._room -= 1
                self._known.add(name)
        return name if name in self._known else OTHER


def label_text(value: str) -> str:
    """*value* as UTF-8 can say it, cut to a length that is bearable in each line of a page."""
    return value.encode(errors="backslashreplace").decode()[:_LONGEST]
