"""
The part of a worker class that asks the guard, before one of RQ's: ``class Mine(Guarded, rq.SpawnWorker)``.

All jobs of such a worker are ``zsched.rq.Job``: those that it takes, and those that its maintenance finds. A refused
job ends as failed, with the reason as its error, and without a further attempt. Its task, its callbacks and its
webhooks do not run. The tracker records its run as ``refused``. Two more are refused: a signed job in another queue
than the signed one, and a job that is over. To push the id of such a job is not enough: its status must change, too.

RQ's own scheduler is not started beside a guard: its process reads jobs by RQ's class, which unpickles their ``meta``.
zsched's daemon moves RQ's delayed jobs instead (``[rq] native``).
"""

from typing import Any, Final

import rq.job
from rq import Queue
from rq.job import JobStatus
from rq.utils import now

from zsched.core.runs.job import GUARD_FIELD, WARNED_FIELD
from zsched.core.runs.run import REFUSED
from zsched.errors import ConfigError
from zsched.rq.guard import GuardMode, guard
from zsched.rq.job import Job
from zsched.rq.parts import HidesSecrets
from zsched.rq.plain import log, plain_of
from zsched.storage.rqkeys import RqKeys, prefix_of
from zsched.storage.rqversion import HAS_EXECUTIONS

_OVER: Final = (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.STOPPED, JobStatus.CANCELED)


class Guarded(HidesSecrets):
    """A part of a worker class, before one of RQ's: it runs a job only if the guard of this process lets it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.guard = guard()
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

    def register_birth(self) -> None:
        """Register the worker, with the mode of its guard."""
        super().register_birth()  # type: ignore[no-untyped-call]  # RQ's
        self.connection.hset(self.key, GUARD_FIELD, self.guard.mode.value)

    def execute_job(self, job: Any, queue: Queue) -> None:
        """Execute *job*, or record why it is refused. A job that is over is unchanged."""
        if not self.guard.is_on:
            super().execute_job(job, queue)
            return
        status = job.get_status(refresh=False)
        over = f"it is over: its status is {status.value}" if status in _OVER else ""
        refusal = job.permission.refusal or _elsewhere(job, queue)
        job.permission = job.permission._replace(refusal=refusal)  # for its callbacks and retries
        if reason := refusal or over:
            if self.guard.mode is GuardMode.ENFORCE:
                self._refuse(job, queue, reason, is_over=bool(over))
                return
            self._warn(job, queue, reason)
        super().execute_job(job, queue)

    def _warn(self, job: Any, queue: Queue, reason: str) -> None:
        log.warning("Worker %s: job %s: enforce would refuse it: %s", self.name, job.id, reason)
        with self.connection.pipeline() as pipeline:
            pipeline.hset(job.key, WARNED_FIELD, reason)
            pipeline.hincrby(self.key, WARNED_FIELD, 1)
            pipeline.hincrby(RqKeys(prefix_of(job)).warned(), queue.name, 1)
            pipeline.execute()

    def _refuse(self, job: Any, queue: Queue, reason: str, *, is_over: bool) -> None:
        log.error("Worker %s: job %s is refused: %s", self.name, job.id, reason)
        if is_over:  # its end is recorded, and stays so
            self.connection.lrem(queue.intermediate_queue_key, 1, job.id)
            return
        execution = self.prepare_execution(job)
        self.prepare_job_execution(job, len(self.queues) == 1)
        job.ended_at = now()
        more = {"execution": execution} if HAS_EXECUTIONS else {}
        self.handle_job_failure(job, queue, exc_string=f"{REFUSED}{reason}", **more)
        self.set_state("idle")

    def _shutdown(self) -> None:
        """Stop at once, or after the job that is being read: RQ's exception would leave it in no queue."""
        if self.guard.is_deciding:
            self._stop_requested = True
        else:
            super()._shutdown()  # type: ignore[no-untyped-call]  # RQ's

    def _start_scheduler(self, *args: Any, **options: Any) -> None:
        if not self.guard.is_on:
            super()._start_scheduler(*args, **options)
            return
        log.warning("Worker %s: RQ's scheduler is not started beside a guard; zsched's daemon does its work", self.name)


def _elsewhere(job: Job, queue: Queue) -> str:
    """Return why a signed *job* may not run from *queue*, or "": its signature is for the queue that it names."""
    if job.permission.checked is None or job.origin == queue.name:
        return ""
    return f"it was pushed to the queue {queue.name!r}, and is signed for {job.origin!r}"
