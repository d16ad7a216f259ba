"""
The last minutes of a log, counted backwards from its end: for operators who look at a system in trouble.

For any length of the log, a reading takes at most a quarter of a second, and some milliseconds of Redis at a time. The
result has the time that was covered. Who reads again, such as a page that stays open, gets more of it: a reading counts
what is new, and goes on where the one before had to stop.
"""

from __future__ import annotations

from threading import Lock
from typing import Final

from zsched.core.clock import Clock
from zsched.core.entry import Entry, Position
from zsched.core.occurrences.recent import Counting, Recent
from zsched.storage.log import Log

_LOOKED_FOR_MS: Final = 250.0
_BACK_MS: Final = 1000  # a clock that was set back by more was ahead: what it counted as new may be in the future


class LastMinutes:
    """
    The last minutes of *log*; *run_suffix* as in ``core.occurrences.recent``. Threads may share it: they read in turn.
    """

    def __init__(self, log: Log, run_suffix: str) -> None:
        self._log, self._run_suffix, self._lock = log, run_suffix, Lock()
        self._part: _Part | None = None
        self._read_ms = 0

    def read(self, now_ms: int, clock: Clock) -> Recent:
        """
        Return the counts before *now_ms*, the server's time; *clock* measures the time of this reading. Raises
        RedisUnavailable, RedisRefused.
        """
        with self._lock:
            known = self._part if now_ms >= self._read_ms - _BACK_MS else None
            self._part, self._read_ms = None, now_ms  # a reading that fails is forgotten
            part = self._newer(known, now_ms, clock.monotonic_ms() + _LOOKED_FOR_MS, clock)
            found = part.counting.told(now_ms, is_all=part.is_all)
            self._part = part
            return found

    def _newer(self, known: _Part | None, now_ms: int, until_ms: float, clock: Clock) -> _Part:
        """Count the entries behind *known*, then those before it. If the log does not hold its end, count anew."""
        part = _Part(self._run_suffix)
        for entry in self._log.back(for_ms=until_ms - clock.monotonic_ms(), clock=clock):
            if known is not None and entry.position == known.newest:
                part.append(known)
                if not part.is_all:
                    self._go_on(part, now_ms, until_ms, clock)
                break
            if not part.see(entry, now_ms):
                break
        return part

    def _go_on(self, part: _Part, now_ms: int, until_ms: float, clock: Clock) -> None:
        for entry in self._log.back(before=part.oldest, for_ms=until_ms - clock.monotonic_ms(), clock=clock):
            if not part.see(entry, now_ms):
                break


class _Part:
    """The end of the log, as far as it was counted. ``is_all``: nothing before it is needed."""

    def __init__(self, run_suffix: str) -> None:
        self.counting = Counting(run_suffix)
        self.newest: Position | None = None
        self.oldest: Position | None = None
        self.is_all = True  # an empty log

    def see(self, entry: Entry, now_ms: int) -> bool:
        """Count *entry*; return False if it is too old."""
        is_wanted = self.counting.see(entry, now_ms)
        self.newest = self.newest or entry.position
        self.oldest, self.is_all = entry.position, not is_wanted or entry.position.seq == 1
        return is_wanted

    def append(self, older: _Part) -> None:
        """Add *older*, which ends where this part begins."""
        self.counting.append(older.counting)
        self.newest = self.newest or older.newest
        self.oldest, self.is_all = older.oldest, older.is_all
