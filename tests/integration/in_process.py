"""RQ's worker in the process of a test, which leaves the process's signal handlers as they were."""

from __future__ import annotations

import signal

import redis
from rq import Queue, SimpleWorker


def work_off(queue: Queue, client: redis.Redis) -> None:
    """Execute all jobs in *queue*."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    try:
        SimpleWorker([queue], connection=client).work(burst=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
