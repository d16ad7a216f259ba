"""
The last minutes of one namespace, read backwards from the end of its log in Redis. Nothing here writes.

It takes a quarter of a second at most, and of Redis some milliseconds at a time, however much there is: it is for
people who look at a system in trouble. How far that came, the answer says.
"""

from __future__ import annotations

from typing import Final

from zsched.core.clock import Clock
from zsched.core.recent import Counting, Recent
from zsched.storage.log import Log

_LOOKED_FOR_MS: Final = 250.0
_FEW, _MANY = 20, 500  # entries of one read: they may be of half a megabyte each, or of 100 bytes
_READ_MS: Final = 5.0  # that one read may take


def recent(log: Log, now_ms: int, run_suffix: str, clock: Clock) -> Recent:
    """What *log* tells of the time before *now_ms*, the server's; *run_suffix* as in ``core.recent``."""
    counting, last, size, oldest_seq = Counting(now_ms, run_suffix), "+", _FEW, 1
    until_ms = clock.monotonic_ms() + _LOOKED_FOR_MS
    while True:
        sent_ms = clock.monotonic_ms()
        page = log.read_back(last, size)
        took_ms = clock.monotonic_ms() - sent_ms
        for entry in page:
            if not counting.see(entry):
                return counting.told(is_all=True)
        oldest_seq = page[-1].position.seq if page else oldest_seq
        if len(page) < size:
            return counting.told(is_all=oldest_seq == 1)  # else it was trimmed
        if clock.monotonic_ms() >= until_ms:
            return counting.told(is_all=False)
        last = f"({page[-1].position.id}"
        size = min(2 * size, _MANY) if took_ms < _READ_MS else max(size // 2, _FEW)
