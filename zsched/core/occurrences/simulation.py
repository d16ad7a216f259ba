"""
A simulation: what becomes of occurrences to come, if runs last as usual and queues have so many workers. Pure.

Each worker takes the oldest job of its queue. ``overlap`` and ``expires_after`` apply as the daemon and the workers
apply them. The times of the occurrences themselves are the planner's (``future``).

Not known: jobs that other programs push later, failed runs that are tried again, and limits of queues.
"""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Final, NamedTuple

from zsched.core.model import Schedule, iso, json_of
from zsched.core.occurrences.future import Expected, Spans
from zsched.core.occurrences.outcomes import Outcome
from zsched.core.options.choices import Overlap, ScheduleState
from zsched.core.pages import OnProgress, unnoticed

_PATIENCE_MS: Final = 3_600_000  # the daemon's usual ``overlap_patience_s``
_REPORTED: Final = 1000  # occurrences between two reports of progress


class Backlog(NamedTuple):
    """
    The waiting jobs of a queue with so many *workers* (0: as many as there are jobs): at the beginning, at their peak,
    and when they are gone after it (None: not by the end). ``waits``: their number by the end of each span, if it is
    not 0. Runs of ``unknown`` functions count as no time.
    """

    queue: str
    workers: int
    waiting: int
    peak: int
    peak_ms: int
    gone_ms: int | None
    waits: Mapping[str, int]
    unknown: Sequence[str]


@dataclass(slots=True)
class Simulated:
    """
    The fate of a schedule's occurrences: their numbers by outcome, the longest time from due to start, and the
    number of runs that are not over at the end.
    """

    schedule: Schedule
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    waited_ms: int = 0
    open: int = 0

    def number(self, outcome: Outcome | None = None) -> int:
        """Return the number of occurrences with *outcome*; None: of all."""
        return self.outcomes.total() if outcome is None else self.outcomes[outcome]

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        numbers = {outcome.word: number for outcome, number in self.outcomes.items()}
        own = json_of(self, "occurrences", "outcomes", "waited_s", "open", occurrences=self.number(), outcomes=numbers)
        return json_of(self.schedule, "id", "queue", "func") | own


@dataclass(slots=True, eq=False)
class _Run:
    of: Expected
    is_started: bool = False
    is_over: bool = False


@dataclass(slots=True)
class _Queue:
    """A queue: its free workers, its jobs, their functions, and the times at which jobs came and left."""

    free: float
    jobs: deque[_Run] = field(default_factory=deque)
    came_ms: array[int] = field(default_factory=lambda: array("q"))
    left_ms: array[int] = field(default_factory=lambda: array("q"))
    funcs: set[str] = field(default_factory=set)

    def waiting_at(self, at_ms: int) -> int:
        """Return the number of jobs that waited at *at_ms*."""
        return bisect_right(self.came_ms, at_ms) - bisect_right(self.left_ms, at_ms)


