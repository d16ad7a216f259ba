"""A worker class of one's own, with a guard."""

from __future__ import annotations

from rq import SpawnWorker

from zsched.rq import Guarded, RecordsAttempts


class Spawning(Guarded, RecordsAttempts, SpawnWorker):
    """RQ's worker that spawns a fresh process for each task."""
