"""
Pushed runs, read from the log; and their deadlines, ends and RQ's delayed jobs by the frozen clock.
"""

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from zsched.core.clock import LAST_MS, from_ms
from zsched.core.entry import Position
from zsched.core.log.kinds import changes
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import PUSHES, What
from zsched.core.runs.run import Run, RunStatus, of_job
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch, NativeJobs
from zsched.storage.jobs import Jobs
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log
from zsched.storage.rqjob import Encoder

_PAGE: Final = 500  # entries in one read
_OUTLIVES_MS: Final = 10 * 366 * 86_400_000
_WAITING: Final = (b"queued", b"deferred", b"ready_to_enqueue", b"rate_limited")


class Fired(NamedTuple):
    """
    A run that went to its queue because its time had come. ``id``: RQ's job id. ``func``: the dotted path. The instants
    are aware, in UTC. ``at`` is the time of its push; it is later than ``nominal_at`` only for a missed occurrence, or
    with jitter.
    """

    id: str
    schedule_id: str
    func: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    queue: str
    nominal_at: datetime
    at: datetime


@dataclass
class Runs:
    """
    The pushed runs of one namespace. ``last``: the newest entry of the log that was read; ``fired_us``: by run, the
    time of its push; ``waiting``: a heap of deadlines, and the runs that have not begun.
    """

    wire: Wire
    keys: Keys
    last: Position | None = None
    fired_us: dict[str, int] = field(default_factory=dict)
    waiting: list[tuple[int, str]] = field(default_factory=list)

    def new(self) -> list[Change]:
        """Return the pushes of runs since the last call, in order; note their deadlines."""
        pushes = list[Change]()
        for entry in Log(self.wire, self.keys).entries("-" if self.last is None else f"({self.last.id}", _PAGE):
            self.last = entry.position
            pushes += [change for change in changes(entry, self.keys.run_suffix) if change.what in PUSHES]
        for change in pushes:
            run_id = change.run_id or ""
            self.fired_us[run_id] = change.at_us
            job_key = self.keys.rq.job(run_id)
            if deadline_ms := self.wire.execute("HGET", job_key, "zs_deadline"):
                self.wire.execute("PEXPIRE", job_key, _OUTLIVES_MS)  # it counts by the server's real clock
                heapq.heappush(self.waiting, (int(deadline_ms), run_id))
        return pushes

    def fired(self, encoder: Encoder) -> list[Fired]:
        """Return those of the ``new`` ones that fired by their time."""
        return [self._fired(change, encoder) for change in self.new() if change.what is What.FIRED]

    def _fired(self, change: Change, encoder: Encoder) -> Fired:
        run_id = change.run_id or ""
        queue, data = self.wire.execute("HMGET", self.keys.rq.job(run_id), "origin", "data")
        func, args, kwargs = encoder.open(data or b"", runs=True)
        nominal_at, at = from_ms(change.nominal_ms or 0), from_ms(change.at_us // 1000)
        return Fired(run_id, change.id, func, args, kwargs, (queue or b"").decode(), nominal_at, at)

    def ended(self, run_id: str, went_well: bool, term: Term) -> Run:
        """
        Return a run after its execution or deadline: over, or queued for a retry. RQ may have forgotten it. The ends of
        RQ's own jobs are not recorded.
        """
        [job] = Jobs(self.wire, self.keys).read([run_id])
        if job is None:
            return Run(run_id, RunStatus.SUCCEEDED if went_well else RunStatus.FAILED)
        fired_us = self.fired_us.get(run_id)
        run = of_job(run_id, job, fired_us, watched_since_ms=0)
        if run.is_over and fired_us is not None and self.last is not None:
            end = run, "gone" if run.status is RunStatus.EXPIRED else job.seen
            Dispatch(self.wire, self.keys).track(term, self.last, [end])
        return run

    def expire(self, now_ms: int, term: Term) -> None:
        """Remove and end the runs that have not begun by their deadlines at *now_ms*."""
        while self.waiting and self.waiting[0][0] <= now_ms:
            run_id = heapq.heappop(self.waiting)[1]
            job_key = self.keys.rq.job(run_id)
            status, lives_ms = self.wire.execute("HGET", job_key, "status"), self.wire.execute("PTTL", job_key)
            if status in _WAITING and lives_ms > 0:  # RQ's worker removes it when it begins: a retry has none
                self.wire.execute("DEL", job_key)
                self.ended(run_id, False, term)


# -- RQ's delayed jobs ------------------------------------------------------------------------------


_AT_ONCE: Final = 500  # in one script


class Delayed:
    """
    All queues that RQ knows are served. The daemon checks every second for a due job. Here the clock stops at two times
    of a job: the second that RQ wrote, and the millisecond that native.lua then sets.
    """

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys, self._jobs = wire, keys, NativeJobs(wire, keys)
        self._left: set[bytes] = set()  # queues that another scheduler serves, or that have a broken key

    def queues(self) -> list[str]:
        """Return the queues that RQ knows, by name."""
        return [name.decode() for name in self._jobs.queues()]

    def due_ms(self) -> int:
        """Return the time to look at the first job, or a time after all times if there is no job."""
        heads = [
            self._wire.execute("ZRANGE", self._keys.rq.registry("scheduled", name), 0, 0, "WITHSCORES")
            for name in self._jobs.queues()
            if name not in self._left
        ]
        return min((math.ceil(float(head[1]) * 1000) for head in heads if head), default=LAST_MS + 1)

    def move(self, term: Term) -> None:
        """Look at some due jobs, and push the jobs that are not early."""
        queues = [name for name in self._jobs.queues() if name not in self._left]
        moved = self._jobs.move(term, queues, _AT_ONCE)
        self._left |= moved.others.keys() | moved.broken.keys()

    def release(self, term: Term) -> None:
        """Release RQ's scheduler locks."""
        self._jobs.release(term, self._jobs.queues())
