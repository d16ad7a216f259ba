"""RQ's own delayed jobs (``enqueue_in``, ``Retry(interval=…)``) by the frozen clock: when one is due, and moving it."""

from __future__ import annotations

import math
from typing import Final

from zsched.core.clock import LAST_MS
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.native import NativeJobs

_AT_ONCE: Final = 500  # in one script
_NEVER_MS: Final = LAST_MS + 1


class Delayed:
    """
    All queues that RQ knows are served. The daemon looks every second for a due job. Here the clock stops at two times
    of a job, as at a schedule's: the second that RQ wrote, and the millisecond that native.lua then gives it.
    """

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys, self._jobs = wire, keys, NativeJobs(wire, keys)
        self._left: set[bytes] = set()  # queues that somebody else serves, or that have a broken key

    def queues(self) -> list[str]:
        """The queues that RQ knows, by name."""
        return [name.decode() for name in self._jobs.queues()]

    def due_ms(self) -> int:
        """Return when to look at the first job, or a time after all times if there is none."""
        heads = [
            self._wire.execute("ZRANGE", self._keys.rq.registry("scheduled", name), 0, 0, "WITHSCORES")
            for name in self._jobs.queues()
            if name not in self._left
        ]
        return min((math.ceil(float(head[1]) * 1000) for head in heads if head), default=_NEVER_MS)

    def move(self, term: Term) -> None:
        """Look at some of the jobs whose time has come, and push those that are not early."""
        queues = [name for name in self._jobs.queues() if name not in self._left]
        moved = self._jobs.move(term, queues, _AT_ONCE)
        self._left |= moved.others.keys() | moved.broken.keys()

    def release(self, term: Term) -> None:
        """Give RQ's scheduler locks up."""
        self._jobs.release(term, self._jobs.queues())
