"""
The timeline: what ran, what did not run and why, and what is to come; and the forecast: in which minutes, and of which
queues and functions, most of that is.

On top the density of all occurrences by spans of time: a million one-shots are a band. Below it a row per schedule,
tag, queue or function; the one-shots of a function share a row. All numbers are counts that the archive keeps, so they
are true for a minute and for a year. Where a row has few occurrences, each has a mark, else there is a cell for each
span. Rows with most failures come first. ``drawing`` computes the places.

Not guaranteed: that all rows are shown, or all failures listed; the page says how many there are.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.core.clock import from_ms, to_ms
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.counts import EXPECTED, FAILED, LATE, MINUTE_MS, RowsBy, Timeline
from zsched.core.occurrences.forecast import By
from zsched.core.occurrences.lateness import Absences, waited_since_us
from zsched.core.occurrences.outcomes import LEFT_OUT, PUSHES
from zsched.core.occurrences.replacements import Replacement, Replacements
from zsched.core.options.arguments import choice
from zsched.core.options.choices import ScheduleState
from zsched.core.runs.run import BAD, RunStatus
from zsched.core.triggers.zones import instant_ms
from zsched.errors import InvalidSchedule
from zsched.web.actions import coming_of
from zsched.web.console.drawing import MOST_MARKS, Mark, ShownTime, bars_of, drawn_rows, mark_of, words_of
from zsched.web.console.view import View, Viewed, given_filters
from zsched.web.reading import aware, rfc3339
from zsched.web.runs import replaced_since

router = APIRouter(include_in_schema=False)

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_BACK_MS: Final = 6 * _HOUR_MS
_AHEAD_MS: Final = 24 * _HOUR_MS
_MOST_MS: Final = 366 * _DAY_MS
_BARS: Final = 122  # at most; a year has so many of three days
_STEPS: Final = (1, 2, 3, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 4320)  # minutes of a bar
_MARKED: Final = 2000  # outcomes in the shown time, up to which they have marks
_ROWS: Final = 40
_LISTED: Final = 100  # that did not run, in the list
_EXPLAINED_BY: Final = 5  # schedules whose history is asked for times without a daemon
_ZOOMS: Final = {
    "1 year": 365 * _DAY_MS, "30 days": 30 * _DAY_MS, "7 days": 7 * _DAY_MS, "30 h": _BACK_MS + _AHEAD_MS,
    "6 h": 6 * _HOUR_MS, "1 h": _HOUR_MS, "10 min": 10 * MINUTE_MS, "1 min": MINUTE_MS,
}  # fmt: skip
_FILTERS: Final = ("match", "tag", "queue", "func")
_READ: Final = 1000  # rows that are compared, those with most failures
_SPANS: Final = {"10m": "1m", "1h": "1m", "24h": "1m", "7d": "5m", "30d": "1h"}  # with the length of a heavy "minute"
_FORECAST_ROWS: Final = {"occurrence": 200, "minute": 10}  # rows; of queues and functions 100
_NOISE: Final = 10  # one or a tenth more or less is no difference of what ran, or was late
_GRAVE: Final = {"failed": [FAILED], "did not run": [what.value for what in LEFT_OUT]}
_KINDS: Final = _GRAVE | {"late": [LATE], "ran": [what.value for what in PUSHES]}


@router.get("/timeline")
async def timeline(view: Viewed, by: str = "schedule") -> Response:
    """Show the timeline from 6 hours ago to 24 hours ahead, or of another time."""
    view.call.demand_all("the timeline")
    rows_by, filters = choice("by", by, RowsBy), given_filters(view.request.query_params, _FILTERS)
    shown = _shown_time(view, view.now_ms - _BACK_MS, view.now_ms + _AHEAD_MS)
    told = {"by": by, "rows_by": [one.value for one in RowsBy], "filters": filters}
    return view.later("timeline", lambda: _found(view, shown, rows_by, filters), **told)


@router.get("/changes")
async def changes(view: Viewed) -> Response:
    """Show what changed in the last day, or between two times, beside the time of the same length before."""
    view.call.demand_all("the log")
    end_ms = -(-view.now_ms // MINUTE_MS) * MINUTE_MS
    shown = _shown_time(view, end_ms - _DAY_MS, end_ms, MINUTE_MS)
    lengths = {name: ShownTime(end_ms - _ZOOMS[name], end_ms).moved(0) for name in ("1 h", "7 days")}
    return view.later("changes", lambda: _changed(view, shown), shown=shown, lengths=lengths)


async def _changed(view: View, shown: ShownTime) -> dict[str, Any]:
    """Return what people and programs did in the shown time, and the rows that went differently from before."""
    history, span = view.request.app.state.history, timedelta(milliseconds=shown.span_ms)
    times = from_ms(shown.start_ms) - span, from_ms(shown.end_ms)
    (told, source), counted = await asyncio.gather(
        run(history.effects, shown.start_ms, shown.end_ms),
        view.call.client.timeline(*times, span, RowsBy.SCHEDULE, _READ),
    )
    rows = [(numbers := _numbers(row.counts), _difference(numbers), row) for row in counted.rows]
    differing = sorted((row for row in rows if any(row[1])), key=itemgetter(1), reverse=True)
    both = {"before": shown.moved(-1), "now": shown.moved(0), "all": _numbers(counted.counts), "source": source}
    return {**told, **both, "counted": counted, "rows": differing[:_ROWS], "more_rows": len(differing[_ROWS:])}


def _numbers(counts: Sequence[Counter[str]]) -> dict[str, list[int]]:
    """Return the numbers of each kind, by span."""
    return {kind: [sum(one[word] for word in words) for one in counts] for kind, words in _KINDS.items()}


def _difference(numbers: Mapping[str, Sequence[int]]) -> list[int]:
    """Return how much the numbers of two spans differ, by kind; 0: no more than usual."""
    more = {kind: abs(now - before) for kind, (before, now) in numbers.items()}
    return [one * (kind in _GRAVE or one > max(1, max(numbers[kind]) // _NOISE)) for kind, one in more.items()]


def _shown_time(view: View, start_ms: int, end_ms: int, step_ms: int = 0) -> ShownTime:
    """
    Return the time of the query, else the given one, in whole steps: else in those of some 120 bars. A time without an
    offset is local in the zone of the page. Raises InvalidSchedule.
    """
    given = view.request.query_params
    start_ms, end_ms = (
        instant_ms(name, rfc3339(name, given[name]), view.zone()) if given.get(name) else usual_ms
        for name, usual_ms in (("from", start_ms), ("to", end_ms))
    )
    if not 0 < end_ms - start_ms <= _MOST_MS + 2 * _STEPS[-1] * MINUTE_MS:  # a shown year has whole bars
        raise InvalidSchedule("to", given.get("to"), "not later than from, by a year at most", "give another time")
    start_ms = max(start_ms, end_ms - _MOST_MS)
    steps_ms = (one * MINUTE_MS for one in _STEPS)
    step_ms = step_ms or next(one for one in steps_ms if one * _BARS >= end_ms - start_ms)
    return ShownTime(start_ms // step_ms * step_ms, -(-end_ms // step_ms) * step_ms, step_ms)


async def _found(view: View, shown: ShownTime, by: RowsBy, given: Mapping[str, Any]) -> dict[str, Any]:
    """Read what the timeline shows, and return it as its template takes it."""
    client = view.call.client
    has_ids = "match" in given or "tag" in given
    times, bucket = (from_ms(shown.start_ms), from_ms(shown.end_ms)), timedelta(milliseconds=shown.step_ms)
    counted = await client.timeline(*times, bucket, by, _ROWS, **given)
    number = sum(number for count in counted.counts for word, number in count.items() if word != EXPECTED)
    listed, past, coming = await asyncio.gather(
        _changes(view, shown, [*LEFT_OUT, *BAD, RunStatus.EXPIRED], _LISTED, given),
        _changes(view, shown, None, _MARKED if "match" in given or number <= _MARKED else 0, given),
        _coming(view, shown, counted, by, given),
    )
    if number > _MARKED:  # the newest of them are no whole row of a rule; one-shots with some ids have no counts
        past = [one for one in past if one.facets and not one.facets.is_rule]
    rows = drawn_rows(shown, counted, by, past, coming, has_ids=has_ids and by is RowsBy.SCHEDULE)
    replacements = await replaced_since(client, shown.start_ms, **given) if listed else Replacements()
    absences = await _absences(view, [one for one in listed if mark_of(one) is Mark.LEFT_OUT])
    known = client._get_many(sorted({one.id for one in listed}))
    is_now = shown.start_ms < view.now_ms < shown.end_ms
    middle_ms = view.now_ms if is_now else (shown.start_ms + shown.end_ms) // 2
    bars = bars_of(counted)
    return {
        "shown": shown,
        "bars": bars,
        "counted": counted,
        "rows": rows,
        "left_out": [_listed(one, absences, replacements) for one in listed],
        "left_out_count": max(sum(bar["counts"][1] for bar in bars), sum(one.count for one in listed)),
        "is_list_cut": len(listed) == _LISTED,
        "recurring": {one.id: one.tz async for one in known if one.kind != "once"},
        "legend": Mark,
        "zooms": [(name, shown.around(middle_ms, span)) for name, span in _ZOOMS.items()],
    }


def _listed(
    one: Change, absences: Absences, replacements: Replacements
) -> tuple[Mark, Change, str, str, Replacement | None]:
    """
    Return the row of an occurrence that did not run, or failed: what became of it, why it was not fired, and what ran
    in its place.
    """
    cause = absences.reason(one) if mark_of(one) is Mark.LEFT_OUT else ""  # a failed run has a reason of its own
    return mark_of(one), one, words_of(one), cause, replacements.of(one)


async def _absences(view: View, listed: Iterable[Change]) -> Absences:
    """Return the times without a daemon in which *listed* occurrences were due, from a few schedules' histories."""
    found, asked = Absences(view.zone()), set[str]()
    for one in listed:
        is_open = waited_since_us(one) is not None and not found.reason(one)
        if is_open and one.id not in asked and len(asked) < _EXPLAINED_BY:
            asked.add(one.id)
            known = await run(view.request.app.state.history.chronicle, one.id)
            found.add(known.changes, known.source.whole_since_us)
    return found


