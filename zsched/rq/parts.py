"""
Parts of worker classes: the recorder of failed attempts, and a start of processes without secrets.

**Attempts.** RQ calls ``handle_job_failure`` for each attempt that ends badly: it raised, took too long, was stopped,
or its work horse was killed. The work horse calls it, or the worker after the work horse's death. For a task that
returns ``rq.Retry``, it calls ``handle_job_retry``. The record is written before RQ queues or ends the job: so RQ can
delete the job afterwards, and the next attempt finds the record.

It needs no more rights in Redis than RQ's worker and ``current_run`` have. An error is logged, and nothing else
changes: RQ handles the failure as always. The record costs three round trips for each failed attempt, none for others.

Not guaranteed: a worker that is killed records nothing. The leader records that attempt if it puts the run back
(``daemon.lost``).

**Secrets.** RQ's SpawnWorker starts a process for each task, and writes the arguments of the connection into the
command line of ``python -c``, which ``ps`` shows. Here each text among them, such as user and password, is given by the
environment, which only the process's own user and root can read. The process takes it out again before the task begins.
"""

import os
from datetime import datetime
from typing import Any, Final

import rq
from rq import Queue, Retry
from rq.job import Job
from rq.worker import BaseWorker

from zsched.core.clock import SystemClock
from zsched.core.runs.attempts import ATTEMPTS_FIELD, Attempt, added, attempts_of, attempts_text, with_error
from zsched.core.runs.job import RQ_TIME, ms_of
from zsched.core.runs.run_id import RunId
from zsched.current import keys_of_run
from zsched.rq.plain import log
from zsched.storage.jobs import Notes

_VARIABLE: Final = "_ZSCHED_{}"  # of an argument of the connection; settings begin with ZSCHED_


class HidesSecrets(BaseWorker):
    """A part of a worker class, before one of RQ's: if that spawns a process for each task, ``ps`` shows no secret."""

    def fork_work_horse(self, *args: Any) -> None:
        """Start the process of a task. RQ writes the arguments into its source as their ``repr``."""
        is_spawned = isinstance(self, rq.SpawnWorker)  # otherwise it inherits the connection
        given = self.connection.connection_pool.connection_kwargs if is_spawned else {}
        texts = {name: value for name, value in given.items() if isinstance(value, str | bytes)}
        variables = {_VARIABLE.format(name): ascii(value) for name, value in texts.items()}
        os.environ |= variables
        given |= {name: _from_environment(name, value) for name, value in texts.items()}
        try:
            super().fork_work_horse(*args)  # type: ignore[misc]  # of all classes that start processes
        finally:
            given |= texts
            for variable in variables:
                del os.environ[variable]


def _from_environment(name: str, value: str | bytes) -> Any:
    """Return a text equal to *value*, for the threads that connect meanwhile, with another ``repr``."""
    source = f"__import__('ast').literal_eval(__import__('os').environ.pop({_VARIABLE.format(name)!r}))"
    return type("Hidden", (type(value),), {"__repr__": lambda _: source})(value)


_RETRIED: Final = "the task returned rq.Retry"
_TOO_OFTEN: Final = "the task returned rq.Retry, and had no retry left"


class RecordsAttempts(HidesSecrets):
    """A part of a worker class, before one of RQ's: it records failed attempts of runs in their jobs."""

    def handle_job_failure(
        self, job: Job, queue: Queue, started_job_registry: Any = None, exc_string: str = "", *args: Any, **others: Any
    ) -> None:
        """Record the attempt; then do as RQ does. RQ cannot store a lone surrogate, and would end the worker for it."""
        exc_string = exc_string.encode(errors="backslashreplace").decode()
        is_retried = job.should_retry and self._stopped_job_id != job.id
        self._record(job, exc_string, job.get_retry_interval() if is_retried else None)
        super().handle_job_failure(job, queue, started_job_registry, exc_string, *args, **others)

    def handle_job_retry(self, job: Job, queue: Queue, retry: Retry, *args: Any, **others: Any) -> None:
        """Record the attempt of a task that returned *retry*; then do as RQ does."""
        before = job.number_of_retries or 0
        if before and before >= retry.max:
            self._record(job, _TOO_OFTEN, None)
        else:
            self._record(job, _RETRIED, Retry.get_interval(before, retry.intervals))
        super().handle_job_retry(job, queue, retry, *args, **others)

    def _record(self, job: Job, error: str, next_s: int | None) -> None:
        """Record that an attempt ended by *error*, and that another one begins *next_s* later; None: no other one."""
        parts = RunId.ours(job.id)
        if parts is None:  # not a run of zsched
            return
        try:
            notes = Notes(job.connection, keys_of_run(job, parts), job.id)
            number = notes.attempt()
            if number is None:  # somebody deleted the job
                return
            ended_ms = _ms(job.ended_at) or SystemClock().now_ms()  # RQ sets no end for a stopped one
            next_ms = None if next_s is None else ended_ms + next_s * 1000
            times_ms = _ms(job.enqueued_at), _ms(job.started_at), ended_ms
            attempt = with_error(Attempt(number, self.name, *times_ms, next_ms=next_ms), error)
            notes.change(ATTEMPTS_FIELD, lambda there: attempts_text(added(attempts_of(there), attempt)))
        except Exception:
            log.exception("Worker %s: job %s: its attempt was not recorded", self.name, job.id)


def _ms(at: datetime | None) -> int | None:
    """Return an instant of RQ's, which is in UTC, in the ms that a reader of the job sees."""
    return None if at is None else ms_of(at.strftime(RQ_TIME))
