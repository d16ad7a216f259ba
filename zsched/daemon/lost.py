"""
Lost runs: the leader finds runs whose worker died. It puts them back into their queues, or records them as lost.

A run is lost in one of two ways:

- The worker died during the run. RQ's job keeps the status ``started`` forever, and its entry in ``rq:wip`` lapses:
  RQ's workers renew it every 30 s, for 60 to 90 s ahead. Runs with lapsed entries are proposed to lost.lua, which
  judges whether the worker is dead (lua/lib/liveness.lua). A scan costs only the lapsed entries.
- The worker died between taking the job from its queue and starting it. The job has the status ``queued``, and is in no
  list. The tracker's rounds meet such runs. A run is lost if it was pushed more than a minute ago, is not in its queue,
  no worker is about to start it, and all of this still holds a few seconds later.

One script (lost.lua) checks once more and decides. With ``on_lost="retry"`` and a retry left, the run returns to its
queue at once, with one retry less (an ``again`` entry). Otherwise it is over, as *lost* (an ``end`` entry). A run
without ``retry`` is never run again. RQ's own cleanup does much the same when a worker does its maintenance, every ten
minutes. Whichever comes first does it.

Clocks: the entry in ``rq:wip`` lapses by the worker's clock, the key of its execution by the server's. So a worker with
a slow clock is not taken for dead. A dead worker with a fast clock is found correspondingly later.

Not guaranteed: a lost run may have happened. A worker that was only paused, or cut off from Redis, for longer than its
heartbeat continues when it comes back: the run happens at least once. The same holds for a run of RQ's SimpleWorker
without a timeout that takes longer than seven minutes, because it sends one heartbeat only. RQ's own cleanup may also
push a job that it has just read. RQ's ``on_failure`` callbacks are not called, because that needs a worker. Jobs that
depend on a lost run keep waiting.

A run lost before its start is not found while more than 10,000 runs that were pushed at the front are in its queue. A
job with the status ``started`` but without an entry in ``rq:wip`` is not found either. In a queue longer than that, a
run that a worker with a slow clock put back may be taken for lost. RQ's workers handle a job in
``rq:queue:<queue>:intermediate``: they fail it after a minute, unless its execution lapsed.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from zsched.archive.openruns import open_runs
from zsched.core.log import Position
from zsched.core.options.choices import OnLost
from zsched.core.pages import pages_of
from zsched.core.runs.attempts import Attempt, added, attempts_of, attempts_text
from zsched.core.runs.job import JobFacts, attempt_of_job, ms_of, whole
from zsched.core.runs.run import Run, RunStatus, facts_text, of_job
from zsched.core.runs.run_id import RunKey, run_key
from zsched.core.wording import in_a_line
from zsched.daemon.archiver import Archiver
from zsched.daemon.tracker import CATCH_UP_S, Tracker, say_paused
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch
from zsched.storage.jobs import Jobs
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.registries import Registries

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 1000.0  # from one step to the next
_SILENT_AT_ONCE: Final = 50  # runs per script: Redis does nothing else meanwhile
_MISSED_AT_ONCE: Final = 6  # runs per step whose queues are searched: 0.45 ms per 10,000 jobs (measured)
_SUSPECTS: Final = 1000  # remembered runs in no list

_LONGEST_WHY: Final = 400  # characters; a worker's name takes at most half of them
_LEFT: Final = "it left its queue and no worker has it"


@dataclass(frozen=True, slots=True)
class LostDelays:
    """
    Delays before a run in no list counts as lost, in seconds of the server: ``queued_s`` after its push, and
    ``missing_s`` after it was first missed.
    """

    queued_s: int = 60
    missing_s: int = 5


USUAL: Final = LostDelays()


@dataclass(frozen=True, slots=True)
class _Case:
    """A run that seems lost, with its job as read. ``members``: its lapsed entries in ``rq:wip``."""

    run: Run
    job: JobFacts
    members: Sequence[str] = ()

    @property
    def why(self) -> str:
        """Return the reason in one line."""
        if self.job.status == "queued":
            return _LEFT
        reason = f"its worker {self.job.worker} died: no heartbeat since {self.job.heartbeat_at}"
        return in_a_line(reason, _LONGEST_WHY)

    @property
    def queued_ms(self) -> float:
        """Return the time of its last push."""
        return ms_of(self.job.queued_at) or float("inf")

    @property
    def goes_on(self) -> bool:
        """Return True if it is to be retried."""
        return self.job.on_lost != OnLost.FAIL.value and whole(self.job.retries_left) > 0

    def row(self, now_ms: int) -> tuple[str, ...]:
        """Return its row for lost.lua."""
        job, run_id, why = self.job, self.run.id, self.why
        mark = job.queued_at if job.status == "queued" else job.heartbeat_at
        if self.goes_on:
            row, packed = ("again", str(job.attempt + 1), why), self._attempts(now_ms)
        else:
            seen = of_job(run_id, job, self.run.fired_us, self.run.is_uncertain)
            heartbeat_ms = ms_of(job.heartbeat_at)
            lost = seen._replace(status=RunStatus.LOST, ended_ms=now_ms, error=why, heartbeat_ms=heartbeat_ms)
            row = ("end", lost.status.value, facts_text(lost))
            packed = b64encode(zlib.compress(f"AbandonedJobError: {why}".encode())).decode()
        return self.run.schedule_id, run_id, job.status, mark, " ".join(self.members), *row, packed

    def _attempts(self, now_ms: int) -> str:
        """Return the text of its attempts with this one, which has no known end; the next one may begin now."""
        if self.job.status == "queued":
            attempt = Attempt(self.job.attempt, queued_ms=ms_of(self.job.queued_at))
        else:
            attempt = attempt_of_job(self.job, "")._replace(ended_ms=None)
        lost = attempt._replace(error=self.why, next_ms=now_ms)
        return attempts_text(added(attempts_of(self.job.attempts), lost))


class LostRuns:
    """
    A leader's chore for runs of dead workers. ``name`` and ``every_ms`` are for the ``ChoreThread``. *tracebacks*:
    record those of earlier attempts, too.
    """

    name: Final = "lost"
    every_ms: Final = _EVERY_MS

    def __init__(
        self,
        archiver: Archiver,
        keys: Keys,
        tracker: Tracker,
        patience: LostDelays | None = None,
        *,
        tracebacks: bool = True,
    ) -> None:
        self._archiver, self._keys, self._tracker, self._patience = archiver, keys, tracker, patience or USUAL
        self._tracebacks = tracebacks
        self._missing: dict[str, tuple[_Case, int]] = {}  # by run, with the second in which it was first missed

    def over(self, wire: Wire) -> LostRuns:
        """Use *wire* from now on."""
        self._dispatch = Dispatch(wire, self._keys)
        self._jobs = Jobs(wire, self._keys, tracebacks=self._tracebacks)
        self._registries = Registries(wire, self._keys.rq)
        return self

    def step(self, term: Term) -> bool:
        """
        Make one pass over lapsed entries, and over the queued runs that the tracker met.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused, ArchiveError.
        """
        path = self._archiver.path
        if path is None:
            return False
        now_s = self._registries.now_s()
        lapsed = self._ours(self._registries.lapsed(now_s))
        queued = self._tracker.take_queued()
        if not lapsed and not queued and not self._missing:
            return False
        with open_runs(path) as runs:
            as_of = runs.position
            if runs.life is None or as_of is None or as_of.epoch != term.epoch:
                return False
            open = runs.among(lapsed)
        cases = self._seen((run, lapsed[key]) for key, run in open.items())
        silent = [one for one in cases if one.job.status == "started"]
        met = [_Case(run, job) for run, job in queued] + [one for one in cases if one.job.status == "queued"]
        self._lose(term, as_of, silent, _SILENT_AT_ONCE, now_s)
        self._lose(term, as_of, self._missed(met, now_s), _MISSED_AT_ONCE, now_s)
        return False

    def _ours(self, lapsed: Mapping[str, list[str]]) -> dict[RunKey, list[str]]:
        """Return the lapsed entries of runs that look like ours."""
        found = {}
        for run_id, members in lapsed.items():
            key = run_key(run_id, self._keys.namespace)
            if key is not None:
                found[key] = members
        return found

    def _seen(self, open: Iterable[tuple[Run, Sequence[str]]]) -> list[_Case]:
        """Return the runs with their jobs, if RQ has them."""
        runs = list(open)
        jobs = self._jobs.look([run.id for run, _ in runs])
        return [_Case(run, job, members) for (run, members), job in zip(runs, jobs, strict=True) if job is not None]

    # -- runs lost before their start -------------------------------------------------------------

    def _missed(self, met: Iterable[_Case], now_s: int) -> list[_Case]:
        """Return queued runs that were in no list for long enough, and remember the others."""
        before = self._missing
        known = self._seen((case.run, case.members) for case, _ in before.values())
        cases = {case.run.id: case for case in (*known, *met)}
        self._missing, found = {}, []
        for case in self._absent(cases.values(), now_s)[:_SUSPECTS]:
            earlier, since_s = before.get(case.run.id, (case, now_s))
            if earlier.job.queued_at != case.job.queued_at:  # pushed again meanwhile
                since_s = now_s
            self._missing[case.run.id] = case, since_s
            if now_s - since_s >= self._patience.missing_s:
                found.append(case)
        return found

    def _absent(self, cases: Iterable[_Case], now_s: int) -> list[_Case]:
        """Return the runs that were pushed long ago and are in no list of their queues."""
        until_ms = (now_s - self._patience.queued_s) * 1000
        by_queue: dict[str, list[_Case]] = {}
        for case in cases:
            if case.job.status == "queued" and case.queued_ms <= until_ms:
                by_queue.setdefault(case.job.queue, []).append(case)
        absent = []
        for queue, head_ms in self._registries.heads(list(by_queue)).items():
            older = [case for case in by_queue[queue] if case.queued_ms < head_ms]  # workers take the oldest first
            line = self._registries.line(queue) if older else None
            if line is not None and line.since_ms is not None:
                gone = [one for one in older if one.queued_ms < line.since_ms and one.run.id not in line.ids]
                starting = self._registries.on_their_way(queue, [one.run.id for one in gone])
                absent += [one for one in gone if one.members or one.run.id not in starting]
        return absent

    # -- the decision -----------------------------------------------------------------------------

    def _lose(self, term: Term, as_of: Position, cases: Sequence[_Case], at_once: int, now_s: int) -> None:
        written: Position | None = None
        now_ms = now_s * 1000
        for portion in pages_of(cases, at_once):
            lost = self._dispatch.lose(term, as_of, [case.row(now_ms) for case in portion], now_ms)
            if lost is None:  # LOST: the archive will notice and report the loss in Redis
                break
            for case in portion:
                run_id = case.run.id
                if run_id in lost.again or run_id in lost.ended:
                    self._missing.pop(run_id, None)
                    log.warning("run_lost", run_id=run_id, reason=case.why, goes_on=run_id in lost.again)
            say_paused(lost.paused)
            if lost.entry is not None:
                written = lost.entry
                self._tracker.wrote(term, written)
        self._archiver.wait_until(written, CATCH_UP_S)
