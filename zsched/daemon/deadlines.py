"""
Deadlines: the leader logs each occurrence that has not succeeded by its deadline, once, and reports those at risk.

The archive knows the deadlines (``archive.deadlines``): nothing in Redis waits for them. When one passes, the leader
reads the position of the last such entry in ``meta``, and waits until its archive has the whole log up to now. What is
still due then has not been logged by any leader. deadline.lua compares the position once more, so an entry of a paused
leader, or one whose reply was lost, is written once. After a loss of Redis the archives have the entries.

RQ knows the state of a run. A run that RQ calls finished in time is left alone: its end will be in the log in a moment.

Not guaranteed: a deadline that passed while no archive followed the log may be logged late or, by an archive that began
later, not at all.
"""

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final, Self

from zsched.archive import History
from zsched.archive.deadlines import OpenDeadline, deadlines_of
from zsched.core.clock import LAST_MS
from zsched.core.entry import Position, text
from zsched.core.log.lives import EndEntry
from zsched.core.occurrences.changes import Change, is_push, run_that_ended
from zsched.core.occurrences.outcomes import LEFT_OUT, What
from zsched.core.runs.cells import lasting
from zsched.core.runs.job import JobFacts
from zsched.core.runs.run import Run, RunStatus, of_job
from zsched.core.story.sentences import sentence, state_text
from zsched.core.story.story import of_run
from zsched.core.wording import plural, rough_duration
from zsched.daemon.archiver import Archiver
from zsched.storage.connection import Wire
from zsched.storage.jobs import Jobs
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log
from zsched.storage.meta import server_now_ms, throttled_sets
from zsched.storage.scripts import Scripts

_EVERY_MS: Final = 500.0  # between two looks for new deadlines
_AGAIN_MS: Final = 100.0  # while ends of runs are about to be logged
_CATCH_UP_S: Final = 1.0  # wait until the archive has the log's last entry
_AT_ONCE: Final = 100  # deadlines in a step
_RISKS_MS: Final = 10_000  # between two looks for deadlines at risk
_AMONG: Final = 200  # entries of a schedule, among which its last runs are searched
_LAST: Final = 20  # runs, of which the 95th percentile counts
_LEAST: Final = 5  # runs: fewer say nothing
_MOST_AHEAD: Final = 10_000  # characters of the list in front of a run: the search takes 0.45 ms (measured)


