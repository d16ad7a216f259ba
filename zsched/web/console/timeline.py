"""
The timeline: what ran, what did not run and why, and what is to come.

On top the density of all occurrences by spans of time: a million one-shots are a band. Below it a row per schedule, tag
or queue, with a mark for each occurrence: past ones from the history, coming ones from the rules. The rows with what
did not run come first, and those with one mark last. ``drawing`` computes the places.

Not guaranteed: that all occurrences have a mark. The newest 2,000 outcomes and 40 rows have, and the page says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from fastapi import APIRouter
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.core.clock import from_ms, to_ms
from zsched.core.listing import RECURRING
from zsched.core.model import Schedule
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.lateness import Absences, waited_since_us
from zsched.core.occurrences.replacements import Replacement, Replacements
from zsched.core.options.choices import ScheduleState
from zsched.core.options.instants import instant_ms
from zsched.errors import InvalidSchedule
from zsched.storage.history_reader import HistoryReader
from zsched.storage.keys import keys_of
from zsched.web.actions import coming_of
from zsched.web.console.drawing import COMING, ROWS_BY, Mark, ShownTime, bars_of, drawn_rows, mark_of, words_of
from zsched.web.console.view import View, Viewed
from zsched.web.reading import aware
from zsched.web.runs import replaced_since

router = APIRouter(include_in_schema=False)

_BACK_MS: Final = 6 * 3_600_000
_AHEAD_MS: Final = 24 * 3_600_000
_MINUTE_MS: Final = 60_000  # the least that can be shown, too
_MOST_MS: Final = 31 * 86_400_000
_BARS: Final = 120
_OUTCOMES: Final = 2000
_ROWS: Final = 40
_LISTED: Final = 200  # that did not run, in the list
_EXPLAINED_BY: Final = 5  # schedules whose history is asked for times without a daemon
_ZOOMS: Final = {"30 h": _BACK_MS + _AHEAD_MS, "6 h": 21_600_000, "1 h": 3_600_000, "10 min": 600_000, "1 min": 60_000}


class ListedRow(NamedTuple):
    """An occurrence that did not run, or failed: what became of it, why it was not fired, and what ran in its place."""

    mark: Mark
    one: Change
    words: str
    cause: str
    replacement: Replacement | None

    @classmethod
    def of(cls, one: Change, absences: Absences, replacements: Replacements) -> ListedRow:
        """Return the row of *one*."""
        mark = mark_of(one)
        cause = absences.reason(one) if mark is Mark.LEFT_OUT else ""  # a failed run has a reason of its own
        return cls(mark, one, words_of(one), cause, replacements.of(one))


@router.get("/timeline")
async def timeline(view: Viewed, by: str = "schedule", match: str = "", tag: str = "", queue: str = "") -> Response:
    """Show the timeline from 6 hours ago to 24 hours ahead, or of another time."""
    view.call.demand_all("the timeline")
    if by not in ROWS_BY:
        raise InvalidSchedule("by", by, "not a kind of row", f"give one of {', '.join(ROWS_BY)}")
    shown = _shown_time(view)
    given = {"match": match, "tag": tag, "queue": queue}
    filters = {name: value for name, value in given.items() if value}
    return view.later("timeline", lambda: _found(view, shown, by, filters), by=by, rows_by=ROWS_BY, filters=given)


def _shown_time(view: View) -> ShownTime:
    """Return the time of the query. Raises InvalidSchedule."""
    given = view.request.query_params
    now_ms = view.now_ms // _MINUTE_MS * _MINUTE_MS
    start_ms, end_ms = (
        usual if not given.get(name) else instant_ms(name, aware(name, given[name]), None)
        for name, usual in (("from", now_ms - _BACK_MS), ("to", now_ms + _AHEAD_MS))
    )
    if not _MINUTE_MS <= end_ms - start_ms <= _MOST_MS:
        raise InvalidSchedule("to", given.get("to"), "not a minute to 31 days after from", "give another time")
    return ShownTime(start_ms, end_ms)


async def _found(view: View, shown: ShownTime, by: str, filters: Mapping[str, str]) -> dict[str, Any]:
    """Read what the timeline shows, and return it as its template takes it."""
    client, bucket = view.call.client, timedelta(milliseconds=max(-(-shown.span_ms // _BARS), 1000))
    counted, past, coming = await asyncio.gather(
        client.timeline(from_ms(shown.start_ms), from_ms(shown.end_ms), bucket),
        _past(view, shown, filters),
        _coming(view, shown, filters),
    )
    rows = drawn_rows(shown, view.now_ms, by, past, coming)
    left_out = [one for one in past if mark_of(one) in (Mark.LEFT_OUT, Mark.BAD)]
    listed = left_out[:_LISTED]
    replacements = await replaced_since(client, shown.start_ms, **filters) if listed else Replacements()
    absences = await _absences(view, [one for one in listed if mark_of(one) is Mark.LEFT_OUT])
    known = client._get_many(sorted({one.id for one in listed}))
    is_now = shown.start_ms < view.now_ms < shown.end_ms
    middle_ms = view.now_ms if is_now else (shown.start_ms + shown.end_ms) // 2
    return {
        "shown": shown,
        "bars": bars_of(counted),
        "counted": counted,
        "rows": rows[:_ROWS],
        "more_rows": max(len(rows) - _ROWS, 0),
        "is_cut": len(past) >= _OUTCOMES,
        "left_out": [ListedRow.of(one, absences, replacements) for one in listed],
        "left_out_count": sum(one.count for one in left_out),
        "is_list_cut": len(left_out) > len(listed),
        "recurring": {one.id: one.tz async for one in known if one.kind != "once"},
        "legend": Mark,
        "zooms": [(name, shown.around(middle_ms, span)) for name, span in _ZOOMS.items()],
    }


async def _absences(view: View, listed: Iterable[Change]) -> Absences:
    """Return the times without a daemon in which *listed* occurrences were due, from a few schedules' histories."""
    state, found, asked = view.request.app.state, Absences(view.zone()), set[str]()
    history = HistoryReader(state.link, keys_of(state.settings))
    for one in listed:
        is_open = waited_since_us(one) is not None and not found.reason(one)
        if is_open and one.id not in asked and len(asked) < _EXPLAINED_BY:
            asked.add(one.id)
            known = await run(history.chronicle, one.id)
            found.add(known.changes, known.source.whole_since_us)
    return found


