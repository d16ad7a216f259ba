"""
The ring of a worker: it tells the leader that a run is over for which another run may wait (``overlap="queue"``).

The leader then launches the next run at once; with RQ's own workers it looks four times a second. The message has no
contents that count, so the worker needs no right but to publish on the wake channel of the namespace. Without that
right, or if it is lost, the next run starts a quarter of a second later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from redis.exceptions import RedisError
from rq.job import Job

from zsched.core.runs.run_id import RunId
from zsched.current import keys_of_run
from zsched.rq.horses import HidesSecrets


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