class DeadlineWatch:
    """Logs missed deadlines. ``name``, ``every_ms`` and ``step`` are for the ``ChoreThread``."""

    name = "deadlines"

    def __init__(self, archiver: Archiver, keys: Keys) -> None:
        self._archiver, self._keys = archiver, keys
        self.every_ms = _EVERY_MS
        self._next_ms = self._risks_ms = 0
        self._seen: Position | None = None  # the archive's end at the last look
        self._usual = dict[str, int]()  # by the id of a schedule: for as long as it has one of the next deadlines

    def over(self, wire: Wire) -> Self:
        """Use *wire* from now on."""
        self._wire, self._scripts, self._log = wire, Scripts(wire, self._keys), Log(wire, self._keys)
        self._jobs = Jobs(wire, self._keys, tracebacks=False)
        return self

    def step(self, term: Term) -> bool:
        """
        Log the deadlines that passed; return whether there may be more.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused, ArchiveError.
        """
        path, now_ms, position = self._archiver.path, server_now_ms(self._wire, self._keys), self._archiver.position
        has_more = False
        if path is not None and (position != self._seen or now_ms >= min(self._next_ms, self._risks_ms)):
            with History(path) as history:
                coming = deadlines_of(history, 0, LAST_MS, 1)
            self._seen, self._next_ms = position, coming[0].at_ms if coming else LAST_MS
            has_more = self._next_ms <= now_ms and self._log_missed(term, path, now_ms)
            if now_ms >= self._risks_ms:
                self._risks_ms = now_ms + _RISKS_MS
                self._archiver.at_risk = self._at_risk(path, now_ms) if coming else []
        self.every_ms = _AGAIN_MS if self._next_ms <= now_ms else min(_EVERY_MS, self._next_ms - now_ms)
        return has_more

    def _log_missed(self, term: Term, path: Path, now_ms: int) -> bool:
        """Log what is due, as soon as the archive has all of the log; return whether there may be more."""
        logged, last = self._wire.execute("HGET", self._keys.meta(), "deadline"), self._log.last()
        self._archiver.wait_until(last and last.position, _CATCH_UP_S)
        with History(path) as history:
            as_of = history.position
            if last is None or as_of is None or history.is_bootstrapping or as_of.order < last.position.order:
                return False
            due = deadlines_of(history, 0, now_ms, _AT_ONCE)
            jobs = zip(due, self._jobs.read([one.run_id for one in due]), strict=True)
            missed = [row for each, job in jobs if (row := self._row_of(history, each, job, now_ms)) is not None]
        seen = {"seen_entry": as_of.id, "seen_t": as_of.t_us, "logged": text(logged or b"")}
        self._scripts.call("deadline", rows=list(chain.from_iterable(missed)), **seen, **term.fence)
        return len(missed) == _AT_ONCE

    def _row_of(
        self, history: History, due: OpenDeadline, job: JobFacts | None, now_ms: int
    ) -> tuple[str, str, str] | None:
        """Return the row of deadline.lua for an occurrence; None if a run of it has just succeeded in time."""
        runs = [] if job is None or not job.queued_at else [of_job(due.run_id, job, None)]
        changes = [] if runs and not runs[0].is_over else self._changes_of(history, due)  # an entry may have thousands
        retries = [one.run_id for one in changes if one.what is What.RETRIED and one.run_id]
        runs += (of_job(id, job, None) for id, job in zip(retries, self._jobs.read(retries), strict=True) if job)
        ended = [run_that_ended(one) for one in changes if one.what is What.RUN_ENDED]
        if any(run.status is RunStatus.SUCCEEDED and (run.ended_ms or 0) <= due.at_ms for run in (*runs, *ended)):
            return None
        runs = runs or ended
        is_pushed = bool(runs) or any(map(is_push, changes))
        state = "was pushed, and RQ has no job of it" if is_pushed else f"never fired{self._reason(due, changes)}"
        return due.run_id, f"{due.at_ms} {is_pushed:d}", self._state(runs[-1], due, now_ms) if runs else state

    def _changes_of(self, history: History, due: OpenDeadline) -> list[Change]:
        """Return the changes that concern an occurrence, since its time."""
        first_n = history.first_since(due.nominal_ms * 1000)
        entries = history.entries(due.id, first_n, most=_AMONG, is_forwards=True)
        return of_run(due.run_id, [one for _, entry in entries for one in history.changes_in(entry, due.id)])

    def _reason(self, due: OpenDeadline, changes: Sequence[Change]) -> str:
        """Return the reason why an occurrence did not fire, behind a colon; '' if none is known."""
        for one in reversed(changes):
            if one.what in (*LEFT_OUT, What.QUARANTINED):
                return f": {sentence(one, due.tz)}"
        for place in throttled_sets(self._wire, self._keys):
            if self._wire.execute("ZSCORE", place.key(self._keys), due.id) is not None:
                return f": held back with queue {place.queue}"
        return ""

    def _state(self, run: Run, due: OpenDeadline, now_ms: int) -> str:
        """Return the state of an occurrence's last run in words."""
        retry = "" if run.id == due.run_id else f"was retried by {run.id}, which "
        if run.is_over:
            late = rough_duration(max((run.ended_ms or due.at_ms) - due.at_ms, 0))
            too_late = f", {late} too late" if run.status is RunStatus.SUCCEEDED else ""
            return f"{retry}{state_text(run, due.tz)}{too_late}"
        behind = f", for a slot of RQ's limit {run.limit}" if run.limit else ""
        if run.status is RunStatus.QUEUED and run.queue and not run.limit:
            queue = self._keys.rq.queue(run.queue)
            ahead = self._wire.execute("LPOS", queue, run.id, "MAXLEN", _MOST_AHEAD)
            behind = f", behind {plural(ahead, 'other')} in queue {run.queue}" if ahead else ""
        return f"{retry}was {lasting(run, now_ms)}{behind}"

    def _at_risk(self, path: Path, now_ms: int) -> list[tuple[str, int, int]]:
        """Return id, deadline and usual duration of schedules that will probably miss their next deadlines."""
        with History(path) as history:
            coming = deadlines_of(history, now_ms + 1, LAST_MS, _AT_ONCE)
            self._usual = {one.id: self._usual.get(one.id) or _usual_ms(history, one.id) for one in coming}
        found, jobs = [], self._jobs.read([one.run_id for one in coming])
        for one, job in zip(coming, jobs, strict=True):
            usual_ms, started_ms = self._usual[one.id], of_job(one.run_id, job, None).started_ms
            if usual_ms and max(started_ms or now_ms, one.nominal_ms) + usual_ms > one.at_ms:
                found.append((one.id, one.at_ms, usual_ms))
        return found


def _usual_ms(history: History, id: str) -> int:
    """Return the 95th percentile of the durations of the last runs of a schedule; 0 if they are too few."""
    entries = history.entries(id, kinds={EndEntry.kind}, most=_AMONG)
    ends = (run_that_ended(one) for _, entry in entries for one in history.changes_in(entry, id))
    took = (run.duration_ms for run in ends if run.status is RunStatus.SUCCEEDED)
    last_ms = sorted(islice((ms for ms in took if ms is not None), _LAST))
    return last_ms[(len(last_ms) * 19 - 1) // 20] if len(last_ms) >= _LEAST else 0
