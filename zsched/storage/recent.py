"""
The last minutes of one namespace, read backwards from the end of its log in Redis. Nothing here writes.

It takes a quarter of a second at most, and of Redis some milliseconds at a time (``Log.pages_back``), however much
there is: it is for people who look at a system in trouble. How far that came, the answer says.
"""

from __future__ import annotations

from typing import Final

from zsched.core.clock import Clock
from zsched.core.recent import Counting, Recent
from zsched.storage.log import Log

_LOOKED_FOR_MS: Final = 250.0


def recent(log: Log, now_ms: int, run_suffix: str, clock: Clock) -> Recent:
    """What *log* tells of the time before *now_ms*, the server's; *run_suffix* as in ``core.recent``."""
    counting, oldest_seq = Counting(now_ms, run_suffix), 1
    for entry in log.back(for_ms=_LOOKED_FOR_MS, clock=clock):
        if not counting.see(entry):
            return counting.told(is_all=True)
        oldest_seq = entry.position.seq
    return counting.told(is_all=oldest_seq == 1)  # else it was trimmed, or the time is over