async def _changes(view: View, shown: ShownTime, status: Any, limit: int, filters: Mapping[str, Any]) -> list[Change]:
    """Return the newest outcomes of the shown time with one of the words *status*; None: all."""
    if shown.start_ms >= view.now_ms or not limit:
        return []
    end_ms = min(shown.end_ms, view.now_ms + 1)
    given: dict[str, Any] = {**filters, "since": from_ms(shown.start_ms), "until": from_ms(end_ms)}
    return [one async for one in view.call.client.iter_history(None, status=status, limit=limit, **given)]


async def _coming(
    view: View, shown: ShownTime, counted: Timeline, by: RowsBy, filters: Mapping[str, Any]
) -> dict[str, list[int]]:
    """Return the times to come by id: of the schedules whose rows have few of them, and of one-shots with some ids."""
    start = from_ms(max(shown.start_ms, view.now_ms) - 1)

    async def times_of(id: str) -> list[int]:
        times = map(to_ms, await coming_of(view.call, id, n=MOST_MARKS, start=start))
        return [ms for ms in times if ms < shown.end_ms]

    few = (row for row in counted.rows if not row.is_once and 0 < row.number(EXPECTED) < MOST_MARKS)
    names = [row.name for row in islice(few if by is RowsBy.SCHEDULE else (), _ROWS)]
    found = dict(zip(names, await asyncio.gather(*map(times_of, names)), strict=True))
    if "match" in filters and by is RowsBy.SCHEDULE and shown.end_ms > view.now_ms:
        soon: dict[str, Any] = {"due_before": from_ms(shown.end_ms), "kind": "once", "limit": _ROWS, **filters}
        found |= {one.id: [one.next_ms or 0] async for one in view.call.client.list(state=ScheduleState.ACTIVE, **soon)}
    return found


