"""The timeline of a namespace: outcomes of the past, and occurrences to come, counted by equal spans of time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from zsched.core.model import Schedule, iso, seconds
from zsched.core.occurrences.counts import LATE, CountedCell, CountedRow, RowsBy
from zsched.core.occurrences.future import Future, Spans
from zsched.core.occurrences.outcomes import What
from zsched.core.story.source import Source

MOST_COUNTED: Final = 100_000  # steps through rules of the calendar: some 0.7 s; intervals cost less
EXPECTED: Final = "expected"


@dataclass(slots=True)
class TimelineRow:
    """A row by its *name*, and its counts by span. *is_once*: it is of the one-shots of a function."""

    name: str
    is_once: bool
    counts: list[Counter[str]]

    def number(self, *words: str) -> int:
        """Return the number of occurrences with *words*."""
        return sum(count[word] for count in self.counts for word in words)


@dataclass(slots=True)
class Timeline:
    """
    Counts by span: outcomes by their words (``late`` ones are among the ``fired``, and ``failed`` runs were fired
    before), and ``expected`` occurrences. ``reasons``: of outcomes without a push. Outcomes before
    ``complete_since_ms`` are not counted. Of ``left_out`` recurring schedules only the next occurrence is counted.
    ``rows``, if they were asked for, have the same of a schedule, queue, tag or function, most failures first.
    """

    spans: Spans
    now_ms: int
    counts: list[Counter[str]] = field(default_factory=list)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    complete_since_ms: int | None = None
    left_out: int = 0
    source: Source | None = None
    rows: list[TimelineRow] = field(default_factory=list)
    more_rows: int = 0

    def __post_init__(self) -> None:
        self.counts = self._empty()

    def add_past(self, totals: Iterable[CountedCell], rows: Iterable[CountedRow]) -> None:
        """Add the counts of an archive."""
        for _, word, number in (cells := list(totals)):
            what, _, reason = word.partition(" ")
            if reason:
                self.reasons[what, reason] += number
        _add(self.counts, cells)
        for name, is_once, row in rows:
            self.rows.append(TimelineRow(name, is_once, self._empty()))
            _add(self.rows[-1].counts, row)

    def add_due(self, numbers: Iterable[int]) -> None:
        """Count the next occurrences of all schedules, by span."""
        _expect(self.counts, numbers)

    def add_coming(self, schedules: Sequence[Schedule], by: RowsBy | None, most: int, has_next: bool) -> None:
        """
        Count the occurrences to come of active recurring *schedules*: in total, without the next ones unless
        *has_next*; and in the rows, of which there are *most*.
        """
        start_ms, *_, end_ms = self.spans.bounds
        future = Future(schedules, self.now_ms if has_next else 0, start_ms, end_ms)  # an overdue next one fires now
        counted = future.counts(self.spans, has_next=has_next, most_steps=MOST_COUNTED)
        self.left_out += counted.left_out
        self.add_due(counted.totals())
        if by is None:
            return
        members, known = dict[str, list[Schedule]](), {row.name for row in self.rows}
        for one in schedules:
            for name in by.names(one.id, one):
                members.setdefault(name, []).append(one)
        new = [name for name in members if name not in known]
        self.rows += [TimelineRow(name, False, self._empty()) for name in new[: most - len(self.rows)]]
        self.more_rows += len(known | members.keys()) - len(self.rows)
        for row in self.rows:
            of_row = Future(members.get(row.name, ()), self.now_ms, start_ms, end_ms)
            _expect(row.counts, of_row.counts(self.spans, most_steps=MOST_COUNTED // most).totals())

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON. A span without a count is left out."""
        bounds = self.spans.bounds
        return {
            "from": iso(bounds[0]),
            "to": iso(bounds[-1]),
            "bucket_s": seconds(self.spans.step_ms),
            "now": iso(self.now_ms),
            "buckets": self._shown(self.counts),
            "rows": [
                {"name": row.name, "is_once": row.is_once, "buckets": self._shown(row.counts)} for row in self.rows
            ],
            "more_rows": self.more_rows,
            "reasons": [
                {"outcome": outcome, "reason": reason, "count": number}
                for (outcome, reason), number in self.reasons.most_common()
            ],
            "complete_since": iso(self.complete_since_ms),
            "left_out": self.left_out,
            "source": None if self.source is None else self.source.to_dict(),
        }

    def _shown(self, counts: list[Counter[str]]) -> list[dict[str, Any]]:
        return [
            {"at": iso(at_ms), **{word: number for word, number in sorted(count.items()) if number}}
            for at_ms, count in zip(self.spans.bounds[:-1], counts, strict=True)
            if any(count.values())
        ]

    def _empty(self) -> list[Counter[str]]:
        return [Counter() for _ in range(self.spans.number)]


def _add(counts: list[Counter[str]], cells: Iterable[CountedCell]) -> None:
    for place, word, number in cells:
        what = word.partition(" ")[0]
        counts[place][what] += number
        if what == LATE:
            counts[place][What.FIRED.value] += number


def _expect(counts: list[Counter[str]], numbers: Iterable[int]) -> None:
    for count, number in zip(counts, numbers, strict=True):
        count[EXPECTED] += number
