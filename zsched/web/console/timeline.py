"""
The timeline: what ran, what did not run and why, and what is to come.

On top the density of all occurrences by spans of time: a million one-shots are a band. Below it a row per schedule, tag
or queue, with a mark for each occurrence: past ones from the history, coming ones from the rules. The rows with what
did not run come first. All numbers of places are shares of the width, in percent.

Not guaranteed: that all occurrences have a mark. The newest 2,000 outcomes and 40 rows have, and the page says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from zsched.core.arguments import instant_ms
from zsched.core.clock import from_ms, to_ms
from zsched.core.lookback import Occurrence
from zsched.core.model import Schedule, ScheduleState, iso
from zsched.core.sentences import local_text
from zsched.core.timeline import EXPECTED, Timeline
from zsched.core.triggers import RULES
from zsched.errors import InvalidSchedule, ScheduleNotFound
from zsched.web.console.outcomes import Mark, legend, mark_of, words_of
from zsched.web.console.view import View, Viewed
from zsched.web.reading import aware

router = APIRouter(include_in_schema=False)

_BACK_MS: Final = 6 * 3_600_000
_AHEAD_MS: Final = 24 * 3_600_000
_LEAST_MS: Final = 60_000  # that can be shown
_MOST_MS: Final = 31 * 86_400_000
_BARS: Final = 120
_OUTCOMES: Final = 2000
_ROWS: Final = 40
_COMING: Final = 60  # marks of a row
_LISTED: Final = 200  # that did not run, in the list
_BUSIEST: Final = 10
_ZOOMS: Final = {"30 h": _BACK_MS + _AHEAD_MS, "6 h": 21_600_000, "1 h": 3_600_000, "10 min": 600_000, "1 min": 60_000}
_STEPS_MS: Final = (5_000, 10_000, 60_000, 300_000, 900_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000, 86_400_000)
_TICKS: Final = 10  # at most, on the axis
ROWS_BY: Final = ("schedule", "tag", "queue")


@dataclass(frozen=True, slots=True)
class Window:
    """The shown time."""

    start_ms: int
    end_ms: int

    @property
    def span_ms(self) -> int:
        """Its length."""
        return self.end_ms - self.start_ms

    def place(self, ms: float) -> float:
        """Return the place of an instant, in percent."""
        return round(min(max((ms - self.start_ms) / self.span_ms, 0.0), 1.0) * 100, 3)

    def around(self, middle_ms: int, span_ms: int) -> dict[str, str | None]:
        """Return the query of a window with another length."""
        return {"from": iso(middle_ms - span_ms // 2), "to": iso(middle_ms - span_ms // 2 + span_ms)}

    def moved(self, share: float) -> dict[str, str | None]:
        """Return the query of a window that is earlier or later by a share of this one."""
        by_ms = round(self.span_ms * share)
        return {"from": iso(self.start_ms + by_ms), "to": iso(self.end_ms + by_ms)}

    def ticks(self, tz: str) -> list[tuple[float, str]]:
        """Return places and local times for the axis."""
        step_ms = next((step for step in _STEPS_MS if self.span_ms / step <= _TICKS), _STEPS_MS[-1])
        first_ms = -(-self.start_ms // step_ms) * step_ms
        cut = slice(11, 19) if step_ms < 60_000 else slice(11, 16) if step_ms < 86_400_000 else slice(5, 10)
        return [(self.place(ms), local_text(ms, tz)[cut]) for ms in range(first_ms, self.end_ms, step_ms)]


@dataclass(frozen=True, slots=True)
class Placed:
    """A mark at its place; ``width``: of the bar of its run. ``id``: the schedule, for its page."""

    at: float
    width: float
    mark: Mark
    id: str
    words: str


@dataclass(slots=True)
class Row:
    """A row: its name, its marks, and how many of them did not run or failed."""

    name: str
    marks: list[Placed] = field(default_factory=list)
    bad: int = 0


@router.get("/timeline")
async def timeline(view: Viewed, by: str = "schedule", match: str = "", tag: str = "", queue: str = "") -> Response:
    """Show the timeline from 6 hours ago to 24 hours ahead, or of another time."""
    view.call.demand_all("the timeline")
    if by not in ROWS_BY:
        raise InvalidSchedule("by", by, "not a kind of row", f"give one of {', '.join(ROWS_BY)}")
    window, client = _window(view), view.call.client
    counted = await client.timeline(
        from_ms(window.start_ms), from_ms(window.end_ms), timedelta(milliseconds=-(-window.span_ms // _BARS))
    )
    filters = {name: value for name, value in (("match", match), ("tag", tag), ("queue", queue)) if value}
    past = await _past(view, window, filters)
    coming = await _coming(view, window, filters)
    rows = _rows(window, view.now_ms, by, past, coming)
    left_out = [one for one in past if mark_of(one) in (Mark.LEFT_OUT, Mark.BAD)]
    listed = left_out[:_LISTED]
    known = client.get_many(sorted({one.id for one in listed}))
    return view.page(
        "timeline",
        window=window,
        bars=_bars(counted),
        counted=counted,
        rows=rows[:_ROWS],
        more_rows=max(len(rows) - _ROWS, 0),
        is_cut=len(past) >= _OUTCOMES,
        left_out=[(mark_of(one), one, words_of(one)) for one in listed],
        left_out_count=len(left_out),
        recurring={one.id: one.tz async for one in known if one.kind != "once"},
        legend=legend(),
        zooms=[(name, window.around(_middle(window, view.now_ms), span)) for name, span in _ZOOMS.items()],
        by=by,
        rows_by=ROWS_BY,
        filters={"match": match, "tag": tag, "queue": queue},
    )


@router.get("/timeline/busiest")
async def busiest(view: Viewed) -> Response:
    """Show the minutes of the next 24 hours in which most schedules are due."""
    view.call.demand_all("the timeline")
    minute_ms, third_ms = 60_000, _AHEAD_MS // 3
    first_ms = view.now_ms // minute_ms * minute_ms
    minutes = list[tuple[int, int]]()
    left_out = 0
    for start_ms in range(first_ms, first_ms + _AHEAD_MS, third_ms):
        found = await view.call.client.timeline(from_ms(start_ms), from_ms(start_ms + third_ms), timedelta(minutes=1))
        minutes += zip((count[EXPECTED] for count in found.counts), found.spans.bounds, strict=False)
        left_out = found.left_out
    most = sorted((one for one in minutes if one[0]), key=lambda one: (-one[0], one[1]))[:_BUSIEST]
    windows = [(number, at_ms, Window(at_ms, at_ms + minute_ms).moved(0)) for number, at_ms in most]
    return view.page("busiest", minutes=windows, left_out=left_out, most=most[0][0] if most else 1)


def _window(view: View) -> Window:
    """Return the window of the query. Raises InvalidSchedule."""
    given = view.request.query_params
    now_ms = view.now_ms // _LEAST_MS * _LEAST_MS
    start_ms, end_ms = (
        usual if not given.get(name) else instant_ms(name, aware(name, given[name]), None)
        for name, usual in (("from", now_ms - _BACK_MS), ("to", now_ms + _AHEAD_MS))
    )
    if not _LEAST_MS <= end_ms - start_ms <= _MOST_MS:
        raise InvalidSchedule("to", given.get("to"), "not a minute to 31 days after from", "give another time")
    return Window(start_ms, end_ms)


def _middle(window: Window, now_ms: int) -> int:
    """Return the instant around which to zoom: now if it is shown, else the middle."""
    return now_ms if window.start_ms < now_ms < window.end_ms else (window.start_ms + window.end_ms) // 2


async def _past(view: View, window: Window, filters: Mapping[str, Any]) -> list[Occurrence]:
    """Return the newest outcomes of the window."""
    if window.start_ms >= view.now_ms:
        return []
    end_ms = min(window.end_ms, view.now_ms + 1)
    given: dict[str, Any] = {**filters, "since": from_ms(window.start_ms), "until": from_ms(end_ms)}
    found = view.call.client.iter_history(None, limit=_OUTCOMES, **given)
    return [one async for one in found]


async def _coming(view: View, window: Window, filters: Mapping[str, Any]) -> list[tuple[Schedule, list[int]]]:
    """
    Return the recurring schedules of the first rows with their times in the window; with a filter of ids, one-shots,
    too. Without one, a million one-shots are only in the density.
    """
    if window.end_ms <= view.now_ms:
        return []
    client, kinds = view.call.client, (*RULES, *(("once",) if "match" in filters else ()))
    found = list[Schedule]()
    for kind in kinds:
        listing = client.list(
            state=ScheduleState.ACTIVE, kind=kind, due_before=from_ms(window.end_ms), limit=_ROWS, **filters
        )
        found += [one async for one in listing]
    found.sort(key=lambda one: (one.next_ms or 0, one.id))
    start = from_ms(max(window.start_ms, view.now_ms) - 1)
    coming = list[tuple[Schedule, list[int]]]()
    for one in found[:_ROWS]:
        with suppress(ScheduleNotFound):  # it fired a moment ago
            times = map(to_ms, await client.preview(one.id, n=_COMING, start=start))
            coming.append((one, [ms for ms in times if window.start_ms <= ms < window.end_ms]))
    return coming


def _rows(
    window: Window,
    now_ms: int,
    by: str,
    past: Iterable[Occurrence],
    coming: Iterable[tuple[Schedule, list[int]]],
) -> list[Row]:
    """Return the rows: first those with what did not run, then the others by name."""
    rows = defaultdict[str, Row](lambda: Row(""))
    for one in past:
        placed = _placed(window, now_ms, one)
        for name in _names(by, one):
            rows[name].marks.append(placed)
            rows[name].bad += placed.mark in (Mark.LEFT_OUT, Mark.BAD)
    for schedule, times in coming:
        names = {"schedule": [schedule.id], "queue": [schedule.queue], "tag": list(schedule.tags) or ["no tag"]}[by]
        for ms in times:
            placed = Placed(window.place(ms), 0.0, Mark.EXPECTED, schedule.id, "to come")
            for name in names:
                rows[name].marks.append(placed)
    for name, row in rows.items():
        row.name = name
    return sorted(rows.values(), key=lambda row: (-row.bad, row.name))


def _names(by: str, one: Occurrence) -> Iterator[str]:
    facets = one.facets
    if by == "schedule":
        yield one.id
    elif by == "queue":
        yield (facets and facets.queue) or "unknown queue"
    else:
        yield from (facets and facets.tags) or ("no tag",)


def _placed(window: Window, now_ms: int, one: Occurrence) -> Placed:
    """Return the mark of an outcome at its nominal time, with the bar of its run."""
    run = one.run
    at_ms = one.nominal_ms if one.first_ms is None else one.first_ms
    at = window.place(one.at_us / 1000 if at_ms is None else at_ms)
    width = 0.0
    if one.last_ms is not None and one.first_ms is not None:
        width = max(window.place(one.last_ms) - at, 0.0)
    elif run is not None and run.started_ms is not None:
        ended_ms = run.ended_ms if run.ended_ms is not None else (now_ms if not run.is_over else run.started_ms)
        at, width = window.place(run.started_ms), max(window.place(ended_ms) - window.place(run.started_ms), 0.0)
    return Placed(at, round(width, 3), mark_of(one), one.id, words_of(one))


def _bars(counted: Timeline) -> list[dict[str, Any]]:
    """Return the bars of the density: places and heights of what fired, did not run, and is to come, in percent."""
    width = round(100 / max(len(counted.counts), 1), 4)
    parts = [_parts(count) for count in counted.counts]
    most = max((sum(part) for part in parts), default=0) or 1
    return [
        {"at": round(number * width, 4), "width": width, "at_ms": at_ms, "counts": part,
         "heights": [round(100 * one / most, 3) for one in part]}
        for number, (at_ms, part) in enumerate(zip(counted.spans.bounds, parts, strict=False))
        if any(part)
    ]  # fmt: skip


def _parts(count: Any) -> tuple[int, int, int]:
    """Return how many fired, did not run, and are to come."""
    pushed = sum(count[word] for word in ("fired", "enqueued", "retried", "pushed_again", "held"))
    return pushed, sum(count.values()) - pushed - count[EXPECTED], count[EXPECTED]
