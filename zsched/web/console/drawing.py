"""
Marks of occurrences, each with a shape of its own and not only a colour; the strip of a schedule's last ones; and the
places of the timeline's marks and bars. Pure, without I/O. Places and widths are shares of the shown time, in percent.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, Self

from zsched.core.facets import NO_FACETS
from zsched.core.model import iso
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.counts import COUNTED_LATE_MS, EXPECTED, FAILED, LATE, RowsBy, Timeline
from zsched.core.occurrences.future import Spans
from zsched.core.occurrences.outcomes import LEFT_OUT, PUSHES, What
from zsched.core.runs.run import BAD, RunStatus
from zsched.core.story.sentences import local_text, reason_text
from zsched.core.wording import rough_duration

STRIP: Final = 20  # occurrences
MOST_MARKS: Final = 60  # of a row, in the past and to come; more are cells
_STEPS_MS: Final = (5_000, 10_000, 60_000, 300_000, 900_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000, 86_400_000)
_TICKS: Final = 10  # at most, on the axis


class Mark(StrEnum):
    """The shape of an occurrence on the timeline and in a strip: its word, and what it ``means``."""

    means: str

    SUCCEEDED = "succeeded", "ran"  # filled
    LATE = "late", "ran late"  # filled, darker: it fired a second or more after its time
    OPEN = "open", "queued or running"  # a ring with a point
    BAD = "failed", "failed, lost or expired"  # filled, with a cross in it
    LEFT_OUT = "left-out", "did not run"  # a cross
    MISSED = "missed", "missed its deadline"  # a flag, at the deadline
    EXCLUDED = "excluded", "at an excluded time"  # a grey cross
    CANCELLED = "cancelled", "cancelled"  # a grey bar: by a person, so no failure
    EXPECTED = "expected", "to come"  # hollow

    def __new__(cls, word: str, means: str) -> Self:
        """Make a member."""
        mark = str.__new__(cls, word)
        mark._value_, mark.means = word, means
        return mark


def mark_of(one: Change) -> Mark:
    """Return the mark of an occurrence with an outcome."""
    run = one.run
    if one.what is What.CANCELLED or (run is not None and run.status is RunStatus.CANCELLED):
        return Mark.CANCELLED
    if one.what is What.DEADLINE_MISSED:
        return Mark.MISSED
    if one.what not in PUSHES:
        return Mark.EXCLUDED if one.what is What.EXCLUDED else Mark.LEFT_OUT
    if run is not None and run.status in (*BAD, RunStatus.EXPIRED):
        return Mark.BAD
    if run is not None and run.status in (RunStatus.QUEUED, RunStatus.RUNNING):
        return Mark.OPEN
    return Mark.LATE if (one.late_ms or 0.0) >= COUNTED_LATE_MS else Mark.SUCCEEDED


def words_of(one: Change) -> str:
    """Return the outcome of an occurrence, and its reason: ``skipped: the run before was not over``."""
    parts = [one.what.value if one.run is None or one.what not in PUSHES else one.run.status.value]
    if one.count > 1:
        parts[0] = f"{one.count:,} {parts[0]}"
    if one.late_ms is not None and one.late_ms >= COUNTED_LATE_MS:
        parts.append(f"{rough_duration(one.late_ms)} late")
    why = one.run.error if one.run is not None and one.run.error else reason_text(one)
    text = ", ".join(parts)
    return f"{text}: {why}" if why and why != parts[0] else text


class Strip(NamedTuple):
    """The last occurrences of a schedule, the oldest first: a mark each, and the lateness of the last firing."""

    marks: list[tuple[Mark, Change, str]]

    @classmethod
    def of(cls, newest_first: list[Change]) -> Self:
        """Return the strip of some occurrences."""
        return cls([(mark_of(one), one, words_of(one)) for one in reversed(newest_first)])

    @property
    def late_ms(self) -> float | None:
        """The lateness of the last firing."""
        return next((max(one.late_ms, 0.0) for _, one, _ in reversed(self.marks) if one.late_ms is not None), None)

    @property
    def summary(self) -> str:
        """``18 ran, 2 did not run``: for those who do not see it."""
        counts = [(sum(max(one.count, 1) for each, one, _ in self.marks if each is mark), mark.means) for mark in Mark]
        return ", ".join(f"{number} {means}" for number, means in counts if number) or "no occurrence yet"


_CellKind = tuple[Mark, Sequence[str]]
_BAD_WORDS: Final = (FAILED, *(what.value for what in LEFT_OUT))
# A cell has the first of these marks of which there are occurrences.
_CELLS: Final[Sequence[_CellKind]] = (
    (Mark.BAD, (FAILED,)),
    (Mark.LEFT_OUT, _BAD_WORDS[1:]),
    (Mark.MISSED, (What.DEADLINE_MISSED.value,)),
    (Mark.LATE, (LATE,)),
    (Mark.SUCCEEDED, [what.value for what in PUSHES]),
    (Mark.CANCELLED, (What.CANCELLED.value,)),
    (Mark.EXCLUDED, (What.EXCLUDED.value,)),
    (Mark.EXPECTED, (EXPECTED,)),
)

# -- the timeline -------------------------------------------------------------------------------------


class ShownTime(NamedTuple):
    """The shown time, with bars of *step_ms*."""

    start_ms: int
    end_ms: int
    step_ms: int = 0

    @property
    def span_ms(self) -> int:
        """Its length."""
        return self.end_ms - self.start_ms

    def place(self, ms: float) -> float:
        """Return the place of an instant, in percent."""
        return round(min(max((ms - self.start_ms) / self.span_ms, 0.0), 1.0) * 100, 3)

    def around(self, middle_ms: int, span_ms: int) -> dict[str, str | None]:
        """Return the query of a time of another length, around the same middle."""
        return {"from": iso(middle_ms - span_ms // 2), "to": iso(middle_ms - span_ms // 2 + span_ms)}

    def moved(self, share: float) -> dict[str, str | None]:
        """Return the query of a time that is earlier or later by a share of this one."""
        by_ms = round(self.span_ms * share)
        return {"from": iso(self.start_ms + by_ms), "to": iso(self.end_ms + by_ms)}

    def ticks(self, tz: str) -> list[tuple[float, str]]:
        """Return places and local times for the axis."""
        step_ms = next((step for step in _STEPS_MS if self.span_ms / step <= _TICKS), _STEPS_MS[-1])
        first_ms = -(-self.start_ms // step_ms) * step_ms
        cut = slice(11, 19) if step_ms < 60_000 else slice(11, 16) if step_ms < 86_400_000 else slice(5, 10)
        return [(self.place(ms), local_text(ms, tz)[cut]) for ms in range(first_ms, self.end_ms, step_ms)]


class DrawnMark(NamedTuple):
    """A mark at *at*, and the bar of its run from *bar_at* on. It leads to the run, else to the schedule ``id``."""

    at: float
    mark: Mark
    id: str
    words: str
    bar_at: float = 0.0
    width: float = 0.0
    run_id: str = ""


class Cell(NamedTuple):
    """Neighbouring bars of a row with one mark: from *at* on, as wide as *width*; in *words*."""

    at: float
    width: float
    mark: Mark
    words: str


@dataclass(slots=True)
class DrawnRow:
    """A row: its name, if it is of one-shots, how many occurrences were left out or failed, its cells and marks."""

    name: str
    is_once: bool = False
    bad: int = 0
    cells: list[Cell] = field(default_factory=list)
    marks: list[DrawnMark] = field(default_factory=list)


def drawn_rows(
    shown: ShownTime, found: Timeline, by: RowsBy, past: Iterable[Change], coming: Mapping[str, Sequence[int]],
    *, has_ids: bool = False,
) -> list[DrawnRow]:  # fmt: skip
    """
    Return the rows of *found*: with a mark for each of the *past* changes and *coming* times (ms) where they are few,
    else with cells. *has_ids*: also one-shots have rows by their ids.
    """
    rows = {row.name: DrawnRow(row.name, row.is_once, row.number(*_BAD_WORDS)) for row in found.rows}
    marks = dict[str, list[DrawnMark]]()
    for one in past:
        facets = one.facets or NO_FACETS
        name = one.id if facets.is_rule or has_ids else facets.func
        for shared in by.names(name, facets):
            marks.setdefault(shared, []).append(_past_mark(shown, found.now_ms, one))
    for name in (*marks, *coming) if has_ids else ():
        bad = sum(one.mark in (Mark.LEFT_OUT, Mark.BAD) for one in marks.get(name, ()))
        rows.setdefault(name, DrawnRow(name, False, bad))
    counts = {row.name: row for row in found.rows}
    for name, row in rows.items():
        drawn, times = marks.get(name, []), coming.get(name, ())
        few, soon = len(drawn) <= MOST_MARKS, len(times) <= MOST_MARKS
        row.marks += drawn if few or name not in counts else ()
        row.marks += (DrawnMark(shown.place(ms), Mark.EXPECTED, name, "to come") for ms in times if soon)
        if name in counts:
            left = [kind for kind in _CELLS if not (soon and times if kind[0] is Mark.EXPECTED else few and drawn)]
            row.cells = list(_cells(shown, found.spans, counts[name].counts, left))
    return list(rows.values())


def _cells(
    shown: ShownTime, spans: Spans, counts: Sequence[Counter[str]], kinds: Iterable[_CellKind]
) -> Iterator[Cell]:
    """Yield the cells of a row by *kinds* of occurrences, neighbouring ones of a kind together."""
    marks = [next((mark for mark, words in kinds if any(count[word] for word in words)), None) for count in counts]
    counted = zip(spans.bounds, counts, marks, strict=False)
    for mark, group in groupby(counted, key=itemgetter(2)):
        bars = list(group)
        if mark is not None:
            total = sum((count for _, count, _ in bars), Counter[str]())
            start, end = shown.place(bars[0][0]), shown.place(bars[-1][0] + spans.step_ms)
            words = ", ".join(f"{number:,} {word}" for word, number in total.items() if number)
            yield Cell(start, round(end - start, 3), mark, words)


def bars_of(counted: Timeline) -> list[dict[str, Any]]:
    """Return a bar for each span: places and heights (percent) of what ran, did not run or failed, and is to come."""
    width = round(100 / max(len(counted.counts), 1), 4)
    parts = [_parts(count) for count in counted.counts]
    most = max((sum(part) for part in parts), default=0) or 1
    return [
        {"at": round(number * width, 4), "width": width, "at_ms": at_ms, "counts": part,
         "heights": [round(100 * one / most, 3) for one in part]}
        for number, (at_ms, part) in enumerate(zip(counted.spans.bounds, parts, strict=False))
    ]  # fmt: skip


def _past_mark(shown: ShownTime, now_ms: int, one: Change) -> DrawnMark:
    """Return the mark of an outcome at its nominal time. Its bar: the time of its run, or of all that it stands for."""
    run, first_ms = one.run, one.nominal_ms if one.first_ms is None else one.first_ms
    first_ms = one.next_ms if one.what is What.DEADLINE_MISSED else first_ms
    at = shown.place(one.at_us / 1000 if first_ms is None else first_ms)
    start = end = at
    if one.first_ms is not None and one.last_ms is not None:
        end = shown.place(one.last_ms)
    elif run is not None and run.started_ms is not None:
        ended_ms = now_ms if not run.is_over else run.started_ms if run.ended_ms is None else run.ended_ms
        start, end = shown.place(run.started_ms), shown.place(ended_ms)
    width, run_id = round(max(end - start, 0.0), 3), "" if run is None else run.id
    return DrawnMark(at, mark_of(one), one.id, words_of(one), start, width, run_id)


def _parts(count: Counter[str]) -> tuple[int, int, int]:
    """Return the numbers of occurrences that ran well, those that failed or were left out, and those to come."""
    bad, failed = sum(count[word] for word in _BAD_WORDS), count[FAILED]
    return max(sum(count[what.value] for what in PUSHES) - failed, 0), bad, count[EXPECTED]
