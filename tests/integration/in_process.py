"""RQ's worker in the process of a test, which leaves the process's signal handlers as they were."""

from __future__ import annotations

import signal

import redis
from rq import Queue, SimpleWorker


def work_off(queue: Queue, client: redis.Redis, *more: Queue) -> None:
    """Execute all jobs in *queue*, and in *more* of the same serializer."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    try:
        SimpleWorker([queue, *more], connection=client, serializer=queue.serializer).work(burst=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
