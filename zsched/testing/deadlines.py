"""
Deadlines of runs (``expires_after``) by a clock that stands still.

In production a run's hash lapses at its deadline, by a time to live of Redis, unless a worker began with it before and
took that away. A frozen clock leaves Redis' own running, so here every such run gets one that no test outlives, and
what the frozen clock has passed is deleted by hand: the queue still holds its id, which RQ's worker passes over.

Not guaranteed: that a run lives whose deadline is nearer than what Redis' clock needs from its push to the scheduler's
next call, a few milliseconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.testing.pushes import Push

_OUTLIVES_MS: Final = 10 * 366 * 86_400_000
_WAITING: Final = (b"queued", b"deferred")


class ManualDeadlines:
    """Deadlines of one namespace's runs that have not begun."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys = wire, keys
        self._waiting: list[tuple[int, str]] = []

    def note(self, pushes: Iterable[Push]) -> None:
        """Keep what has a deadline from lapsing by itself."""
        for push in pushes:
            if push.deadline_ms is not None:
                self._wire.execute("PEXPIRE", self._keys.rq.job(push.run_id), _OUTLIVES_MS)
                heapq.heappush(self._waiting, (push.deadline_ms, push.run_id))

    def expire(self, now_ms: int) -> list[str]:
        """It is *now_ms*: what should have begun by then is gone; the run ids."""
        expired = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            run_id = heapq.heappop(self._waiting)[1]
            job_key = self._keys.rq.job(run_id)
            status, lives_ms = self._wire.execute("HGET", job_key, "status"), self._wire.execute("PTTL", job_key)
            if status in _WAITING and lives_ms > 0:  # RQ's worker takes it away when it begins: a retry has none
                self._wire.execute("DEL", job_key)
                expired.append(run_id)
        return expired
