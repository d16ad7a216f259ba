"""
Workers of RQ that record each attempt, and can refuse a job: ``rq worker --worker-class zsched.rq.Worker``.

A plain RQ worker stores the traceback of the last attempt only: what it retries leaves no trace. ``RecordsAttempts`` is
for an own class: ``class Mine(RecordsAttempts, rq.SpawnWorker)``. All are used with RQ 2.8 and later.

A plain RQ worker calls whatever a job names. With ``[worker] guard = "enforce"`` these run what is signed and allowed
only (docs/how-to/sign-jobs.md). ``Guarded`` is for an own class, too, before ``RecordsAttempts``.
"""

from zsched.rq.guarded import Guarded
from zsched.rq.job import Job
from zsched.rq.parts import RecordsAttempts
from zsched.rq.workers import SimpleWorker, Worker

__all__ = ["Guarded", "Job", "RecordsAttempts", "SimpleWorker", "Worker"]
