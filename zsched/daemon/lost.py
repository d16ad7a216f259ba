"""
Lost runs: the leader finds runs whose worker died. It requeues them, or records them as lost.

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
run that a worker with a slow clock requeued may be taken for lost. RQ's workers handle a job in
``rq:queue:<queue>:intermediate``: they fail it after a minute, unless its execution lapsed.
"""

import zlib
from base64 import b64encode
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, Self

import structlog

from zsched.archive.runs import OpenRuns
from zsched.core.entry import Position
from zsched.core.options.choices import OnLost
from zsched.core.pages import grouped, pages_of
from zsched.core.runs.attempts import Attempt, added, attempts_of, attempts_text
from zsched.core.runs.job import JobFacts, attempt_of_job, ms_of, whole
from zsched.core.runs.run import Run, RunStatus, as_seen, facts_text
from zsched.core.runs.run_id import run_key
from zsched.core.wording import in_a_line
from zsched.daemon.archiver import Archiver
from zsched.daemon.tracker import CATCH_UP_S, Tracker, say_paused
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch
from zsched.storage.jobs import Jobs, Registries
from zsched.storage.keys import Keys
from zsched.storage.lease import Term

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 1000.0  # from one step to the next
_SILENT_AT_ONCE: Final = 50  # runs per script: Redis does nothing else meanwhile
_MISSED_AT_ONCE: Final = 6  # runs per step whose queues are searched: 0.45 ms per 10,000 jobs (measured)
_SUSPECTS: Final = 1000  # remembered runs in no list

_LONGEST_WHY: Final = 400  # characters; a worker's name takes at most half of them
_LEFT: Final = "it left its queue and no worker has it"


# Delays before a run in no list counts as lost, in seconds of the server.
QUEUED_S: Final = 60  # after its push
MISSING_S: Final = 5  # after it was first missed
_Suspect = tuple[Run, JobFacts]  # a run that seems lost, and its job as read
_Lapsed = Mapping[str, Sequence[str]]  # by run id: its lapsed entries in ``rq:wip``


