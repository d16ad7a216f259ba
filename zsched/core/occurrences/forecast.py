"""
A forecast: what a ``Future`` means for queues, workers and a deploy. Pure.

A *peak* is the span of a queue or function with most occurrences. The backlog of a queue is that of its workers: each
takes the oldest job, and a run lasts as long as runs of its function usually do.

Not known: jobs that other programs push later, runs that are not over now, and failed runs that are tried again.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any, Final, NamedTuple

from zsched.core.model import Schedule, iso, json_of, seconds
from zsched.core.occurrences.future import Expected, Future, SpanCounts, Spans
from zsched.core.occurrences.simulation import Backlog, Simulation
from zsched.core.pages import OnProgress, unnoticed
from zsched.core.wording import duration_text, plural
from zsched.errors import InvalidSchedule

_MINUTE_MS: Final = 60_000
_BUCKETS_MS: Final = (_MINUTE_MS, 3_600_000, 86_400_000)
_USUAL_SPANS: Final = 9_000  # a week by minute has more, a year by hour has less
_MOST_CELLS: Final = 5_000_000  # spans of all keys: 40 MB
_MOST_RUNS: Final = 300_000  # that are followed one by one: 2 s (measured)
_PARTS: Final = 3  # of a minute
_PEAKS: Final = 5  # that suggestions are made for
_AHEAD_MS: Final = 6 * 86_400_000  # for peaks
_SPREAD: Final = 10  # minutes over which a suggestion spreads a peak
_NEAR: Final = 30  # minutes around a peak in which a quieter one is sought


class By(Enum):
    """A key of counts."""

    QUEUE = "queue"
    MINUTE = "minute"
    FUNCTION = "function"

    def key(self, one: Schedule) -> str:
        """Return the key of a schedule's occurrences: of those in a minute, that of its part."""
        return one.queue if self is By.QUEUE else one.func if self is By.FUNCTION else f"{one.func}\n{one.queue}"


class Part(NamedTuple):
    """A *number* of occurrences in a minute that are of a function, and in a queue."""

    func: str
    queue: str
    number: int


class Load(NamedTuple):
    """A number of occurrences by ``key``, the span in which they are most, and the largest parts of a minute."""

    key: str
    number: int
    peak: int
    peak_ms: int
    parts: tuple[Part, ...] = ()


class Suggestion(NamedTuple):
    """A *change* that flattens the *peak* of a queue in a minute to *after*."""

    queue: str
    peak: int
    peak_ms: int
    change: str
    after: int


