"""Fired runs, read from the log that every script appends to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zsched.core.changes import What
from zsched.core.log import Entry, changes
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

_DECIDED: Final = (What.FIRED, What.SKIPPED, What.EXPIRED, What.DUPLICATE)
_PAGE: Final = 100  # log entries per read; one may hold 500 run ids


@dataclass(frozen=True, slots=True)
class DecidedOccurrence:
    """
    One occurrence that has been decided. ``run_id`` is None when it was not pushed, and ``why`` says why.

    ``at_us`` is the Redis server's time of that decision in microseconds, ``late_ms`` how long after its
    nominal time that was.
    """

    schedule_id: str
    nominal_ms: int
    at_us: int
    run_id: str | None
    why: str = ""

    @property
    def late_ms(self) -> float:
        return self.at_us / 1000 - self.nominal_ms


class LogReader:
    """Follows the log of one namespace from its beginning."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._keys = link, keys
        self._last = "0-0"

    def read(self, wait_ms: int) -> list[DecidedOccurrence]:
        """
        Return what was decided since the last call; wait up to *wait_ms* (at least 1) if that is nothing.

        Raises:
            RedisUnavailable: the server is gone.
        """
        source = (self._keys.log(), self._last)
        reply = self._link.execute("XREAD", "COUNT", _PAGE, "BLOCK", wait_ms, "STREAMS", *source)
        found: list[DecidedOccurrence] = []
        for entry_id, texts in reply[0][1] if reply else ():
            self._last = entry_id.decode()
            found += self._occurrences(Entry.of(entry_id, texts))
        return found

    def _occurrences(self, entry: Entry) -> Iterator[DecidedOccurrence]:
        for change in changes(entry, self._keys.run_suffix):
            if change.what in _DECIDED and change.nominal_ms is not None:
                pushed = change.run_id if change.what is What.FIRED else None
                why = "" if pushed else f"{change.what.value} {change.why}".rstrip()
                yield DecidedOccurrence(change.id, change.nominal_ms, change.at_us, pushed, why)
