"""The timeline of a namespace: outcomes of the past, and occurrences to come, counted by equal spans of time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from zsched.core.model import Schedule, iso, seconds
from zsched.core.occurrences.changes import Change
from zsched.core.options.choices import ScheduleState
from zsched.core.story.source import Source
from zsched.core.triggers.trigger import Trigger, build
from zsched.errors import InvalidSchedule

MOST_SPANS: Final = 1440  # the minutes of a day
MOST_OUTCOMES: Final = 20_000  # read of the past
MOST_COUNTED: Final = 100_000  # steps through rules of the calendar: some 0.7 s; intervals cost less
EXPECTED: Final = "expected"


@dataclass(frozen=True, slots=True)
class Spans:
    """*number* spans of *step_ms* from *start_ms* on."""

    start_ms: int
    step_ms: int
    number: int

    @classmethod
    def of(cls, start_ms: int, end_ms: int, step_ms: int) -> Spans:
        """Return the spans of [start_ms, end_ms). Raises InvalidSchedule: none, or too many."""
        number = -(-(end_ms - start_ms) // step_ms)
        if number < 1:
            raise InvalidSchedule("to", iso(end_ms), "not after from", "give a later end")
        if number > MOST_SPANS:
            least = seconds(-(-(end_ms - start_ms) // MOST_SPANS))
            problem = f"{number:,} spans between from and to"
            raise InvalidSchedule("bucket", seconds(step_ms), problem, f"give {least} seconds or more")
        return cls(start_ms, step_ms, number)

    @property
    def bounds(self) -> list[int]:
        """The beginnings of the spans, and the end of the last one."""
        return [self.start_ms + number * self.step_ms for number in range(self.number + 1)]

    def place(self, at_ms: int) -> int | None:
        """Return the number of the span with *at_ms*; None: it is in none."""
        place = (at_ms - self.start_ms) // self.step_ms
        return place if 0 <= place < self.number else None


@dataclass(slots=True)
class Timeline:
    """
    Counts by span: outcomes by their words, and ``expected`` occurrences. ``reasons``: of outcomes that were no push.
    Outcomes before ``complete_since_ms`` are not counted. Of ``left_out`` recurring schedules only the next occurrence
    is counted.
    """

    spans: Spans
    now_ms: int
    counts: list[Counter[str]] = field(default_factory=list)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    complete_since_ms: int | None = None
    left_out: int = 0
    source: Source | None = None

    def __post_init__(self) -> None:
        self.counts = [Counter() for _ in range(self.spans.number)]

    def add_outcome(self, change: Change) -> None:
        """Count the outcome of an occurrence, or those of a range of them, at the time of the decision."""
        if (place := self.spans.place(change.at_us // 1000)) is None:
            return
        self.counts[place][change.what.value] += change.count
        if change.why and change.run_id is None:
            self.reasons[change.what.value, change.why] += change.count

    def add_due(self, numbers: Iterable[int]) -> None:
        """Count the next occurrences of all schedules, by span."""
        for count, number in zip(self.counts, numbers, strict=True):
            count[EXPECTED] += number

    def add_later(self, schedules: Iterable[Schedule]) -> None:
        """Count the occurrences of active recurring *schedules* after their next ones, without jitter."""
        bounds, steps = self.spans.bounds, 0
        equal = Counter(
            (
                one.trigger,
                one.trigger.skipped,  # two rules are equal without it
                one.anchor_ms or 0 if one.trigger.is_anchored else 0,
                max(one.nominal_ms, bounds[0] - 1),
            )
            for one in schedules
            if one.trigger is not None and one.nominal_ms is not None and one.state is ScheduleState.ACTIVE
        )
        expected = [0] * self.spans.number
        for (spec, _, anchor_ms, after_ms), number in equal.items():
            is_calendar = spec.kind.is_of_zone
            if is_calendar and steps >= MOST_COUNTED:
                self.left_out += number
                continue
            for place, found in self._by_span(build(spec, anchor_ms), after_ms, bounds):
                expected[place] += found * number
                steps += is_calendar
        self.add_due(expected)

    def _by_span(self, trigger: Trigger, after_ms: int, bounds: list[int]) -> Iterable[tuple[int, int]]:
        """Yield numbers of spans, and of occurrences in them later than *after_ms*. A span may come repeatedly."""
        start_ms, step_ms, until_ms = self.spans.start_ms, self.spans.step_ms, bounds[-1] - 1
        instants = trigger.between(after_ms, until_ms)
        if trigger.count_between(after_ms, until_ms) <= self.spans.number:
            return (((at_ms - start_ms) // step_ms, 1) for at_ms in instants)
        if isinstance(instants, range):
            most = len(instants)
            passed = [min(max(-((instants.start - at_ms) // instants.step), 0), most) for at_ms in bounds]
        else:
            passed = [trigger.count_between(after_ms, at_ms - 1) for at_ms in bounds]
        return enumerate(after - before for before, after in pairwise(passed))

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON. A span without a count is left out."""
        bounds = self.spans.bounds
        reasons: dict[str, dict[str, int]] = {}
        for (word, why), count in self.reasons.most_common():
            reasons.setdefault(word, {})[why] = count
        return {
            "from": iso(bounds[0]),
            "to": iso(bounds[-1]),
            "bucket_s": seconds(self.spans.step_ms),
            "now": iso(self.now_ms),
            "buckets": [
                {"at": iso(at_ms), **{word: number for word, number in sorted(count.items()) if number}}
                for at_ms, count in zip(bounds[:-1], self.counts, strict=True)
                if any(count.values())
            ],
            "reasons": reasons,
            "complete_since": iso(self.complete_since_ms),
            "left_out": self.left_out,
            "source": None if self.source is None else self.source.to_dict(),
        }