@dataclass(slots=True)
class Forecast:
    """
    The answer about [start_ms, end_ms), as known at *now_ms*.

    ``occurrences`` are the first ones; ``has_more``: there are others. With ``by`` there are ``loads`` instead, the
    highest peak first; ``moved_ms`` as in ``SpanCounts``. ``quiet`` is the first gap of the wanted length, as its begin
    and end. ``left_out``: as in ``Future``. ``durations_ms``: of functions, as far as they are known and needed. With
    ``is_cut`` there were too many *schedules* to read, and *end_ms* is earlier than wanted.
    """

    start_ms: int
    end_ms: int
    now_ms: int
    schedules: int
    left_out: Mapping[str, int]
    durations_ms: Mapping[str, int]
    is_cut: bool = False
    by: By | None = None
    bucket_ms: int = 0
    moved_ms: int = 0
    occurrences: Sequence[Expected] = ()
    has_more: bool = False
    loads: Sequence[Load] = ()
    backlogs: Sequence[Backlog] = ()
    quiet: tuple[int, int] | None = None
    suggestions: Sequence[Suggestion] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON; the keys are stable."""
        names = "now_at", "schedules", "left_out", "is_cut", "by", "bucket_s", "moved_s", "has_more"
        found = "occurrences", "quiet", "durations_s", "loads", "backlogs", "suggestions"
        quiet = None if self.quiet is None else {"from": iso(self.quiet[0]), "to": iso(self.quiet[1])}
        durations_s = {func: seconds(ms) for func, ms in self.durations_ms.items()}
        span = {"from": iso(self.start_ms), "to": iso(self.end_ms)}
        return span | json_of(self, *names, *found, quiet=quiet, durations_s=durations_s)


class Forecaster:
    """Answers questions about *schedules* in [start_ms, end_ms), as known at *now_ms*; by usual *durations_ms*."""

    def __init__(
        self, schedules: Sequence[Schedule], now_ms: int, start_ms: int, end_ms: int, durations_ms: Mapping[str, int]
    ) -> None:
        self._schedules, self._now_ms, self._start_ms, self._end_ms = schedules, now_ms, start_ms, end_ms
        self._durations_ms, self._future = durations_ms, Future(schedules, now_ms, start_ms, end_ms)

    def answer(self, by: By | None, bucket_ms: int | None, limit: int, on_progress: OnProgress = unnoticed) -> Forecast:
        """Return the first *limit* occurrences, or their numbers *by* a key. Raises InvalidSchedule: too many."""
        span, known = (self._start_ms, self._end_ms), (self._future.left_out, self._durations_ms)
        spans = self.spans(_MINUTE_MS if by is By.MINUTE and bucket_ms is None else bucket_ms)
        found = Forecast(*span, self._now_ms, len(self._schedules), *known, by=by, bucket_ms=spans.step_ms)
        if by is None:
            first = list(islice(self._future.occurrences(), limit + 1))
            found.occurrences, found.has_more = first[:limit], len(first) > limit
            return found
        key, keys = by.key, len({by.key(one) for one in self._schedules})
        if keys * spans.number > _MOST_CELLS and by is By.MINUTE:
            key = lambda one: ""  # noqa: E731  # a minute without its parts
        elif keys * spans.number > _MOST_CELLS:
            problem, remedy = f"{keys:,} keys in {spans.number:,} spans", "give a longer one, or a shorter time"
            raise InvalidSchedule("bucket", seconds(spans.step_ms), problem, remedy)
        counts = self._future.counts(spans, key, on_progress=on_progress)
        found.loads, found.moved_ms = _loads(by, counts), counts.moved_ms
        if by is By.MINUTE:
            found.loads = [_with_parts(one, counts) if n < limit else one for n, one in enumerate(found.loads)]
        return found

    def spans(self, step_ms: int | None = None) -> Spans:
        """Return spans of *step_ms*, or the shortest usual ones: whole minutes, hours or days by UTC."""
        length_ms = self._end_ms - self._start_ms
        usual_ms = next((one for one in _BUCKETS_MS if length_ms // one < _USUAL_SPANS), _BUCKETS_MS[-1])
        step_ms = step_ms or usual_ms
        return Spans.of(self._start_ms // step_ms * step_ms, self._end_ms, step_ms)

    def quiet(self, window_ms: int) -> tuple[int, int] | None:
        """Return the first gap of *window_ms* in which nothing fires or runs; among the first 300,000 occurrences."""
        free_ms = self._start_ms
        for one in islice(self._future.occurrences(), _MOST_RUNS):
            if one.due_ms - free_ms >= window_ms:
                return free_ms, one.due_ms
            free_ms = max(free_ms, one.due_ms + max(self._durations_ms.get(one.schedule.func, 0), 1))
        return (free_ms, self._end_ms) if self._end_ms - free_ms >= window_ms else None

    def backlog(self, queue: str, workers: int, waiting: int, spans: Spans) -> Backlog:
        """Return the backlog of *queue* with *workers*, in which *waiting* jobs wait now. Raises InvalidSchedule."""
        fires = list(islice(self._of(queue, self._start_ms, self._end_ms).occurrences(), _MOST_RUNS + 1))
        if len(fires) > _MOST_RUNS:
            raise InvalidSchedule("end", iso(self._end_ms), f"{queue} has more than {_MOST_RUNS:,} runs", "end earlier")
        took_ms = sum(self._durations_ms.get(one.schedule.func, 0) for one in fires)
        usual_ms = {**self._durations_ms, "": took_ms // max(len(fires), 1)}
        simulation = Simulation({queue: workers}, usual_ms, self._start_ms)
        simulation.wait(queue, waiting, "")
        simulation.run(fires, self._end_ms)
        return simulation.backlog(queue, waiting, spans)

    def suggestions(self) -> Iterator[Suggestion]:
        """Yield what would flatten the highest peaks, those above twice the usual minute of their queue."""
        first_ms, end_ms = self._start_ms // _MINUTE_MS * _MINUTE_MS, min(self._end_ms, self._start_ms + _AHEAD_MS)
        spans = Spans.of(first_ms, end_ms, _MINUTE_MS)
        is_whole = end_ms == self._end_ms
        future = self._future if is_whole else Future(self._schedules, self._now_ms, self._start_ms, end_ms)
        rows = future.counts(spans, By.QUEUE.key).rows
        peaks = [(max(row), queue) for queue, row in rows.items() if max(row) > 2 * max(sum(row) / len(row), 1)]
        for peak, queue in heapq.nlargest(_PEAKS, peaks):
            place = rows[queue].index(peak)
            at_ms = spans.bounds[place]
            for change, after in self._changes(queue, at_ms, place, rows[queue]):
                if after < peak:
                    yield Suggestion(queue, peak, at_ms, change, after)

    def _changes(self, queue: str, at_ms: int, place: int, row: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Yield changes of the rule with most occurrences in the minute *at_ms*, and of the queue."""
        there = self._of(queue, at_ms, at_ms + _MINUTE_MS).occurrences()
        rules = Counter(f"{one.schedule.rule_text} ({one.schedule.tz})" for one in there)
        peak, [(rule, number)] = row[place], rules.most_common(1)
        which = f"{plural(number, 'occurrence')} of {rule}"
        yield f"jitter={_SPREAD}m for the {which}", peak - number - (-number // _SPREAD)
        near = range(max(place - _NEAR, 0), min(place + _NEAR, len(row)))
        quietest = min(near, key=lambda one: (row[one], abs(one - place)))
        moved = f"{duration_text(abs(quietest - place) * _MINUTE_MS)} {'later' if quietest > place else 'earlier'}"
        yield f"moving the {which} {moved}", max(peak - number, row[quietest] + number)
        yield f"[queues.{queue}] max_per_second = {peak / _SPREAD / 60:.2g}", -(-peak // _SPREAD)

    def _of(self, queue: str, start_ms: int, end_ms: int) -> Future:
        return Future((one for one in self._schedules if one.queue == queue), self._now_ms, start_ms, end_ms)


def _loads(by: By, counts: SpanCounts) -> list[Load]:
    bounds = counts.spans.bounds
    if by is By.MINUTE:
        totals = zip(bounds, counts.totals(), strict=False)
        found: Iterable[Load] = (Load(iso(ms) or "", number, number, ms) for ms, number in totals if number)
    else:
        peaks = ((key, row, max(row)) for key, row in counts.rows.items())
        found = (Load(key, sum(row), peak, bounds[row.index(peak)]) for key, row, peak in peaks)
    return sorted(found, key=lambda one: (-one.peak, one.peak_ms, one.key))


def _with_parts(one: Load, counts: SpanCounts) -> Load:
    place = counts.spans.place(one.peak_ms) or 0
    largest = heapq.nsmallest(_PARTS, ((-row[place], key) for key, row in counts.rows.items() if key and row[place]))
    named = ((key.partition("\n"), number) for number, key in largest)
    return one._replace(parts=tuple(Part(func, queue, -number) for (func, _, queue), number in named))
