"""Chains of runs, written into Redis by hand, and the calls of survey.lua and unblock.lua."""

from __future__ import annotations

from typing import Any

from tests.builders.namespaces import Namespace
from tests.prefix import RQ

A, B, C = "r-1767225600000", "r-1767225660000", "r-1767225720000"
QUEUE, CANCEL = f"queue {A} {B}", f"cancel_previous {A} {B}"
RELEASE, WITHDRAW, FORGET = ("release", B), ("withdraw", "-"), ("forget", "-")
WHY = {  # a run is released after the one before it
    **dict.fromkeys(("finished", "failed"), f"{A} is over, and RQ did not say so"),
    "stopped": f"{A} was stopped",
    "canceled": f"{A} was cancelled",
    "-": f"{A} is gone: it expired, or somebody deleted it",
}
OVER = tuple(WHY)
_REGISTRIES = {"deferred": "deferred", "scheduled": "scheduled", "ready_to_enqueue": "ready"}
LONG_AGO = "2000-01-01T00:00:00.000000Z"


def jobs(ns: Namespace, *statuses: str, **more: str) -> None:
    """Write RQ's jobs of A, B and C with these statuses; "-": a deleted job. A deferred job waits for the last one."""
    before = ""
    for run, status in zip((A, B, C), statuses, strict=False):
        ns.redis.delete(ns.keys.rq.job(run))
        if status != "-":
            fields = {
                "status": status,
                "origin": "default",
                "created_at": "2026-01-01T00:00:00.000000Z",
                "data": "call",
            }
            ns.redis.hset(ns.keys.rq.job(run), mapping=fields | {"worker_name": "w"} | more)
        if status == "queued":
            ns.redis.rpush(f"{RQ}:queue:default", run)
        elif status in _REGISTRIES:
            ns.redis.zadd(f"{RQ}:{_REGISTRIES[status]}:default", {run: 1})
        if status == "deferred" and before:
            ns.redis.sadd(f"{RQ}:job:{before}:dependents", run)
            ns.redis.sadd(f"{RQ}:job::{run}:dependencies", before)
            ns.redis.hset(ns.keys.rq.job(run), mapping={"dependency_id": before, "allow_dependency_failures": "1"})
        before = run


def chain(ns: Namespace, text: str | None = None, id: str = "r") -> str | None:
    """Write *text* as the chain of schedule *id*, if given; return the chain."""
    if text is not None:
        ns.redis.hset(ns.keys.chains(), id, text)
    told = ns.redis.hget(ns.keys.chains(), id)
    return told.decode() if told else None


def survey(ns: Namespace, cursor: str = "0", count: int = 100) -> tuple[str, list[list[str]]]:
    after, *told = ns.call("survey", cursor=cursor, count=count)
    return after, [one.split("\0") for one in told]


def unblock(ns: Namespace, *needed: tuple[str, str], **over: Any) -> list[Any]:
    """Call unblock for the chain of ``r``; return released runs and changed chains."""
    rows = [text for one in needed for text in ("r", *one)]
    return ns.call("unblock", rows, **over)[1:]
