"""Guarded worker classes of one's own."""

import os
import signal
from typing import Any

from rq import SpawnWorker

from zsched.rq import Guarded, RecordsAttempts, SimpleWorker
from zsched.rq.guard import Permission


class Spawning(Guarded, RecordsAttempts, SpawnWorker):
    """RQ's worker that spawns a fresh process for each task."""


class Stopped(SimpleWorker):
    """A worker that gets SIGTERM while it decides on its first job."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        decide = self.guard.decide

        def decided(*given: Any) -> Permission:
            self.guard.decide = decide  # type: ignore[method-assign]  # once
            os.kill(os.getpid(), signal.SIGTERM)
            return decide(*given)

        self.guard.decide = decided  # type: ignore[method-assign]
