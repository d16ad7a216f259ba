"""
The tracker: the leader finds out which runs are over, and writes it into the log, so that every archive learns it.

It needs nothing in the worker and nothing where runs are fired. Three ways lead to a run that is over:

- RQ's own registries say what ended since the last look (``endings``), which costs what ended and nothing else: so a
  million runs that wait, or a lost one at the head of its queue, keep nobody from being noticed;
- the deadlines of runs that had one say which may have expired in their queues;
- rounds through the archive's state, a part at a time, ask RQ about every run that is open: so it finds what was
  deleted or cancelled, what ended when nobody led, and what the registries do not show.

What ended and is not open in the archive after some seconds was told already, or is nobody's; unless somebody put it
into its queue again in RQ, with rq-dashboard say: then its new end is recorded too, as one attempt more.

A run counts as over once, because only runs that the archive has as open are written down, and the archive has this
term's first entry and what was written last before anything more is. What is said must be true of the history in which
the runs were fired: the archive's last entry goes with every write, and Redis answers LOST when its log lacks it.
That a Redis which lost the runs has no jobs of theirs tells nothing.

Not guaranteed: that a run which RQ forgot (``result_ttl``) before anybody looked is known as more than *lost*; that
the new end of a run queued again by hand is recorded, when it came between two looks with the one before, or while
nobody led.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import structlog

from zsched.archive.openruns import OpenRun, OpenRuns, open_runs
from zsched.core.log import Position
from zsched.core.run_id import RunId, RunKey
from zsched.core.runs import Job, Run, RunStatus, of_job
from zsched.daemon.archiver import Archiver
from zsched.daemon.endings import Endings
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch, Over
from zsched.storage.jobs import Deadlines, Jobs
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log
from zsched.storage.registries import Registries

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 250.0  # from one step to the next
_SELDOM_MS: Final = 500.0  # while nothing ends
_ROUND_EVERY_MS: Final = 2000.0  # a part of a round: it takes some of the interpreter from the thread that fires
_LOOKED_AT: Final = 5000  # rows of the state in a part, of which most may wait: 2.5 ms (measured)
_LOOKED_AT_FIRST: Final = 10_000  # in a term's first round, which finds what ended when nobody led
_ASKED: Final = 1000  # open runs in a part
_AT_ONCE: Final = 200  # runs per script: Redis does nothing else meanwhile
_REQUEUED: Final = 20  # runs in one step that are looked for among those that ended before
_SAME_END_MS: Final = 1000  # two writers of one end may be so far apart
_WAITING: Final = 100_000  # ends that are waited for, or looked for among earlier ones; rounds find what is more
_PATIENCE: Final = 40  # steps, for the archive to learn of the push of a run that ended
_HANDED_OVER: Final = 5000  # runs met in their queues, until somebody asks for them
_CATCH_UP_S: Final = 1.0  # for the archive to have what a step wrote


class Tracker:
    """A leader's chore of runs that end. ``name`` and ``every_ms`` are for the ``ChoreThread``."""

    name: Final = "tracker"

    def __init__(self, archiver: Archiver, keys: Keys) -> None:
        self._archiver, self._keys = archiver, keys
        self.every_ms = _EVERY_MS
        self._endings = Endings()
        self._ended: dict[RunKey, int] = {}  # not yet written down, with the steps for which they are waited for
        self._over_before: deque[RunKey] = deque(maxlen=_WAITING)  # not open: over before, or nobody's
        self._around: RunKey | None = None  # where the round goes on: also in another term
        self._queued: deque[tuple[OpenRun, Job]] = deque(maxlen=_HANDED_OVER)
        self._by_others: tuple[str, Position] | None = (
            None  # the last entry of others that says of runs that they are over
        )
        self._forget(None)

    def over(self, wire: Wire) -> Tracker:
        """The same, asking over *wire* from now on."""
        self._dispatch, self._jobs = Dispatch(wire, self._keys), Jobs(wire, self._keys)
        self._registries, self._deadlines = Registries(wire, self._keys.rq), Deadlines(wire, self._keys)
        self._log, self._is_new_wire = Log(wire, self._keys), True
        return self

    def take_queued(self) -> list[tuple[OpenRun, Job]]:
        """Runs that its rounds met in their queues since the last call, the newest of them."""
        taken = list(self._queued)
        self._queued.clear()
        return taken

    def wrote(self, term: Term, entry: Position) -> None:
        """Another chore said in *term*, up to *entry*, that runs are over: say nothing before the archive has that."""
        self._by_others = term.token, entry

    def step(self, term: Term) -> bool:
        """
        One pass over all that ended since the last; there is never more to do at once.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused, ArchiveError.
        """
        path = self._archiver.path
        if path is None:
            return False
        self._expect_unheard(term)
        is_first = self._of is None or self._of[0] != term.token  # what ended before it led was archived long ago
        self._note(self._endings.look(self._registries), 0 if is_first else _PATIENCE)
        self._note(self._deadlines.passed(), _PATIENCE)
        self._until_round_ms -= self.every_ms
        self.every_ms = _EVERY_MS if self._ended else _SELDOM_MS
        is_round = self._until_round_ms <= 0
        if not self._ended and not is_round:
            return False
        with open_runs(path) as runs:
            as_of = runs.position
            if runs.life is None or as_of is None or not self._is_late_enough(as_of, term):
                return False
            if self._of != (term.token, runs.life):
                self._forget((term.token, runs.life))
            ended = runs.among(self._ended)
            for one in ended:
                del self._ended[one.id, one.run]
            self._give_up()
            some = list(islice(self._over_before, _REQUEUED))
            before = [run for key in some if (run := runs.last_end(key)) is not None]
            asked = {run.run_id: run for run in ended} | {run.run_id: run for run in self._go_around(runs, is_round)}
        self._track(term, as_of, [*self._over_of(list(asked.values()), path), *self._requeued(before)])
        for _ in some:  # now that they were asked about, and Redis answered
            self._over_before.popleft()
        self._archiver.wait_until(self._written, _CATCH_UP_S)
        return False

    def _forget(self, of: tuple[str, int] | None) -> None:
        """Begin anew, in a term and with a state."""
        self._of = of
        self._written: Position | None = None  # the last entry that it wrote
        self._until_round_ms = 0.0
        self._first_rounds = 1 if self._around is None else 2  # until all of the state was seen once

    def _is_late_enough(self, as_of: Position, term: Term) -> bool:
        """
        Return True if an archive that ends with *as_of* has what was told of runs until now: by earlier terms, by this.
        """
        is_this_term = self._of is not None and self._of[0] == term.token
        written = self._written if is_this_term else None
        told = self._by_others[1] if self._by_others is not None and self._by_others[0] == term.token else None
        return as_of.epoch == term.epoch and all(one is None or as_of.order >= one.order for one in (written, told))

    def _expect_unheard(self, term: Term) -> None:
        """Over a new wire: the reply to what a chore wrote over the one before may be lost, and not the write."""
        if self._is_new_wire and (last := self._log.last()) is not None:
            self.wrote(term, last.position)
        self._is_new_wire = False

    def _note(self, ended: Iterable[str], patience: int) -> None:
        """Jobs that ended; only ours count, if they look so."""
        for run_id in ended:
            key = RunId.key(run_id, self._keys.namespace)
            if key is not None and (patience == 0 or len(self._ended) < _WAITING):
                self._ended[key] = patience

    def _give_up(self) -> None:
        """Wait no longer for what the archive did not have as open for so long."""
        self._over_before.extend(key for key, steps in self._ended.items() if steps == 1)
        self._ended = {key: steps - 1 for key, steps in self._ended.items() if steps > 1}

    def _go_around(self, runs: OpenRuns, is_round: bool) -> Sequence[OpenRun]:
        """A part of the open runs, round after round."""
        if not is_round:
            return ()
        self._until_round_ms = _ROUND_EVERY_MS
        found, self._around = runs.next(self._around, _LOOKED_AT_FIRST if self._first_rounds else _LOOKED_AT, _ASKED)
        if self._around is None:
            self._first_rounds = max(self._first_rounds - 1, 0)
        return found

    def _track(self, term: Term, as_of: Position, over: Sequence[Over]) -> None:
        """Write down what is over."""
        for first in range(0, len(over), _AT_ONCE):
            tracked = self._dispatch.track(term, as_of, over[first : first + _AT_ONCE])
            if tracked is None:  # LOST: the archive will notice that Redis lost something, and say so
                break
            self._written = tracked.entry or self._written
            for id in tracked.paused:
                log.error("schedule_paused", schedule_id=id, reason="its runs failed one after the other")

    def _over_of(self, open: Sequence[OpenRun], path: Path) -> list[Over]:
        """Return the runs that RQ is done with, in the order in which they ended: so failures in a row are counted."""
        over: list[tuple[Run, str]] = []
        forgotten: list[OpenRun] = []
        for one, job in zip(open, self._jobs.look([one.run_id for one in open]), strict=True):
            run = of_job(one.run_id, job, one.fired_us, one.is_uncertain, self._deadlines.since_ms)
            if run.is_over:
                seen = "gone" if job is None or run.status is RunStatus.EXPIRED else job.seen
                over.append((run, seen))
                if not run.queue:
                    forgotten.append(one)
            elif job is not None and job.status == "queued":
                self._queued.append((one, job))
        queues = self._queues(forgotten, path)
        over.sort(key=lambda pair: pair[0].ended_ms or 0)
        return [Over.of(replace(run, queue=queues[run.id]) if run.id in queues else run, seen) for run, seen in over]

    def _queues(self, forgotten: Sequence[OpenRun], path: Path) -> dict[str, str]:
        """In which queues runs stood whose jobs do not say so any more, by run id: the archive may know."""
        if not forgotten:
            return {}
        with open_runs(path) as runs:
            return runs.queues(forgotten)

    def _requeued(self, before: Sequence[Run]) -> list[Over]:
        """Return the runs that ended once more than was recorded."""
        over = []
        for known, job in zip(before, self._jobs.look([run.id for run in before]), strict=True):
            run = of_job(known.id, job, known.fired_us, known.is_uncertain)
            is_later = (run.ended_ms or 0) > (known.ended_ms or 0) + _SAME_END_MS
            if job is not None and run.is_over and is_later:
                over.append(Over.of(replace(run, attempt=known.attempt + 1), job.seen))
        return over
