"""The timeline of a namespace: outcomes of the past, and occurrences to come, counted by equal spans of time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from zsched.core.model import Schedule, iso, seconds
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.future import Future, Spans
from zsched.core.story.source import Source

MOST_OUTCOMES: Final = 20_000  # read of the past
MOST_COUNTED: Final = 100_000  # steps through rules of the calendar: some 0.7 s; intervals cost less
EXPECTED: Final = "expected"


@dataclass(slots=True)
class Timeline:
    """
    Counts by span: outcomes by their words, and ``expected`` occurrences. ``reasons``: of outcomes without a push.
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
        """Count the occurrences of active recurring *schedules* after their next ones."""
        start_ms, *_, end_ms = self.spans.bounds
        later = Future(schedules, 0, start_ms, end_ms).counts(self.spans, has_next=False, most_steps=MOST_COUNTED)
        self.left_out += later.left_out
        self.add_due(later.totals())

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON. A span without a count is left out."""
        bounds = self.spans.bounds
        reasons: dict[tuple[str, str], dict[str, Any]] = {}
        for (word, why), count in self.reasons.most_common():  # why may name a run: overlap: a-1 was still open
            reason = why.partition(":")[0]
            told = {"outcome": word, "reason": reason, "count": 0, "example": why}
            reasons.setdefault((word, reason), told)["count"] += count
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
            "reasons": list(reasons.values()),
            "complete_since": iso(self.complete_since_ms),
            "left_out": self.left_out,
            "source": None if self.source is None else self.source.to_dict(),
        }
