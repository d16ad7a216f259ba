"""
RQ's workers with the guard, the ring and the recorder of attempts.

RQ's SimpleWorker renews nothing while a task runs: its death is found a minute after the task's timeout. This one has a
thread that renews the signs of life as RQ's forking worker does. So its death is found after 60 to 90 s, too.

Not guaranteed: a task that holds the interpreter's lock for longer than a minute stops that thread. Then the run counts
as lost while it continues. Such a task needs ``Worker``.

The ring tells the leader that a run is over for which another run may wait (``overlap="queue"``). The leader then
launches the next run at once; with RQ's own workers it looks four times a second. The message has no contents that
count, so the worker needs no right but to publish on the wake channel of the namespace. Without that right, or if it is
lost, the next run starts a quarter of a second later.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import rq
from redis.exceptions import RedisError
from rq import Queue
from rq.job import Job
from rq.worker import BaseWorker

from zsched.core.runs.run_id import RunId
from zsched.current import keys_of_run
from zsched.rq.guarded import Guarded
from zsched.rq.parts import HidesSecrets, RecordsAttempts
from zsched.rq.plain import log
from zsched.storage.rqversion import HAS_EXECUTIONS
from zsched.storage.sentinel import remember_master


class Rings(HidesSecrets):
    """A part of a worker class, before one of RQ's: it rings when a run is over for which others may wait."""

    def handle_job_success(self, job: Job, *args: Any, **others: Any) -> None:
        """Do as RQ does, then ring."""
        with _ringing(job):
            super().handle_job_success(job, *args, **others)

    def handle_job_failure(self, job: Job, *args: Any, **others: Any) -> None:
        """Do as RQ does, then ring."""
        with _ringing(job):
            super().handle_job_failure(job, *args, **others)


@contextmanager
def _ringing(job: Job) -> Iterator[None]:
    """Ring after the block if a run waits for *job*. It is asked before: RQ may delete the job at its end."""
    parts, channel = RunId.ours(job.id), None
    with suppress(RedisError):
        if parts is not None and b"q" in (job.connection.hget(job.key, "zs") or b""):
            channel = keys_of_run(job, parts).wake()
    yield
    with suppress(RedisError):
        if channel is not None:
            job.connection.publish(channel, "0")


class Worker(Guarded, Rings, RecordsAttempts, rq.Worker):
    """RQ's worker, with a process for each task. That process finds the master also while no Sentinel answers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        remember_master(self.connection.connection_pool)


class SimpleWorker(Guarded, Rings, RecordsAttempts, rq.SimpleWorker):
    """RQ's worker that runs tasks in its own process."""

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Execute *job*, and renew its signs of life meanwhile."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(self.job_monitoring_interval):
                try:
                    self._beat(job)
                except Exception:  # the next one may succeed; RQ's own commands report a Redis that stays away
                    log.exception("Worker %s: job %s: no heartbeat", self.name, job.id)

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            super().execute_job(job, queue)
        finally:
            over.set()
            thread.join()

    def get_heartbeat_ttl(self, job: Job, *args: Any, **others: Any) -> int:
        """Return the seconds until the next heartbeat, and a minute: as RQ's forking worker does."""
        return int(BaseWorker.get_heartbeat_ttl(self, job, *args, **others))

    def _beat(self, job: Job) -> None:
        execution = self.execution
        if execution is not None:  # else the task ended a moment ago
            self.maintain_heartbeats(*((job, execution) if HAS_EXECUTIONS else (job,)))
