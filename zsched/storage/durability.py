"""
``durable=True``: a change is acknowledged when at least one archive has it on its disk.

The entry that a script wrote is found again in the log by its id and time; then the reports of the archives
are asked until one that follows this very log has come that far. It costs the change one more round trip
before, and some after: a few milliseconds, for the archive's fsync.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from zsched.core.clock import Clock
from zsched.errors import NotArchived, RedisUnavailable
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

    def require(self, written: str = "nothing was written") -> None:
        """
        Before anything is written: there must be an archive to wait for. *written*: what there is otherwise.

        Raises:
            NotArchived: none is alive.
        """
        if not self._archivers.alive():
            problem = "no daemon with an archive follows this namespace, so durable=True cannot be kept"
            raise NotArchived(f"{problem}; {written}; start zsched daemon", is_in_redis=False)

    def wait_for(self, entry: str, entry_ms: int, what: str, is_repeatable: bool = True) -> None:
        """
        Until an archive has the entry with id *entry*, written at *entry_ms* by the server's clock. *what* was
        changed, and whether the same call again would be the same, is for the message.

        Raises:
            NotArchived: not within the timeout, or Redis lost the entry.
            RedisUnavailable: it cannot be known; the entry was written.
        """
        with _written(what):
            self._wait_for(entry, entry_ms, what, is_repeatable)

    def wait_for_all(self, what: str) -> None:
        """Until an archive has all that the log holds now. Raises as ``wait_for``."""
        with _written(what):
            last = self._log.last()
            if last is None:
                problem = f"{what}: Redis lost its log before an archive had all of it"
                raise NotArchived(f"{problem}; {_NOTHING}", is_in_redis=False)
            self._wait_for(last.position.id, last.position.t_us // 1000, what, is_repeatable=True)

    def _wait_for(self, entry: str, entry_ms: int, what: str, is_repeatable: bool) -> None:
        for _ in self._looks():
            word = self._archivers.archived(entry, entry_ms)
            if word == "archived":
                return
            if word == "LOST":
                raise NotArchived(
                    f"{what}: Redis lost log entry {entry} before an archive had it; {_NOTHING}", is_in_redis=False
                )
        problem = f"{what}: in Redis, but no archive had it on disk within {self._timeout_s:g} s"
        again = "the same call again waits again" if is_repeatable else "the same call again would do it twice"
        remedy = f"it fires unless Redis loses it; {again}; see zsched status"
        raise NotArchived(f"{problem}; {remedy}", is_in_redis=True)

    def _looks(self) -> Iterator[None]:
        """Once now, then again and again with growing pauses, until the time is over."""
        pause_s, until_ms = _FIRST_PAUSE_S, self._clock.monotonic_ms() + self._timeout_s * 1000
        yield
        while self._clock.monotonic_ms() < until_ms:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            yield


@contextmanager
def _written(what: str) -> Iterator[None]:
    """When Redis goes away inside the block, *what* was written all the same."""
    try:
        yield
    except RedisUnavailable as error:
        message = f"{what}: written, but whether an archive has it is not known: {error}"
        raise RedisUnavailable(message, may_have_been_applied=True) from error
