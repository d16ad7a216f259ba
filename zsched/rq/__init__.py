"""
Workers of RQ that record each attempt of a run: ``rq worker --worker-class zsched.rq.Worker``.

A plain RQ worker stores the traceback of the last attempt only: what it retries leaves no trace. ``RecordsAttempts`` is
for an own class: ``class Mine(RecordsAttempts, rq.SpawnWorker)``. All are used with RQ 2.8 and later.
"""

from zsched.rq.attempts import RecordsAttempts
from zsched.rq.workers import SimpleWorker, Worker

__all__ = ["RecordsAttempts", "SimpleWorker", "Worker"]