class Simulation:
    """
    Queues with *workers*, from *start_ms* on; a queue that is not named has as many as its jobs need. A run lasts as
    long as *durations_ms* has of its function.
    """

    def __init__(self, workers: Mapping[str, int], durations_ms: Mapping[str, int], start_ms: int) -> None:
        self._workers, self._durations_ms, self._start_ms = workers, durations_ms, start_ms
        self._queues: dict[str, _Queue] = {}
        self._previous: dict[str, _Run] = {}  # the newest run of a recurring schedule
        self._behind: defaultdict[str, deque[_Run]] = defaultdict(deque)  # those that wait until it is over
        self._ends: list[tuple[int, int, _Run]] = []
        self._number = count()
        self.schedules: dict[str, Simulated] = {}

    @property
    def unknown(self) -> list[str]:
        """The functions without a known duration, sorted."""
        return sorted({one.schedule.func for one in self.schedules.values()} - self._durations_ms.keys())

    def run(self, occurrences: Iterable[Expected], end_ms: int, on_progress: OnProgress = unnoticed) -> None:
        """Let *occurrences*, which are in order, happen until *end_ms*. *on_progress* gets milliseconds: done, all."""
        for number, one in enumerate(occurrences):
            if number % _REPORTED == 0:
                on_progress(one.due_ms - self._start_ms, end_ms - self._start_ms)
            self._end_until(one.due_ms)
            self._happen(one)
        self._end_until(end_ms - 1)
        running, queues = (run for _, _, run in self._ends if not run.is_over), self._queues.values()
        for run in chain(running, *(queue.jobs for queue in queues), *self._behind.values()):
            self._told(run).open += 1

    def backlog(self, queue: str, waiting: int = 0, spans: Spans | None = None) -> Backlog:
        """Return what waited in *queue*, at the beginning *waiting* jobs; by *spans*, if there are some."""
        found = self._queue(queue)
        peak, negative_ms = max(((found.waiting_at(ms), -ms) for ms in found.came_ms), default=(0, -self._start_ms))
        bounds = spans.bounds[1:] if spans else []
        gone = (ms for ms in found.left_ms if ms >= -negative_ms and not found.waiting_at(ms))
        gone_ms = next(gone, None) if peak else self._start_ms
        waits = {iso(ms) or "": number for ms in bounds if (number := found.waiting_at(ms - 1))}
        unknown = sorted(found.funcs - self._durations_ms.keys())
        return Backlog(queue, self._workers.get(queue, 0), waiting, peak, -negative_ms, gone_ms, waits, unknown)

    def wait(self, queue: str, number: int, func: str) -> None:
        """Let *number* jobs, which last as long as runs of *func*, wait in *queue*."""
        job = Schedule("", ScheduleState.ACTIVE, "once", func, None, queue=queue)
        for _ in range(number):
            self._push(_Run(Expected(self._start_ms, "", self._start_ms, job)), self._start_ms)

    def _happen(self, one: Expected) -> None:
        """Decide on an occurrence as ``lua/advance.lua`` does."""
        run, policy = _Run(one), one.schedule.policy
        told, previous = self._told(run), self._previous.get(one.id)
        if previous is None or self._holds_nothing_up(previous, one):
            self._push(run, one.due_ms)
        elif policy.overlap is Overlap.QUEUE and len(self._behind[one.id]) < policy.overlap_limit:
            self._behind[one.id].append(run)
        elif policy.overlap is Overlap.CANCEL_PREVIOUS:
            told.outcomes[Outcome.FIRED] -= previous.is_started
            told.outcomes[Outcome.CANCELLED] += 1
            self._end(previous, one.due_ms)
            self._push(run, one.due_ms)
        else:
            told.outcomes[Outcome.OVERLAP] += 1

    def _holds_nothing_up(self, previous: _Run, one: Expected) -> bool:
        overlap, waited_ms = one.schedule.policy.overlap, one.due_ms - previous.of.due_ms
        is_forgotten = overlap is Overlap.SKIP and not previous.is_started and waited_ms >= _PATIENCE_MS
        return previous.is_over or overlap is Overlap.ALLOW or is_forgotten

    def _push(self, run: _Run, at_ms: int) -> None:
        queue, one = self._queue(run.of.schedule.queue), run.of.schedule
        if one.kind != "once":
            self._previous[one.id] = run
        queue.came_ms.append(at_ms)
        queue.funcs.add(one.func)
        (queue.jobs.appendleft if one.at_front else queue.jobs.append)(run)
        self._take(queue, at_ms)

    def _take(self, queue: _Queue, at_ms: int) -> None:
        """Let the free workers of *queue* start its jobs."""
        while queue.jobs and queue.free:
            run = queue.jobs.popleft()
            one, told = run.of.schedule, self._told(run)
            queue.left_ms.append(at_ms)
            if one.expires_ms is not None and at_ms > run.of.due_ms + one.expires_ms:
                told.outcomes[Outcome.EXPIRED] += 1
                self._end(run, at_ms)
                continue
            run.is_started = True
            queue.free -= 1
            told.outcomes[Outcome.FIRED] += 1
            told.waited_ms = max(told.waited_ms, at_ms - run.of.due_ms)
            heapq.heappush(self._ends, (at_ms + self._durations_ms.get(one.func, 0), next(self._number), run))

    def _end_until(self, until_ms: int) -> None:
        while self._ends and self._ends[0][0] <= until_ms:
            at_ms, _, run = heapq.heappop(self._ends)
            if not run.is_over:
                self._end(run, at_ms)

    def _end(self, run: _Run, at_ms: int) -> None:
        """Take *run* from its worker or queue, and let the next ones follow."""
        run.is_over = True
        queue = self._queue(run.of.schedule.queue)
        if run.is_started:
            queue.free += 1
        elif run in queue.jobs:
            queue.jobs.remove(run)
            queue.left_ms.append(at_ms)
        if behind := self._behind[run.of.id]:
            self._push(behind.popleft(), at_ms)
        self._take(queue, at_ms)

    def _queue(self, name: str) -> _Queue:
        if name not in self._queues:
            self._queues[name] = _Queue(self._workers.get(name) or math.inf)
        return self._queues[name]

    def _told(self, run: _Run) -> Simulated:
        one = run.of.schedule
        if one.id not in self.schedules:
            self.schedules[one.id] = Simulated(one)
        return self.schedules[one.id]
