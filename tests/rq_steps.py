"""Steps of RQ's worker that have different names in its versions."""

from __future__ import annotations

from inspect import signature

from rq import Queue, Worker
from rq.executions import Execution
from rq.job import Job


def perform(worker: Worker, job: Job, queue: Queue, execution: Execution) -> None:
    """Perform *job*; RQ 3's ``perform_job`` also takes the execution, which RQ 2's worker knows by itself."""
    arguments = (job, queue, execution)
    worker.perform_job(*arguments[: len(signature(worker.perform_job).parameters)])
