"""
``durable=True``: a change is acknowledged when at least one archive has it on its disk.

The entry that a script wrote is found again in the log by its id and time; then the reports of the archives
are asked until one that follows this very log has come that far. It costs the change one more round trip
before, and some after: a few milliseconds, for the archive's fsync.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from zsched.core.clock import Clock
from zsched.errors import NotArchived
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.02  # between two looks at the reports
_NOTHING = "it is not in Redis either: schedule it again"


class Durability:
    """Waits for the archives of one namespace, *timeout_s* at most."""

    def __init__(self, link: Link, keys: Keys, clock: Clock, timeout_s: float) -> None:
        self._archivers, self._log = Archivers(link, keys), Log(link, keys)
        self._clock, self._timeout_s = clock, timeout_s

    def require(self) -> None:
        """
        Before anything is written: there must be an archive to wait for.

        Raises:
            NotArchived: none is alive; nothing was written.
        """
        if not self._archivers.alive():
            problem = "no daemon with an archive follows this namespace, so durable=True cannot be kept"
            raise NotArchived(f"{problem}; nothing was written; start zsched daemon", is_in_redis=False)

    def wait_for(self, entry: str, entry_ms: int, what: str) -> None:
        """
        Until an archive has the entry with id *entry*, written at *entry_ms* by the server's clock. *what* was
        changed is for the message.

        Raises:
            NotArchived: not within the timeout, or Redis lost the entry.
        """
        for _ in self._looks():
            word = self._archivers.archived(entry, entry_ms)
            if word == "archived":
                return
            if word == "LOST":
                raise NotArchived(
                    f"{what}: Redis lost log entry {entry} before an archive had it; {_NOTHING}", is_in_redis=False
                )
        problem = f"{what} is in Redis, but no archive had it on disk within {self._timeout_s:g} s"
        remedy = "it fires unless Redis loses it; the same call again waits again; see zsched status"
        raise NotArchived(f"{problem}; {remedy}", is_in_redis=True)

    def wait_for_all(self, what: str) -> None:
        """Until an archive has all that the log holds now. Raises NotArchived."""
        last = self._log.last()
        if last is not None:
            self.wait_for(last.position.id, last.position.t_us // 1000, what)

    def _looks(self) -> Iterator[None]:
        """Once now, then again and again with growing pauses, until the time is over."""
        pause_s, until_ms = _FIRST_PAUSE_S, self._clock.monotonic_ms() + self._timeout_s * 1000
        yield
        while self._clock.monotonic_ms() < until_ms:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            yield
