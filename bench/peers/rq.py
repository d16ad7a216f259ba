"""
RQ's own scheduler. As shipped it moves at most 1,000 jobs of a queue, then sleeps a second; what is
measured here is its pass without the sleep.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rq import Queue
from rq.scheduler import RQScheduler

from bench.load import ARGS, FUNC, RQ, Timed
from zsched.core.clock import Clock, from_ms

NAME = "RQ's scheduler"
AS_SHIPPED = "RQ's scheduler: passes of 1,000 without the second that it sleeps after each; as shipped it does 1,000/s"
_PER_PIPELINE = 1000


def insert(commands: Any, timed: Sequence[Timed]) -> None:
    """Schedule *timed* by ``enqueue_at``, with the pipeline that it takes, 1,000 jobs each."""
    queue = Queue("default", connection=commands)
    for start in range(0, len(timed), _PER_PIPELINE):
        with commands.pipeline(transaction=False) as pipeline:
            for id, due_ms in timed[start : start + _PER_PIPELINE]:
                queue.enqueue_at(from_ms(due_ms), FUNC, args=ARGS, job_id=id, pipeline=pipeline)
            pipeline.execute()


def insert_singly(commands: Any, timed: Sequence[Timed]) -> None:
    """The same one by one, as its documentation shows."""
    queue = Queue("default", connection=commands)
    for id, due_ms in timed:
        queue.enqueue_at(from_ms(due_ms), FUNC, args=ARGS, job_id=id)


def dispatch_s(commands: Any, clock: Clock) -> float:
    """Seconds to move all that is due to the queue."""
    scheduler: Any = RQScheduler(["default"], commands, logging_level=logging.WARNING)
    scheduler.acquire_locks()
    scheduled = RQ.registry("scheduled", "default")
    started_ms = clock.monotonic_ms()
    while commands.zcard(scheduled):
        scheduler.enqueue_scheduled_jobs()
    return (clock.monotonic_ms() - started_ms) / 1000


def lateness_ms(commands: Any, timed: Sequence[Timed]) -> list[float]:
    """
    Return the lateness of each of *timed*, by the ``enqueued_at`` that the scheduler wrote. It floors times to seconds.
    """
    with commands.pipeline(transaction=False) as pipeline:
        for id, _ in timed:
            pipeline.hget(RQ.job(id), "enqueued_at")
        written = pipeline.execute()
    return [
        datetime.fromisoformat(at.decode()).timestamp() * 1000 - due_ms
        for (_, due_ms), at in zip(timed, written, strict=True)
        if at
    ]
