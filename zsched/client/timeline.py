"""
Reads what was and what is to come, by time: timelines and forecasts.

A timeline has counts of the past from the history, the next occurrences from the lanes, and later ones from rules.

A forecast has the schedules that fire within its time, the jobs that wait now, and how long runs took lately. Active
schedules come in the order of their next times. So if there are too many to read, the forecast ends at the last one
that was read, and is complete until then.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from zsched.client.answers import Answers
from zsched.client.past import ForecastOptions
from zsched.core.clock import from_ms
from zsched.core.listing import RECURRING, Filter, id_test, select
from zsched.core.model import Schedule
from zsched.core.occurrences.counts import MINUTE_MS, RowsBy, Timeline, WantedCounts
from zsched.core.occurrences.forecast import By, Forecast, Forecaster
from zsched.core.occurrences.future import Spans
from zsched.core.options.allowed import Limits
from zsched.core.options.arguments import FacetFilters, check_number, check_queue, choice, flag, seconds_to_ms
from zsched.core.options.choices import ScheduleState
from zsched.core.runs.run import RunStatus
from zsched.core.triggers.zones import instant_ms
from zsched.errors import InvalidSchedule
from zsched.storage.connection import Link
from zsched.storage.queues import waiting_in
from zsched.storage.reader import Reader

_RULES: Final = 5000  # recurring schedules that are read
_MOST_SPANS: Final = 1440  # the minutes of a day
_MOST_ROWS: Final = 1000
_READ: Final = 100_000  # schedules
_FUNCTIONS: Final = 50  # whose runs are asked for: those of most schedules
_RUNS: Final = 20  # the last ones of a function; their median is its duration
_LISTED: Final = 1000  # occurrences, unless the caller gives a limit
_MOST: Final = 100_000
_MOST_WORKERS: Final = 10_000


def timeline(
    link: Link, reader: Reader, answers: Answers, start: datetime, end: datetime,
    bucket: timedelta | float | str, by: RowsBy | str | None, limit: int, filters: FacetFilters,
) -> Timeline:  # fmt: skip
    """See ``Past.timeline``."""
    step_ms, rows_by = seconds_to_ms("bucket", bucket, MINUTE_MS), None if by is None else choice("by", by, RowsBy)
    if step_ms % MINUTE_MS:
        raise InvalidSchedule("bucket", bucket, "no whole number of minutes", "give whole minutes: 15m")
    check_number("limit", limit, _MOST_ROWS, "rows")
    end_ms = instant_ms("to", end, None)
    given = Spans.of(instant_ms("from", start, None), end_ms, step_ms, _MOST_SPANS)
    start_ms = given.start_ms // MINUTE_MS * MINUTE_MS
    found = Timeline(Spans.of(start_ms, end_ms, step_ms), reader.now_ms())
    if start_ms < found.now_ms:
        minutes = start_ms // MINUTE_MS, step_ms // MINUTE_MS, found.spans.number
        answer, found.source = answers.counts(WantedCounts(*minutes, by=rows_by, most=limit), filters)
        found.add_past(answer["totals"], answer["rows"])
        found.more_rows = answer["more_rows"]
        found.complete_since_ms = max(start_ms, -(-found.source.whole_since_us // 1000))
    if found.spans.bounds[-1] > found.now_ms:
        if not (is_filtered := any(filters.values())):
            found.add_due(reader.due_in(found.spans.bounds))
        rules, found.left_out = _rules(reader, Filter.of(kind=RECURRING, state=ScheduleState.ACTIVE, **filters))
        link.compute(found.add_coming, rules, rows_by, limit, is_filtered)
    return found


def _rules(reader: Reader, wanted: Filter) -> tuple[list[Schedule], int]:
    """Return the recurring schedules that are *wanted* by due time, and the number of those that were not read."""
    ids = list(filter(id_test([] if wanted.match is None else [wanted.match]), reader.recurring()))
    read = filter(wanted.keeps, reader.schedules(ids[:_RULES], texts=wanted.texts))
    return sorted(read, key=lambda one: one.next_ms or 0), max(len(ids) - _RULES, 0)


def forecast(
    link: Link, reader: Reader, answers: Answers, limits: Limits | None, start: Any, end: Any, asked: ForecastOptions
) -> Forecast:
    """See ``Past.forecast``; of the schedules within *limits*."""
    by = None if (named := asked.get("by")) is None else choice("by", named, By)
    bucket_ms, quiet_ms = (_duration_ms(name, asked.get(name)) for name in ("bucket", "quiet_window"))
    workers, limit, limits = asked.get("workers") or {}, asked.get("limit", _LISTED), limits or Limits()
    for queue, number in workers.items():
        check_number("workers", number, _MOST_WORKERS, "workers")
        check_queue(queue, "workers")
    check_number("limit", limit, _MOST, "occurrences")
    suggests, on_progress = flag("suggest", asked.get("suggest", False)), asked.get("on_progress")
    now_ms = reader.now_ms()
    start_ms = now_ms if start is None else max(instant_ms("start", start, None), now_ms)
    end_ms = instant_ms("end", end, None) if isinstance(end, datetime) else start_ms + seconds_to_ms("end", end, 1)
    if end_ms <= start_ms:
        raise InvalidSchedule("end", end, "not later than the beginning", "give a later one, or a duration: 24h")
    read, cut_ms = _read(reader, end_ms, {name: asked.get(name) for name in FacetFilters.__annotations__})
    found = [one for one in read if limits.refusal(one.limited_by) is None]
    end_ms = max(min(end_ms, cut_ms or end_ms), start_ms + 1)
    durations_ms = usual_durations_ms(answers, found) if workers or quiet_ms is not None else {}
    made = link.compute(Forecaster, found, now_ms, start_ms, end_ms, durations_ms)
    wanted = by, bucket_ms, limit  # on_progress may be a coroutine function, so it is called in this thread
    answer = made.answer(*wanted, on_progress) if on_progress else link.compute(made.answer, *wanted)
    answer.is_cut = cut_ms is not None
    waiting = reader.on_wire(waiting_in, [queue for queue in workers if start_ms == now_ms and limits.has_queue(queue)])
    answer.backlogs = [
        link.compute(made.backlog, queue, number, waiting.get(queue, 0), made.spans(bucket_ms))
        for queue, number in workers.items()
    ]
    answer.quiet = None if quiet_ms is None else link.compute(made.quiet, quiet_ms)
    answer.suggestions = link.compute(list, made.suggestions()) if suggests else []
    return answer


def _read(reader: Reader, end_ms: int, filters: Mapping[str, Any]) -> tuple[list[Schedule], int | None]:
    """Return the schedules that are due before *end_ms*; and if some were not read, the time of the first one."""
    found = list(select(Filter.of(due_before=from_ms(end_ms), limit=_READ + 1, **filters), reader))
    more = found[_READ:]
    return found[:_READ], more[0].next_ms if more and more[0].state is ScheduleState.ACTIVE else None


def usual_durations_ms(answers: Answers, schedules: Iterable[Schedule]) -> dict[str, int]:
    """Return the usual duration of the functions of most *schedules*; none of a function without recent runs."""
    found = {}
    for func, _ in Counter(one.func for one in schedules).most_common(_FUNCTIONS):
        runs = answers.run_page(answers.ended_or_open(None, RunStatus.SUCCEEDED, _RUNS, {"func": func}), None)
        if took := [run.duration_ms for run in runs if run.duration_ms is not None]:
            found[func] = round(median(took))
    return found


def _duration_ms(name: str, value: Any) -> int | None:
    return None if value is None else seconds_to_ms(name, value, 1000)
