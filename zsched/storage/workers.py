"""
RQ's workers as registered, with what each runs, and its heartbeats. Nothing here writes.

A worker sets the end of its registration at each heartbeat, a minute after the next heartbeat is due; RQ then deletes
it. So Redis' own clock says whether a heartbeat is late. At most some thousand workers are read, in a few round trips.

Not guaranteed: a killed worker is seen, as late, until its registration ends: some minutes. Other times are by the
worker's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from zsched.core.entry import text
from zsched.core.runs.job import GUARD_FIELD, WARNED_FIELD, ms_of, whole
from zsched.core.runs.run import Run, of_job
from zsched.errors import RedisRefused
from zsched.storage.connection import Wire
from zsched.storage.jobs import Jobs, allowed_replies, is_denied, members
from zsched.storage.keys import Keys
from zsched.storage.rqkeys import RqKeys

_WORKERS: Final = 2000  # read at most
_MARGIN_MS: Final = 60_000  # from the time when a heartbeat is due to the end of the registration
OF_LIVING: Final = ("queues", "death")  # fields for ``lives``
_FIELDS: Final = (
    *OF_LIVING,
    *("version", GUARD_FIELD, WARNED_FIELD, "hostname", "pid", "birth", "last_heartbeat"),
    *("successful_job_count", "failed_job_count", "current_job"),
)


class WorkerSeen(NamedTuple):
    """
    One of RQ's workers. ``guard``: the mode of its guard; "" of a worker without one. ``warned``: the number of jobs
    that its guard would have refused. ``began_ms``: its start. ``succeeded`` and ``failed``: the numbers of its ended
    jobs, of any producer. Only ``workers_seen`` knows the rest: ``late_ms``, by how much its heartbeat is late;
    ``job``, the id of the job in its hand, or ""; and ``run``, that job as a run.
    """

    name: str
    version: str
    queues: tuple[str, ...]
    guard: str = ""
    warned: int = 0
    host: str = ""
    pid: str = ""
    began_ms: int | None = None
    heartbeat_ms: int | None = None
    succeeded: int = 0
    failed: int = 0
    job: str = ""
    late_ms: int = 0
    run: Run | None = None

    def over_ms(self, now_ms: int) -> int:
        """Return by how much its run exceeds its time limit: RQ should have stopped it. 0: it does not."""
        run = self.run
        if run is None or run.started_ms is None or not run.timeout_s:
            return 0
        return max(now_ms - run.started_ms - run.timeout_s * 1000, 0)


def workers_of(wire: Wire, rq: RqKeys) -> list[WorkerSeen]:
    """Return the living workers among the first ``_WORKERS`` registered ones. Raises RedisRefused, RedisUnavailable."""
    return _workers(wire, rq, members(wire, rq.workers(), _WORKERS))


def workers_seen(wire: Wire, keys: Keys, name: str = "") -> list[WorkerSeen]:
    """Return the workers, or the one called *name*, with runs and late heartbeats. Raises as ``workers_of``."""
    found = _workers(wire, keys.rq, [keys.rq.worker(name)]) if name else workers_of(wire, keys.rq)
    left_ms = allowed_replies(wire, (("PTTL", keys.rq.worker(one.name)) for one in found))
    executed = allowed_replies(wire, (("SMEMBERS", keys.rq.worker_executions(one.name)) for one in found))
    jobs = [text(min(more)).rpartition(":")[0] if more else one.job for one, more in zip(found, executed, strict=True)]
    facts = Jobs(wire, keys, tracebacks=False).read(jobs)
    return [
        one._replace(
            job=job, run=job_facts and of_job(job, job_facts, None), late_ms=max(_MARGIN_MS - ms, 0) if ms > 0 else 0
        )
        for one, job, job_facts, ms in zip(found, jobs, facts, left_ms, strict=True)
    ]


def _workers(wire: Wire, rq: RqKeys, keys: Sequence[str]) -> list[WorkerSeen]:
    found = []
    for key, row in zip(keys, allowed_replies(wire, (("HMGET", key, *_FIELDS) for key in keys)), strict=True):
        if not row or not lives(row[: len(OF_LIVING)]):
            continue
        has = {name: text(value or b"") for name, value in zip(_FIELDS, row, strict=True)}
        found.append(
            WorkerSeen(
                name=rq.worker_name(key),
                version=has["version"] or "?",
                queues=tuple(has["queues"].split(",")),
                guard=has[GUARD_FIELD],
                warned=whole(has[WARNED_FIELD]),
                host=has["hostname"],
                pid=has["pid"],
                began_ms=ms_of(has["birth"]),
                heartbeat_ms=ms_of(has["last_heartbeat"]),
                succeeded=whole(has["successful_job_count"]),
                failed=whole(has["failed_job_count"]),
                job=has["current_job"],
            )
        )
    return found


def lives(about: Any) -> bool:
    """Return True if *about*, the reply about a worker, shows that it is alive, or was denied."""
    if isinstance(about, RedisRefused):
        return is_denied(about)
    queues, death = about
    return bool(queues and not death)
