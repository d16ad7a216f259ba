"""RQ's own delayed jobs, written by RQ, and native.lua called by keyword."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from rq import Queue, Retry
from rq.job import Job

from tests.builders.namespaces import Namespace
from tests.prefix import RQ
from zsched.core.clock import from_ms

OURS, LOCK_S = "zsched:default", 30


@dataclass(frozen=True)
class Reply:
    """The reply of native.lua by name."""

    now_ms: int
    next_ms: int | str
    looked: int
    pushed: int
    others: list[str]
    broken: list[str]
    odd: list[str]


def native(ns: Namespace, *queues: str, **over: Any) -> Reply:
    arguments = {"owner": OURS, "lock_s": LOCK_S, "limit": 100} | over
    return Reply(*ns.call("native", queues or ("default",), **arguments))


def delay(ns: Namespace, *ids: str, queue: str = "default", in_s: float = -60, **options: Any) -> list[Job]:
    """Put jobs like RQ's ``enqueue_at``, a second apart from *in_s* on."""
    due = [from_ms(ns.now_ms) + timedelta(seconds=in_s + n) for n in range(len(ids))]
    rq = Queue(queue, connection=ns.redis)
    return [rq.enqueue_at(at, "app.task", job_id=id, **options) for id, at in zip(ids, due, strict=True)]


def fail(ns: Namespace, id: str, retry: Retry, ended: datetime, took: timedelta = timedelta(0)) -> None:
    """Write a job like RQ after it failed at *ended* and has another attempt; RQ's failure handling took *took*."""
    Queue("default", connection=ns.redis).enqueue("app.task", job_id=id, retry=retry)
    fail_again(ns, id, ended, took)


def fail_again(ns: Namespace, id: str, ended: datetime, took: timedelta = timedelta(0)) -> None:
    """Let a queued job fail, like ``fail``."""
    ns.redis.lrem(f"{RQ}:queue:default", 0, id)
    job = Job.fetch(id, connection=ns.redis)
    job.started_at, job.ended_at = ended - timedelta(milliseconds=5), ended
    with ns.redis.pipeline() as pipeline, patch("rq.job.now", lambda: ended + took):
        job.retry(Queue("default", connection=ns.redis), pipeline)
        pipeline.execute()


def waiting(ns: Namespace, queue: str = "default") -> list[str]:
    return [id.decode() for id in ns.redis.zrange(f"{RQ}:scheduled:{queue}", 0, -1)]


def queued_at(ns: Namespace, id: str) -> datetime:
    """Return the time that native.lua wrote when it queued the job."""
    return datetime.fromisoformat(ns.redis.hget(f"{RQ}:job:{id}", "enqueued_at").decode())
