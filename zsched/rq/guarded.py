"""
The part of a worker class that asks the guard, before one of RQ's: ``class Mine(Guarded, rq.SpawnWorker)``.

All jobs of such a worker are ``zsched.rq.Job``: those that it takes, and those that its maintenance finds. A refused
job ends as failed, with the reason as its error, and without a further attempt. Its task, its callbacks and its
webhooks do not run. The tracker records its run as ``refused``.

RQ's own scheduler is not started beside a guard: its process reads jobs by RQ's class, which unpickles their ``meta``.
zsched's daemon moves RQ's delayed jobs instead (``[rq] native``).
"""

from __future__ import annotations

from typing import Any

import rq.job
from rq import Queue
from rq.utils import now
from rq.worker import BaseWorker

from zsched.errors import ConfigError
from zsched.rq import process
from zsched.rq.attempts import log
from zsched.rq.guard import GuardMode, JobGuard, refusal_text
from zsched.rq.job import Job
from zsched.rq.plain import plain_of
from zsched.storage.queues import GUARD_FIELD, WARNED_FIELD


class Guarded(BaseWorker):
    """A part of a worker class, before one of RQ's: it runs a job only if the guard of this process lets it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.guard: JobGuard = process.guard()
        if not self.guard.is_on:
            return
        if not issubclass(self.job_class, Job):
            if self.job_class is not rq.job.Job:
                name = f"{self.job_class.__module__}.{self.job_class.__qualname__}"
                raise ConfigError(f"job class {name}: a guarded worker needs zsched.rq.Job, or a class derived from it")
            self.job_class = Job
        self.serializer = plain_of(self.serializer, self.guard.reader)
        for queue in self.queues:
            queue.job_class, queue.serializer = self.job_class, self.serializer
        if isinstance(self.serializer, type):
            self._serializer_arg = f"{self.serializer.__module__}.{self.serializer.__qualname__}"

    def serialize(self) -> dict[str, Any]:
        """Return the worker's hash, with the mode of its guard."""
        return {**super().serialize(), GUARD_FIELD: self.guard.mode.value}

    def execute_job(self, job: Any, queue: Queue) -> None:
        """Execute *job*, or record why it is refused."""
        if not self.guard.is_on:
            super().execute_job(job, queue)
        elif job.refusal:
            self._refuse(job, queue)
        else:
            if self.guard.mode is GuardMode.WARN and job.permission.refusal:
                self._warn(job)
            super().execute_job(job, queue)

    def _warn(self, job: Any) -> None:
        reason = job.permission.refusal
        log.warning("Worker %s: job %s: enforce would refuse it: %s", self.name, job.id, reason)
        with self.connection.pipeline() as pipeline:
            pipeline.hset(job.key, WARNED_FIELD, reason)
            pipeline.hincrby(self.key, WARNED_FIELD, 1)
            pipeline.execute()

    def _refuse(self, job: Any, queue: Queue) -> None:
        log.error("Worker %s: job %s is refused: %s", self.name, job.id, job.refusal)
        execution = self.prepare_execution(job)
        self.prepare_job_execution(job, len(self.queues) == 1)
        job.ended_at = now()
        self.handle_job_failure(job, queue, exc_string=refusal_text(job.refusal), execution=execution)
        self.set_state("idle")

    def _start_scheduler(self, *args: Any, **options: Any) -> None:
        if not self.guard.is_on:
            super()._start_scheduler(*args, **options)
            return
        log.warning("Worker %s: RQ's scheduler is not started beside a guard; zsched's daemon does its work", self.name)
