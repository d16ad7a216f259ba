"""
Does another scheduler work in the same queues: RQ's own, rq-scheduler, or RQ's cron? One that runs is a warning; one
that has what is scheduled here, too, is a problem, since that runs twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from zsched.core.log import text
from zsched.core.wording import plural, some
from zsched.doctor.finding import Finding, fine, problem, warning
from zsched.doctor.keyspace import queues_of
from zsched.doctor.patient import Patient
from zsched.errors import RedisRefused
from zsched.storage.listeners import workers_of
from zsched.storage.replies import is_denied
from zsched.storage.rivals import (
    CRON_OWNER,
    RQ_SCHEDULER_JOBS,
    RqSchedulers,
    about_key,
    crons,
    lock_key,
    rq_schedulers,
)

_QUEUES: Final = 2000  # whose locks are looked at
_JOBS: Final = 500  # of rq-scheduler, that are looked for here; and of the recurring, whose owners are looked at
_STEPS: Final = 50  # of a scan: all of a database of up to 50,000 keys


def look_at_locks(patient: Patient) -> Iterator[Finding]:
    """Whose the locks of RQ's schedulers are: a worker --with-scheduler has those of its queues."""
    ours, native = f"zsched:{patient.keys.namespace}", patient.settings.rq.native
    if native is False:
        yield fine("[rq] native is false: RQ's own delayed jobs are left to RQ's schedulers")
        return
    queues = (_queues(patient) if native is True else sorted(native))[:_QUEUES]  # others' are left to RQ's schedulers
    holders = patient.ask_all(("GET", lock_key(queue)) for queue in queues)
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
    """The package rq-scheduler: its jobs stand in one ZSET, where copies of what was imported stay."""
    count, ids = patient.ask_all([("ZCARD", RQ_SCHEDULER_JOBS), ("ZRANGE", RQ_SCHEDULER_JOBS, 0, _JOBS - 1)])
    count, here = count or 0, sum(patient.ask_all(("EXISTS", patient.keys.schedule(text(id))) for id in ids or ()))
    running = _rq_schedulers(patient)
    jobs, names = plural(count, "job"), some(running.names) if running else ""
    remedy = "zsched import rq-scheduler" if count > here else ""
    if names and here:
        yield problem(
            f"rq-scheduler runs ({names}) with {jobs}, {here:,} of them scheduled here, too: that runs twice",
            f"stop it, then: {remedy}" if remedy else "stop it: they run here",
        )
    elif names:
        yield warning(f"rq-scheduler runs ({names}) with {jobs}", f"stop it, then: {remedy}" if remedy else "stop it")
    elif count > here:
        seen = "cannot be asked" if running is None else "does not show" if not running.is_all else ""
        runs = f"whether it runs {seen}" if seen else "it does not run"
        yield warning(f"rq-scheduler has {jobs}, {here:,} of them scheduled here ({runs})", remedy)
    elif count:
        yield fine(f"rq-scheduler has {jobs}, all of them scheduled here, and none is seen to run")
    else:
        yield fine("rq-scheduler has no jobs, and none is seen to run")


def look_at_rq_cron(patient: Patient) -> Iterator[Finding]:
    """RQ's own cron (``rq cron``), by its beats."""
    running = crons(patient.wire, patient.now_ms())
    imported = _imported(patient) if running else []
    for cron in running:
        is_here = any(cron.module and cron.is_of(module) for module in imported)
        said = f"RQ's cron runs: {cron.name}, {cron.module or 'of a module that it does not tell'}"
        if is_here:
            yield problem(f"{said}, whose jobs were imported: they run twice", "stop it: they run here")
        else:
            yield warning(said, f"to move in, stop it, then: zsched import rq-cron {cron.module or 'MODULE'}")
    if not running:
        yield fine("RQ's cron does not run")


def _rq_schedulers(patient: Patient) -> RqSchedulers | None:
    """Those that run; None: this user may not look for them."""
    try:
        return rq_schedulers(patient.wire, _STEPS)
    except RedisRefused as error:
        if is_denied(error):
            return None
        raise


def _imported(patient: Patient) -> list[str]:
    """The modules of RQ's cron that were imported, as far as the recurring that are looked at tell."""
    ids = patient.members(patient.keys.recurring(), _JOBS)
    owners = set(patient.ask_all(("HGET", patient.keys.schedule(id), "managed_by") for id in ids))
    return [text(owner).removeprefix(CRON_OWNER) for owner in owners if owner and text(owner).startswith(CRON_OWNER)]


def _queues(patient: Patient) -> list[str]:
    """Those that RQ knows, and those to which nothing was pushed yet and somebody listens, if that may be asked."""
    found = set(queues_of(patient))
    with suppress(RedisRefused):
        found.update(queue for worker in workers_of(patient.wire) for queue in worker.queues)
    return sorted(found)


def _named(patient: Patient, holder: str) -> str:
    """The holder of a lock; since RQ 2.10 a scheduler says where it is."""
    if holder.startswith("zsched:"):
        return f"the namespace {holder.removeprefix('zsched:')}"
    [told] = patient.ask_all([("HMGET", about_key(holder), "hostname", "pid")])
    where = f" on {text(told[0])}, pid {text(told[1] or b'?')}," if told and told[0] else ""
    return f"RQ's scheduler {holder}{where}"
