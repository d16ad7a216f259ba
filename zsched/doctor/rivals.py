"""Does another scheduler work in the same queues: RQ's own, rq-scheduler, or RQ's cron?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from zsched.core.log import text
from zsched.doctor.finding import Finding, fine, warning
from zsched.doctor.keyspace import queues_of
from zsched.doctor.patient import Patient
from zsched.doctor.wording import counted, some
from zsched.doctor.workers import workers_of
from zsched.errors import RedisRefused

_QUEUES: Final = 2000  # whose locks are looked at
_SHOWN: Final = 5  # cron schedulers that are asked for
_CRON_MS: Final = 120_000  # RQ's cron beats every minute; its entry stays when it was killed


def look_at_locks(patient: Patient) -> Iterator[Finding]:
    """Whose the locks of RQ's schedulers are: a worker --with-scheduler has those of its queues."""
    ours, native = f"zsched:{patient.keys.namespace}", patient.settings.rq.native
    if native is False:
        yield fine("[rq] native is false: RQ's own delayed jobs are left to RQ's schedulers")
        return
    queues = (_queues(patient) if native is True else sorted(native))[:_QUEUES]  # others' are left to RQ's schedulers
    holders = patient.ask_all(("GET", f"rq:scheduler-lock:{queue}") for queue in queues)
    by_holder: dict[str, list[str]] = {}
    for queue, holder in zip(queues, holders, strict=True):
        if holder and text(holder) != ours:
            by_holder.setdefault(text(holder), []).append(queue)
    for holder, held in sorted(by_holder.items()):
        yield warning(
            f"{_named(patient, holder)} has the scheduler's lock of {some(held)}: it moves RQ's delayed jobs there",
            "start workers without --with-scheduler: the leader moves these jobs, too, once their locks lapse"
            if not holder.startswith("zsched:")
            else 'let one namespace serve a queue: [rq] native = ["…"] in each',
        )
    if not by_holder:
        where = "" if native is True else f" in {some(queues)}; those of other queues are left to RQ's schedulers"
        yield fine(f"no other scheduler of RQ's delayed jobs{where}")


def look_at_rq_scheduler(patient: Patient) -> Iterator[Finding]:
    """The package rq-scheduler: its jobs stand in one ZSET, and it takes a lock while it moves some."""
    count, lock = patient.ask_all([("ZCARD", "rq:scheduler:scheduled_jobs"), ("EXISTS", "rq:scheduler_lock")])
    if count or lock:
        runs = "it is at work now" if lock else "whether it runs does not show"
        yield warning(
            f"rq-scheduler has {counted(count or 0, 'job')} ({runs})",
            "move them: zsched import rq-scheduler; then stop it, or they run twice",
        )
    else:
        yield fine("rq-scheduler has no jobs")


def look_at_rq_cron(patient: Patient) -> Iterator[Finding]:
    """RQ's own cron (``rq cron``), by its beats."""
    since_s = (patient.now_ms() - _CRON_MS) // 1000
    [names] = patient.ask_all([("ZRANGEBYSCORE", "rq:cron_schedulers", since_s, "+inf", "LIMIT", 0, _SHOWN)])
    if names:
        yield warning(
            f"RQ's cron runs: {some([text(name) for name in names])}",
            "if its jobs are scheduled here, too, they run twice: zsched import rq-cron, then stop it",
        )
    else:
        yield fine("RQ's cron does not run")


def _queues(patient: Patient) -> list[str]:
    """Those that RQ knows, and those to which nothing was pushed yet and somebody listens, if that may be asked."""
    found = set(queues_of(patient))
    with suppress(RedisRefused):
        found.update(queue for worker in workers_of(patient) for queue in worker.queues)
    return sorted(found)


def _named(patient: Patient, holder: str) -> str:
    """The holder of a lock; since RQ 2.10 a scheduler says where it is."""
    if holder.startswith("zsched:"):
        return f"the namespace {holder.removeprefix('zsched:')}"
    [told] = patient.ask_all([("HMGET", f"rq:scheduler:{holder}", "hostname", "pid")])
    where = f" on {text(told[0])}, pid {text(told[1] or b'?')}," if told and told[0] else ""
    return f"RQ's scheduler {holder}{where}"