async def _past(view: View, shown: ShownTime, filters: Mapping[str, Any]) -> list[Change]:
    """Return the newest outcomes of the shown."""
    if shown.start_ms >= view.now_ms:
        return []
    end_ms = min(shown.end_ms, view.now_ms + 1)
    given: dict[str, Any] = {**filters, "since": from_ms(shown.start_ms), "until": from_ms(end_ms)}
    found = view.call.client.iter_history(None, limit=_OUTCOMES, **given)
    return [one async for one in found]


async def _coming(view: View, shown: ShownTime, filters: Mapping[str, Any]) -> list[tuple[Schedule, list[int]]]:
    """
    Return the recurring schedules of the first rows with their times to come; with a filter of ids, one-shots,
    too. Without one, a million one-shots are only in the density.
    """
    if shown.end_ms <= view.now_ms:
        return []
    client, kind = view.call.client, None if "match" in filters else RECURRING
    listing = client.list(
        state=ScheduleState.ACTIVE, kind=kind, due_before=from_ms(shown.end_ms), limit=_ROWS, **filters
    )
    first = [one async for one in listing]
    start = from_ms(max(shown.start_ms, view.now_ms) - 1)

    async def times_of(one: Schedule) -> list[int]:
        times = map(to_ms, await coming_of(view.call, one.id, n=COMING, start=start))
        return [ms for ms in times if ms < shown.end_ms]

    return list(zip(first, await asyncio.gather(*map(times_of, first)), strict=True))