class LostRuns:
    """
    A leader's chore for runs of dead workers. ``name`` and ``every_ms`` are for the ``ChoreThread``. *tracebacks*:
    record those of earlier attempts, too.
    """

    name = "lost"
    every_ms = _EVERY_MS

    def __init__(self, archiver: Archiver, keys: Keys, tracker: Tracker, *, tracebacks: bool = True) -> None:
        self._archiver, self._keys, self._tracker, self._tracebacks = archiver, keys, tracker, tracebacks
        self.queued_s, self.missing_s = QUEUED_S, MISSING_S
        # By run id: the run, the time of its push in RQ's form, and the second in which it was first missed.
        self._missing: dict[str, tuple[Run, str, int]] = {}

    def over(self, wire: Wire) -> Self:
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
        if path is None or self._tracker.is_at_rest:
            return False
        now_s = self._registries.now_s()
        lapsed = self._registries.lapsed(now_s)
        ours = [key for run_id in lapsed if (key := run_key(run_id, self._keys.namespace)) is not None]
        queued = self._tracker.take_queued()
        if not ours and not queued and not self._missing:
            return False
        with OpenRuns(path) as runs:
            as_of = runs.position
            if runs.is_bootstrapping or as_of is None or as_of.epoch != term.epoch:
                return False
            open = runs.among(ours)
        seen = self._seen(open.values())
        silent = [(run, job) for run, job in seen if job.status == "started"]
        met = [*queued, *((run, job) for run, job in seen if job.status == "queued")]
        missed = self._missed(met, lapsed, now_s)
        portions = chain(pages_of(silent, _SILENT_AT_ONCE), pages_of(missed, _MISSED_AT_ONCE))
        self._lose(term, as_of, portions, lapsed, now_s * 1000)
        return False

    def _seen(self, runs: Iterable[Run]) -> list[_Suspect]:
        """Return the runs with their jobs, if RQ has them."""
        open = list(runs)
        jobs = self._jobs.read([run.id for run in open])
        return [(run, job) for run, job in zip(open, jobs, strict=True) if job is not None]

    # -- runs lost before their start -------------------------------------------------------------

    def _missed(self, met: Iterable[_Suspect], lapsed: Container[str], now_s: int) -> list[_Suspect]:
        """Return queued runs that were in no list for long enough, and remember the others."""
        before = self._missing
        known = self._seen(run for run, _, _ in before.values())
        suspects = {run.id: (run, job) for run, job in (*known, *met)}
        self._missing, found = {}, []
        for run, job in self._absent(suspects.values(), lapsed, now_s)[:_SUSPECTS]:
            _, queued_at, since_s = before.get(run.id, (run, job.queued_at, now_s))
            if queued_at != job.queued_at:  # pushed again meanwhile
                since_s = now_s
            self._missing[run.id] = run, job.queued_at, since_s
            if now_s - since_s >= self.missing_s:
                found.append((run, job))
        return found

    def _absent(self, suspects: Iterable[_Suspect], lapsed: Container[str], now_s: int) -> list[_Suspect]:
        """Return the runs that were pushed long ago and are in no list of their queues."""
        until_ms = (now_s - self.queued_s) * 1000
        queued = ((ms_of(job.queued_at), (run, job)) for run, job in suspects if job.status == "queued")
        by_queue = grouped((one[1].queue, (ms, one)) for ms, one in queued if ms and ms <= until_ms)
        absent = []
        for queue, head_ms in self._registries.heads(list(by_queue)).items():
            older = [one for one in by_queue[queue] if one[0] < head_ms]  # workers take the oldest first
            line = self._registries.line(queue) if older else None
            if line is not None and line.since_ms is not None:
                gone = [one for queued_ms, one in older if queued_ms < line.since_ms and one[0].id not in line.ids]
                starting = self._registries.on_their_way(queue, [run.id for run, _ in gone])
                absent += [(run, job) for run, job in gone if run.id in lapsed or run.id not in starting]
        return absent

    # -- the decision -----------------------------------------------------------------------------

    def _lose(
        self, term: Term, as_of: Position, portions: Iterable[list[_Suspect]], lapsed: _Lapsed, now_ms: int
    ) -> None:
        written: Position | None = None
        for portion in portions:
            rows = [lost_row(run, job, lapsed.get(run.id, ()), now_ms) for run, job in portion]
            lost = self._dispatch.lose(term, as_of, rows, now_ms)
            if lost is None:  # LOST: the archive will notice and report the loss in Redis
                break
            for run, job in portion:
                if run.id in lost.again or run.id in lost.ended:
                    self._missing.pop(run.id, None)
                    log.warning("run_lost", run_id=run.id, reason=_reason(job), goes_on=run.id in lost.again)
            say_paused(lost.paused)
            if lost.entry is not None:
                written = lost.entry
                self._tracker.wrote(term, written)
        self._archiver.wait_until(written, CATCH_UP_S)


def lost_row(run: Run, job: JobFacts, lapsed: Iterable[str], now_ms: int) -> tuple[str, ...]:
    """Return the row for lost.lua of a *run* that seems lost; *lapsed*: its lapsed entries in ``rq:wip``."""
    reason = _reason(job)
    if job.on_lost != OnLost.FAIL.value and whole(job.retries_left) > 0:
        decision = "again", str(job.attempt + 1), reason, _attempts(job, now_ms)
    else:
        heartbeat_ms, seen = ms_of(job.heartbeat_at), as_seen(run, job)
        lost = seen._replace(status=RunStatus.LOST, ended_ms=now_ms, error=reason, heartbeat_ms=heartbeat_ms)
        packed = b64encode(zlib.compress(f"AbandonedJobError: {reason}".encode())).decode()
        decision = "end", lost.status.value, facts_text(lost), packed
    mark = job.queued_at if job.status == "queued" else job.heartbeat_at
    return run.schedule_id, run.id, job.status, mark, " ".join(lapsed), *decision


def _reason(job: JobFacts) -> str:
    """Return why the run of *job* is lost, in one line."""
    if job.status == "queued":
        return _LEFT
    return in_a_line(f"its worker {job.worker} died: no heartbeat since {job.heartbeat_at}", _LONGEST_WHY)


def _attempts(job: JobFacts, now_ms: int) -> str:
    """Return the text of the attempts with this one, which has no known end; the next one may begin now."""
    if job.status == "queued":
        attempt = Attempt(job.attempt, queued_ms=ms_of(job.queued_at))
    else:
        attempt = attempt_of_job(job, "")._replace(ended_ms=None)
    return attempts_text(added(attempts_of(job.attempts), attempt._replace(error=_reason(job), next_ms=now_ms)))
