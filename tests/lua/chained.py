"""Chains of runs and lists of waiting runs, written into Redis by hand, and the calls of unblock.lua."""

from typing import Any

from tests.builders.namespaces import Namespace
from tests.prefix import RQ

A, B, C = "r-1767225600000", "r-1767225660000", "r-1767225720000"
QUEUE, CANCEL = f"queue {A}", f"cancel_previous {A} {B}"
ENDS = {  # why a run is launched, by the status of the run before it
    "finished": f"{A} finished",
    "failed": f"{A} failed",
    "stopped": f"{A} was stopped",
    "canceled": f"{A} was cancelled",
    "-": f"{A} is gone: it expired, or somebody deleted it",
    "odd": f"{A} is over",  # of a later RQ
}
LONG_AGO = "2000-01-01T00:00:00.000000Z"
MADE = "2026-01-01T00:00:00.000000Z"


def jobs(ns: Namespace, *statuses: str, **more: str) -> None:
    """Write RQ's jobs of A, B and C with these statuses, each where it waits; "-": a deleted job."""
    for run, status in zip((A, B, C), statuses, strict=False):
        ns.redis.delete(ns.keys.rq.job(run))
        if status == "-":
            continue
        fields = {"status": status, "origin": "default", "created_at": MADE, "data": "call", "worker_name": "w"}
        ns.redis.hset(ns.keys.rq.job(run), mapping=fields | more)
        if status == "queued":
            ns.redis.rpush(f"{RQ}:queue:default", run)
        elif status == "deferred":
            ns.redis.rpush(ns.keys.waiting("r"), run)
        elif status == "scheduled":
            ns.redis.zadd(f"{RQ}:scheduled:default", {run: 1})


def chain(ns: Namespace, text: str | None = None, id: str = "r") -> str | None:
    """Write *text* as the chain of schedule *id*, if given; return the chain."""
    if text is not None:
        ns.redis.hset(ns.keys.chains(), id, text)
    told = ns.redis.hget(ns.keys.chains(), id)
    return told.decode() if told else None


def waiting(ns: Namespace, id: str = "r") -> list[str]:
    """Return the runs of schedule *id* that wait for another run, oldest first."""
    return [run.decode() for run in ns.redis.lrange(ns.keys.waiting(id), 0, -1)]


def page(ns: Namespace, cursor: str = "0", count: int = 100, **over: Any) -> tuple[str, bool, dict[str, str]]:
    """Call unblock once. Return the next cursor, whether runs still wait, and why each launched run was launched."""
    _now_ms, after, waits, *told = ns.call("unblock", cursor=cursor, count=count, **over)
    return after, bool(waits), dict(zip(told[::2], told[1::2], strict=True))


def unblock(ns: Namespace) -> dict[str, str]:
    """Do a round through all chains; return why each launched run was launched."""
    cursor, _, launched = page(ns)
    while cursor != "0":
        cursor, _, more = page(ns, cursor)
        launched |= more
    return launched


def ends(ns: Namespace) -> list[str]:
    """Return the rows of all ends in the log."""
    return [row for entry in ns.entries() if entry.kind == "end" for row in entry.rows]
