"""
Counts by spans of time: of the past, as an archive keeps them, and of a timeline, which also counts what is to come.
Pure.

A row of a timeline is a recurring schedule, or the one-shots of a function; or a queue, a tag, or a function. One-shots
have no ids and no tags in counts: a row for each would be the history once more.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, Self

from zsched.core.facets import NO_FACETS, Facets, question_number, question_text
from zsched.core.model import Schedule, iso, json_of, seconds
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.future import Future, Spans
from zsched.core.occurrences.outcomes import LEFT_OUT, OUTCOMES, What
from zsched.core.pages import grouped
from zsched.core.runs.run import BAD, RunStatus
from zsched.core.story.source import Source

MINUTE_MS: Final = 60_000
LATE: Final = "late"  # it fired a second or more after its due time: also counted as fired
COUNTED_LATE_MS: Final = 1000
FAILED: Final = "failed"  # a run ended badly
_BAD: Final = {status.value for status in (*BAD, RunStatus.EXPIRED)}
_WITH_REASON: Final = (*LEFT_OUT, What.EXCLUDED, What.UNKNOWN)
_LONGEST: Final = 60  # characters of a reason


# In an answer: the place of a span, a word and its number; and a row: its name, if it is of one-shots, and its counts.
CountedCell = tuple[int, str, int]
CountedRow = tuple[str, bool, Sequence[CountedCell]]
MOST_COUNTED: Final = 100_000  # steps through rules of the calendar: some 0.7 s; intervals cost less
EXPECTED: Final = "expected"


class RowsBy(Enum):
    """Subject of a row of a timeline."""

    SCHEDULE = "schedule"
    QUEUE = "queue"
    TAG = "tag"
    FUNCTION = "function"

    def names(self, id: str, of: Facets | Schedule) -> Sequence[str]:
        """Return the names of the rows of a schedule."""
        return {RowsBy.SCHEDULE: [id], RowsBy.QUEUE: [of.queue], RowsBy.TAG: of.tags, RowsBy.FUNCTION: [of.func]}[self]


def counted_word(change: Change) -> str:
    """Return the word under which *change* is counted, with its reason if it has one: ``skipped missed``; else ''."""
    if change.what is What.RUN_ENDED:
        return FAILED if change.why in _BAD else ""
    if change.what not in OUTCOMES:
        return ""
    if change.what is What.FIRED and (change.late_ms or 0.0) >= COUNTED_LATE_MS:
        return LATE
    reason = change.why.partition(":")[0][:_LONGEST] if change.what in _WITH_REASON else ""
    return f"{change.what.value} {reason}".rstrip()


class Series(NamedTuple):
    """Changes that are counted together: those with a *word* of a recurring schedule *id*, or of one-shots ('')."""

    id: str
    facets: Facets
    word: str

    @classmethod
    def of(cls, id: str, facets: Facets, word: str) -> Self:
        """Return the series of a change of schedule *id*."""
        if facets.is_rule:
            return cls(id, facets, word)
        return cls("", Facets(facets.func, facets.queue, facets.owner), word)

    def rows(self, by: RowsBy) -> Sequence[str]:
        """Return the names of the rows that it belongs to."""
        return by.names(self.id or self.facets.func, self.facets)


@dataclass(frozen=True, slots=True)
class WantedCounts:
    """
    Counts of *number* spans of *step* minutes from minute *start* on, for which the conditions hold; and the first
    *most* rows *by* something, by failures and then by occurrences; no rows without *by*.
    """

    start: int
    step: int
    number: int
    facets: Facets = NO_FACETS
    match: str | None = None
    by: RowsBy | None = None
    most: int = 0

    def has(self, series: Series) -> bool:
        """Return True if *series* is wanted. One-shots have no ids, so a *match* excludes them."""
        is_matching = self.match is None or (series.id != "" and fnmatchcase(series.id, self.match))
        return is_matching and series.facets.has(self.facets)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON; ``of_dict`` is the inverse."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return given | {"by": None if self.by is None else self.by.value, "facets": list(self.facets)}

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Self:
        """Return it from its ``to_dict``. Raises KeyError, TypeError, ValueError."""
        start, step, number, most = (question_number(given[name]) for name in ("start", "step", "number", "most"))
        by, match = (given["by"] and RowsBy(given["by"])), given["match"]
        facets = Facets.of_texts(*given["facets"])
        return cls(start, step, number, facets, None if match is None else question_text(match), by, most)


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
        members = grouped((name, one) for one in schedules for name in by.names(one.id, one))
        known = {row.name for row in self.rows}
        new = [name for name in members if name not in known]
        self.rows += [TimelineRow(name, False, self._empty()) for name in new[: most - len(self.rows)]]
        self.more_rows += len(known | members.keys()) - len(self.rows)
        for row in self.rows:
            of_row = Future(members.get(row.name, ()), self.now_ms, start_ms, end_ms)
            _expect(row.counts, of_row.counts(self.spans, most_steps=MOST_COUNTED // most).totals())

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON. A span without a count is left out."""
        bounds, shown = self.spans.bounds, self._shown
        rows = [{"name": row.name, "is_once": row.is_once, "buckets": shown(row.counts)} for row in self.rows]
        reasons = [{"outcome": word, "reason": why, "count": n} for (word, why), n in self.reasons.most_common()]
        times = {"now": iso(self.now_ms), "complete_since": iso(self.complete_since_ms)}
        names = "now", "buckets", "rows", "more_rows", "reasons", "complete_since", "left_out", "source"
        counted = json_of(self, *names, **times, buckets=shown(self.counts), rows=rows, reasons=reasons)
        return {"from": iso(bounds[0]), "to": iso(bounds[-1]), "bucket_s": seconds(self.spans.step_ms), **counted}

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
