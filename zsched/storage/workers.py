"""
RQ's workers and the slots of its rate limits, which runs need to start. Workers are as registered, with what each runs,
and its heartbeats. Of slots: who waits for them, who has them, and the typed call of free_slots.lua.

A worker sets the end of its registration at each heartbeat, a minute after the next heartbeat is due; RQ then deletes
it. So Redis' own clock says whether a heartbeat is late. At most some thousand workers are read, in a few round trips.

Not guaranteed: a killed worker is seen, as late, until its registration ends: some minutes. Other times are by the
worker's clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from zsched.core.entry import text
from zsched.core.model import iso
from zsched.core.pages import pages_of
from zsched.core.runs.job import GUARD_FIELD, WARNED_FIELD, ms_of, whole
from zsched.core.runs.run import Run, of_job
from zsched.core.runs.run_id import run_key
from zsched.core.wording import in_a_line
from zsched.errors import RedisRefused
from zsched.storage.connection import Command, Wire
from zsched.storage.jobs import Jobs, allowed_replies, is_denied, members
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.meta import server_now_ms
from zsched.storage.rqkeys import RqKeys
from zsched.storage.scripts import Scripts

_WORKERS: Final = 2000  # read at most
_MARGIN_MS: Final = 60_000  # from the time when a heartbeat is due to the end of the registration
OF_LIVING: Final = ("queues", "death")  # fields for ``lives``
_FIELDS: Final = (
    *OF_LIVING,
    *("version", GUARD_FIELD, WARNED_FIELD, "hostname", "pid", "birth", "last_heartbeat"),
    *("successful_job_count", "failed_job_count", "current_job"),
)
_MOST: Final = 100  # jobs of a limit per script
_LIMITS: Final = 200  # read at most
_HEAD: Final = 10  # jobs that wait longest, searched for a run of the namespace
_HOLDERS: Final = 3  # jobs with a slot that are named


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


class SlotWait(NamedTuple):
    """
    A rate limit of RQ, ``gw (1)``, for whose slots runs of the namespace wait. ``waiting``: the number of jobs that
    wait, of any producer; ``since_ms``: the beginning of the longest wait. ``holders``: some jobs with a slot.
    """

    limit: str
    waiting: int
    since_ms: int
    holders: tuple[Run, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON; the keys are stable."""
        holders = [{"id": one.id, "status": one.status.value, "worker": one.worker or None} for one in self.holders]
        return {"limit": self.limit, "waiting": self.waiting, "since": iso(self.since_ms), "holders": holders}


class SlotWaits(NamedTuple):
    """The rate limits of RQ for whose slots runs of the namespace wait, at *now_ms* of the server."""

    now_ms: int
    limits: Sequence[SlotWait] = ()


def slot_waits(wire: Wire, keys: Keys) -> SlotWaits:
    """Return the waits for slots. RQ 2 has none. Raises RedisRefused, RedisUnavailable."""
    rq, now_ms = keys.rq, server_now_ms(wire, keys)
    limits = members(wire, rq.limits(), _LIMITS)
    heads = allowed_replies(wire, (("ZRANGE", rq.limit_waiting(one), 0, _HEAD - 1, "WITHSCORES") for one in limits))
    ours = [any(run_key(text(id), keys.namespace) for id in (head or ())[::2]) for head in heads]
    waited = {one: head for one, head, is_ours in zip(limits, heads, ours, strict=True) if is_ours}
    commands: list[Command] = [
        *(("ZCARD", rq.limit_waiting(one)) for one in waited),
        *(("HGET", rq.limit(one), "concurrency") for one in waited),
        *(_oldest_slots(keys, one) for one in waited),
    ]
    counts, sizes, slots = pages_of(allowed_replies(wire, commands), len(waited)) if waited else ((), (), ())
    found = []
    for (limit, head), waiting, most, holders in zip(
        waited.items(), counts, sizes, _runs(wire, keys, slots), strict=True
    ):
        shown = f"{in_a_line(limit)} ({whole(text(most or b''))})"
        found.append(SlotWait(shown, waiting or 0, int(float(head[1]) * 1000), tuple(holders)))
    return SlotWaits(now_ms, found)


def slot_holders(wire: Wire, keys: Keys, limit: str) -> list[Run]:
    """Return some jobs with a slot of *limit*, those with the oldest slots. Raises as above."""
    return _runs(wire, keys, allowed_replies(wire, [_oldest_slots(keys, limit)]))[0]


def _oldest_slots(keys: Keys, limit: str) -> Command:
    return "ZRANGE", keys.rq.limit_allowed(limit), 0, _HOLDERS - 1


def _runs(wire: Wire, keys: Keys, slots: Iterable[Sequence[bytes] | None]) -> list[list[Run]]:
    """Return the runs of each of *slots*, replies with ids, all read together."""
    pages = [[text(id) for id in page or ()] for page in slots]
    ids = [id for page in pages for id in page]
    jobs = dict(zip(ids, Jobs(wire, keys, tracebacks=False).read(ids), strict=True))
    return [[of_job(id, job, None) for id in page if (job := jobs[id]) is not None] for page in pages]


def rate_limits(wire: Wire, keys: Keys) -> list[bytes]:
    """Return the keys of all rate limits; none if another writer replaced their set. Raises as above."""
    if wire.execute("TYPE", keys.rq.limits()) != b"set":
        return []
    return sorted(wire.execute("SMEMBERS", keys.rq.limits()))


def free_slots(scripts: Scripts, term: Term, limits: Mapping[bytes, int]) -> tuple[dict[bytes, int], dict[bytes, int]]:
    """
    Free the slots that no job needs any more. *limits*: limit → number of its jobs that were checked before. Return the
    numbers of freed slots, and the limits with unchecked jobs in the form of *limits*.

    Raises:
        Stale, ServerChanged, RedisUnavailable, RedisRefused.
    """
    reply = scripts.call("free_slots", most=_MOST, rows=[x for row in limits.items() for x in row], **term.fence)
    counts = dict(zip(limits, pages_of(reply, 2), strict=True))
    freed = {limit: count for limit, (count, _) in counts.items() if count}
    return freed, {limit: passed for limit, (_, passed) in counts.items() if passed >= 0}
