"""
The last minutes of a log, counted backwards from its end: for operators who look at a system in trouble.

For any length of the log, a reading takes at most a quarter of a second, and some milliseconds of Redis at a time. The
result has the time that was covered. Who reads again, such as a page that stays open, gets more of it: a reading counts
what is new, and continues where the one before had to stop.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Final

from zsched.core.clock import Clock
from zsched.core.known import Known
from zsched.core.occurrences.recent import LogCounter, RecentActivity
from zsched.storage.log import Log

_LOOKED_FOR_MS: Final = 250.0
_BACK_MS: Final = 1000  # a clock that was set back by more was ahead: what it counted as new may be in the future


class LastMinutes:
    """
    The last minutes of *log*; *run_suffix* as in ``core.occurrences.recent``. Threads may share it: they read in turn.
    """

    def __init__(self, log: Log, run_suffix: str) -> None:
        self._log, self._run_suffix, self._lock = log, run_suffix, Lock()
        self._counted: LogCounter | None = None
        self._known: Sequence[Known] = ()
        self._read_ms = 0

    def read(self, now_ms: int, clock: Clock, known: Sequence[Known] = ()) -> RecentActivity:
        """
        Return the counts before *now_ms*, the server's time; *clock* measures the time of this reading. Of *known*
        failures only the number is there; others than last time: all is counted anew. Raises RedisUnavailable,
        RedisRefused.
        """
        with self._lock:
            is_newer = now_ms >= self._read_ms - _BACK_MS and known == self._known
            counted = self._counted if is_newer else None
            self._counted, self._known, self._read_ms = None, known, now_ms  # a reading that fails is forgotten
            counter = self._read(counted, now_ms, clock.monotonic_ms() + _LOOKED_FOR_MS, clock)
            found = counter.summary(now_ms)
            self._counted = counter
            return found

    def _read(self, counted: LogCounter | None, now_ms: int, until_ms: float, clock: Clock) -> LogCounter:
        """Count the entries behind *counted*, then those before it. If the log does not hold its end, count anew."""
        counter = LogCounter(self._run_suffix, known=self._known)
        for entry in self._log.back(for_ms=until_ms - clock.monotonic_ms(), clock=clock):
            if counted is not None and entry.position == counted.newest:
                counter.append(counted)
                break
            if not counter.add(entry, now_ms):
                return counter
        if counted is not None and counter.oldest == counted.oldest and not counter.is_all:
            for entry in self._log.back(before=counted.oldest, for_ms=until_ms - clock.monotonic_ms(), clock=clock):
                if not counter.add(entry, now_ms):
                    break
        return counter
