"""
The tracker: the leader finds finished runs, and records their ends in the log, so that every archive has them.

It needs nothing in the worker or in the firing path. It finds finished runs in three ways:

- RQ's own registries list the jobs that ended since the last scan (``Endings``). The cost grows only with these jobs.
  So neither a million waiting runs nor a lost run at the head of its queue delays it.
- Deadlines name the runs that may have expired in their queues.
- Rounds through the archive's state, a part at a time, ask RQ about every open run. They find deleted and cancelled
  runs, runs that ended without a leader, and runs that the registries do not show.

A round that met no open run holds for as long as the archive's end stays the same. Until then the tracker rests: it
begins no other round, and scans once in five seconds, for requeued runs.

If a job ended, and the archive does not list it as open after some seconds, its end is already recorded or it is not
ours. There is one exception: somebody may requeue a run in RQ, for example by rq-dashboard. Then its new end is
recorded, too, as another attempt.

An end is recorded once, for two reasons. Only runs that the archive lists as open are recorded. And the archive must
have this term's first entry and the last recorded ends before more are written. An end must belong to the history in
which the run was fired: every write carries the archive's last entry, and Redis answers LOST if its log lacks that
entry. In a Redis that lost the runs, a missing job proves nothing.

RQ's hash has the times of the last attempt only. Rounds that meet a run between two attempts remember the earlier one,
in this process, until the run ends. So times of attempts by plain workers are known as far as rounds saw them.

Not guaranteed: a run that RQ forgot (``result_ttl``) before the first scan is only known as *lost*. The new end of a
requeued run is not recorded if both ends come between two scans, or without a leader.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final, Self

import structlog

from zsched.archive.runs import OpenRuns
from zsched.core.entry import Position, text
from zsched.core.pages import pages_of
from zsched.core.runs.attempts import Attempt, joined
from zsched.core.runs.job import JobFacts
from zsched.core.runs.run import Run, RunStatus, of_job, requeued
from zsched.core.runs.run_id import RunKey, run_key
from zsched.daemon.archiver import Archiver
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch
from zsched.storage.jobs import Deadlines, Jobs, Registries
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log

log = structlog.get_logger(__name__)

_USUAL: Final = {"finished": 500, "failed": 31_536_000}  # RQ's own lifetimes, in s
_SLOW_S: Final = 2  # a worker's clock behind the server's, at most
_FAST_S: Final = 60  # and ahead of it
_BEFORE_S: Final = 30  # the first scan's range: jobs that ended under another leader, or without one
_ALIKE_S: Final = 5  # lifetimes that differ by less are the same
_MOST: Final = 16  # lifetimes of one registry
_LEARN_EVERY: Final = 20  # scans, from the first on


class Endings:
    """
    Jobs that ended since the last scan. The cost grows only with these jobs, not with the waiting ones.

    RQ's registries have a score for each ended job: the second in which RQ will forget it. That is its end plus a
    lifetime. Few lifetimes are in use: 500 s for succeeded jobs, a year for failed ones, unless configured otherwise.
    So for each lifetime, newly ended jobs appear at one place in the registry, and that place moves with the clock.
    Every scan reads that place, beginning a little before the last scan (workers' clocks differ), and leaves out
    reported jobs. Unknown lifetimes are learnt from a few random members.

    Not found here: jobs with a lifetime beyond the 16 known ones; jobs that RQ keeps forever or not at all; jobs of a
    worker with a clock that is wrong by more than the margin; cancelled or deleted jobs. The tracker's rounds find
    these.
    """

    def __init__(self) -> None:
        self._lifetimes: dict[str, dict[int, None]] = {}  # by registry, in the order in which they were learnt
        self._reported: dict[str, set[bytes]] = {}  # by registry, at the last scan
        self._last_s: int | None = None  # of the server, at the last scan
        self._scans = 0

    def scan(self, registries: Registries) -> list[str]:
        """
        Return the jobs that ended since the last scan; at the first scan, in the last half minute. RQ's own are
        included.
        """
        now_s, keys = registries.now_s(), registries.keys()
        for key, kind in keys.items():
            self._lifetimes.setdefault(key, {_USUAL[kind]: None})
        is_to_learn = self._scans % _LEARN_EVERY == 0
        self._scans += 1
        if is_to_learn:
            self._learn(registries, keys)
        earliest_s = now_s - _BEFORE_S
        since_s = min(max(self._last_s or earliest_s, earliest_s), now_s) - _SLOW_S
        spans = [(key, since_s + s, now_s + s + _FAST_S) for key in keys for s in sorted(self._lifetimes[key])]
        read: dict[str, set[bytes]] = {key: set() for key in keys}
        for (key, _, _), members in zip(spans, registries.members(spans), strict=True):
            read[key].update(members)
        ended = {id for key, members in read.items() for id in members - self._reported.get(key, set())}
        self._reported, self._last_s = read, now_s  # the next scan reads nothing older than these
        return [text(id) for id in ended]

    def _learn(self, registries: Registries, keys: Iterable[str]) -> None:
        for key, shown in registries.lifetimes(list(keys)).items():
            known = self._lifetimes[key]
            for lifetime_s in shown:
                if not any(one < lifetime_s + _SLOW_S and lifetime_s < one + _ALIKE_S for one in known):
                    known[lifetime_s] = None
                    if len(known) > _MOST:  # drop the lifetime that was learnt first, except RQ's own
                        del known[list(known)[1]]


_EVERY_MS: Final = 250.0  # from one step to the next
_SELDOM_MS: Final = 500.0  # while nothing ends
_RESTING_MS: Final = 5000.0  # from one scan to the next while no run is open
_ROUND_EVERY_MS: Final = 2000.0  # a part of a round
_ROUND_SELDOM_MS: Final = 60_000.0  # between two checks that the state is still the one without an open run
_LOOKED_AT: Final = 5000  # rows of the state in a part, of which most may wait: 2.5 ms (measured)
_LOOKED_AT_FIRST: Final = 50_000  # in a term's first round, which finds runs that ended without a leader
_ASKED: Final = 1000  # open runs in a part
_AT_ONCE: Final = 200  # runs per script: Redis does nothing else meanwhile
_REQUEUED: Final = 20  # runs per step that are searched among earlier ends
_WAITING: Final = 100_000  # pending or earlier ends that are kept; rounds find the others
_PATIENCE: Final = 40  # steps, for the archive to learn of the push of a run that ended
_NEAR_TIMEOUT: Final = 0.9  # a larger share of its timeout is logged; alerts.yml has the same value
_RETRIED: Final = 5000  # open runs whose attempts are remembered
_HANDED_OVER: Final = 5000  # queued runs met by rounds, until they are requested
CATCH_UP_S: Final = 1.0  # wait until the archive has the entries of a step


class Tracker:
    """
    A leader's chore for finished runs. ``name`` and ``every_ms`` are for the ``ChoreThread``. *tracebacks*: record
    them, too.
    """

    name = "tracker"

    def __init__(self, archiver: Archiver, keys: Keys, *, tracebacks: bool = True) -> None:
        self._archiver, self._keys, self._tracebacks = archiver, keys, tracebacks
        self.every_ms = _EVERY_MS
        self._endings = Endings()
        self._ended: dict[RunKey, int] = {}  # not yet recorded, with the remaining steps to wait
        self._near_timeout: dict[str, float] = {}  # runs of this step, with the share of their timeout
        self._over_before: deque[RunKey] = deque(maxlen=_WAITING)  # not open: over before, or not ours
        self._around: RunKey | None = None  # the round continues here, also in another term
        self._round_of: Position | None = None  # the archive's end when the round began; None: it shows nothing
        self._queued: deque[tuple[Run, JobFacts]] = deque(maxlen=_HANDED_OVER)
        self._written: tuple[str, Position] | None = None  # the last entry with ends that a chore wrote, and its term
        self._until_scan_ms = 0.0
        self._forget(None)

    def over(self, wire: Wire) -> Self:
        """Use *wire* from now on."""
        self._dispatch = Dispatch(wire, self._keys)
        self._jobs = Jobs(wire, self._keys, tracebacks=self._tracebacks)
        self._registries, self._deadlines = Registries(wire, self._keys.rq), Deadlines(wire, self._keys)
        self._log, self._is_new_wire = Log(wire, self._keys), True
        return self

    @property
    def is_at_rest(self) -> bool:
        """Return True if no run is open: a round met none, and nothing was logged since."""
        return self._without_open is not None and self._without_open == self._archiver.position

    def take_queued(self) -> list[tuple[Run, JobFacts]]:
        """Return the newest queued runs that its rounds met since the last call."""
        taken = list(self._queued)
        self._queued.clear()
        return taken

    def wrote(self, term: Term, entry: Position) -> None:
        """
        Note that a chore recorded ends in *term*, up to *entry*: record nothing before the archive has that entry.
        """
        self._written = term.token, entry

    def step(self, term: Term) -> bool:
        """
        Make one pass over the runs that ended since the last pass; return False.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused, ArchiveError.
        """
        if (path := self._archiver.path) is None:
            return False
        if self._is_new_wire and (last := self._log.last()) is not None:
            self.wrote(term, last.position)  # the reply to a chore's last write may be lost, but not the write
        self._is_new_wire = False
        is_round = self._is_round_due()
        if self.is_at_rest and not is_round and not self._ended and self._until_scan_ms > 0:
            return False
        self._until_scan_ms = _RESTING_MS
        is_first = self._of is None or self._of[0] != term.token  # ends before its term were archived long ago
        self._note(self._endings.scan(self._registries), 0 if is_first else _PATIENCE)
        self._note(self._deadlines.passed(), _PATIENCE)
        self.every_ms = _EVERY_MS if self._ended else _SELDOM_MS
        if not self._ended and not is_round:
            return False
        with OpenRuns(path) as runs:
            as_of = runs.position
            if runs.is_bootstrapping or as_of is None or as_of.epoch != term.epoch:
                return False
            if (written := self._last_written(term)) is not None and as_of.order < written.order:
                return False  # it may lack recorded ends
            if self._of != (term.token, runs.life):
                self._forget((term.token, runs.life))
            ended = runs.among(self._ended)
            for key in ended:
                del self._ended[key]
            # Stop waiting for runs that the archive did not list as open in time.
            self._over_before.extend(key for key, steps in self._ended.items() if steps == 1)
            self._ended = {key: steps - 1 for key, steps in self._ended.items() if steps > 1}
            some = list(islice(self._over_before, _REQUEUED))
            before = [run for key in some if (run := runs.last_end(key)) is not None]
            asked = list({run.id: run for run in chain(ended.values(), self._go_around(runs, is_round))}.values())
        self._track(term, as_of, [*self._over_of(asked, path), *self._requeued(before)])
        for _ in some:  # after Redis has answered about them
            self._over_before.popleft()
        self._archiver.wait_until(self._last_written(term), CATCH_UP_S)
        return False

    def _forget(self, of: tuple[str, int] | None) -> None:
        """Begin again, in a term and with a state."""
        self._of = of
        self._attempts: dict[str, tuple[Attempt, ...]] = {}  # of open runs by plain workers, as far as it saw them
        self._without_open: Position | None = None  # the archive's end at which a round met no open run
        self._round_of = None  # a round through two states shows nothing
        self._until_round_ms = 0.0
        self._first_rounds = 1 if self._around is None else 2  # until all of the state was seen once

    def _last_written(self, term: Term) -> Position | None:
        return self._written[1] if self._written is not None and self._written[0] == term.token else None

    def _note(self, ended: Iterable[str], patience: int) -> None:
        """Add ended jobs with ids that look like ours."""
        for run_id in ended:
            key = run_key(run_id, self._keys.namespace)
            if key is not None and (patience == 0 or len(self._ended) < _WAITING):
                self._ended[key] = patience

    def _is_round_due(self) -> bool:
        """Count a step. The rest after a round without an open run ends with the next entry, or the next end."""
        self._until_round_ms -= self.every_ms
        self._until_scan_ms -= self.every_ms
        has_news = self._archiver.position != self._without_open or bool(self._over_before)
        if self._without_open is not None and has_news:
            self._without_open, self._until_round_ms = None, min(self._until_round_ms, _ROUND_EVERY_MS)
        return self._until_round_ms <= 0

    def _go_around(self, runs: OpenRuns, is_round: bool) -> Sequence[Run]:
        """Return a part of the open runs, round after round."""
        if not is_round:
            return ()
        self._until_round_ms = _ROUND_EVERY_MS
        if self._around is None:
            if runs.position == self._without_open:
                self._until_round_ms = _ROUND_SELDOM_MS
                return ()
            self._round_of = runs.position
        found, self._around = runs.next(self._around, _LOOKED_AT_FIRST if self._first_rounds else _LOOKED_AT, _ASKED)
        if found:
            self._round_of = None
        if self._around is None:
            self._first_rounds = max(self._first_rounds - 1, 0)
            if self._round_of is not None and self._round_of == runs.position:
                self._without_open, self._until_round_ms = self._round_of, _ROUND_SELDOM_MS
        return found

    def _track(self, term: Term, as_of: Position, over: Sequence[tuple[Run, str]]) -> None:
        """Record the finished runs."""
        for page in pages_of(over, _AT_ONCE):
            tracked = self._dispatch.track(term, as_of, page)
            if tracked is None:  # LOST: the archive will notice and report the loss in Redis
                break
            if tracked.entry is not None:
                self.wrote(term, tracked.entry)
            say_paused(tracked.paused)
            for run, _ in page:
                if run.status is RunStatus.REFUSED:
                    log.error("run_refused", run_id=run.id)
                if share := self._near_timeout.pop(run.id, 0.0):
                    log.warning("run_near_timeout", run_id=run.id, share=round(share, 2))

    def _over_of(self, open: Sequence[Run], path: Path) -> list[tuple[Run, str]]:
        """
        Return the finished ones of the *open* runs, with the states of their jobs, in the order of their ends: so
        failures in a row are counted.
        """
        over: list[tuple[Run, str]] = []
        forgotten: list[str] = []
        self._near_timeout.clear()
        for one, job in zip(open, self._jobs.read([run.id for run in open]), strict=True):
            run = of_job(one.id, job, one.fired_us, one.is_uncertain, self._deadlines.since_ms)
            if run.is_over:
                if (before := self._attempts.pop(run.id, None)) is not None:
                    run = run._replace(attempts=joined(before, run.attempts))
                seen = "gone" if job is None or run.status is RunStatus.EXPIRED else job.seen
                over.append((run, seen))
                if (share := run.timeout_share or 0.0) > _NEAR_TIMEOUT:
                    self._near_timeout[run.id] = share
                if not run.queue:
                    forgotten.append(run.id)
            elif run.attempts:
                self._attempts[run.id] = joined(self._attempts.get(run.id, ()), run.attempts)
                if len(self._attempts) > _RETRIED:
                    del self._attempts[next(iter(self._attempts))]
            if job is not None and job.status == "queued":
                self._queued.append((one, job))
        queues: dict[str, str] = {}
        if forgotten:  # their jobs no longer name a queue; the archive does
            with OpenRuns(path) as runs:
                queues = runs.queues(forgotten)
        over.sort(key=lambda pair: pair[0].ended_ms or 0)
        return [(run._replace(queue=queues.get(run.id, run.queue)), seen) for run, seen in over]

    def _requeued(self, before: Sequence[Run]) -> list[tuple[Run, str]]:
        """Return the runs with one more end than recorded, with the states of their jobs."""
        pairs = zip(before, self._jobs.read([run.id for run in before]), strict=True)
        return [(run, job.seen) for known, job in pairs if job and (run := requeued(known, job)) and run.is_over]


def say_paused(schedules: Iterable[str]) -> None:
    """Log that *schedules*, by id, were paused because their runs failed."""
    for id in schedules:
        log.error("schedule_paused", schedule_id=id, reason="its runs failed one after the other")