@router.get("/forecast")
async def forecast(view: Viewed, to: str = "24h", by: str = "minute") -> Response:
    """
    Show each occurrence until *to*, or the heaviest minutes, queues or functions. With a time as *to* and a *from* of
    the query, these are the contents of a minute.
    """
    by, filters = by or "occurrence", given_filters(view.request.query_params, _FILTERS)
    told = {"to": to, "by": by, "filters": filters, "spans": _SPANS, "keys": [one.value for one in By]}
    return view.later("forecast", lambda: _foreseen(view, to, by, filters), **told)


async def _foreseen(view: View, to: str, by: str, filters: dict[str, str]) -> dict[str, Any]:
    most = _FORECAST_ROWS.get(by, 100)
    start, end = aware("from", view.request.query_params.get("from") or None), aware("to", to) if "T" in to else to
    asked: Any = filters | ({} if by == "occurrence" else {"by": by, "suggest": start is None})
    if by == By.MINUTE.value and to in _SPANS:
        asked["bucket"] = _SPANS[to]
    found = await view.call.client.forecast(end, start, limit=most, **asked)  # type: ignore[arg-type]  # not None
    times = [ShownTime(one.peak_ms, one.peak_ms + found.bucket_ms).moved(0) for one in found.loads[:most]]
    whole = ShownTime(found.start_ms, found.end_ms).moved(0) if start else None
    return {"found": found, "loads": list(zip(found.loads, times, strict=False)), "whole": whole}
