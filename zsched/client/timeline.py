"""Reads a timeline: counts of the past from the history, the next occurrences from the lanes, later ones from rules."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from zsched.client.answers import Answers
from zsched.core.listing import RECURRING, Filter, id_test
from zsched.core.model import Schedule
from zsched.core.occurrences.counts import MINUTE_MS, RowsBy, WantedCounts
from zsched.core.occurrences.future import Spans
from zsched.core.occurrences.timeline import Timeline
from zsched.core.options.arguments import FacetFilters, check_number, choice, seconds_to_ms
from zsched.core.options.choices import ScheduleState
from zsched.core.options.instants import instant_ms
from zsched.errors import InvalidSchedule
from zsched.storage.connection import Link
from zsched.storage.reader import Reader

_RULES: Final = 5000  # recurring schedules that are read
_MOST_SPANS: Final = 1440  # the minutes of a day
_MOST_ROWS: Final = 1000


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
        is_filtered = any(filters.values())
        if not is_filtered:
            found.add_due(reader.due_in(found.spans.bounds))
        rules, found.left_out = _rules(reader, Filter.of(kind=RECURRING, state=ScheduleState.ACTIVE, **filters))
        link.compute(found.add_coming, rules, rows_by, limit, is_filtered)
    return found


def _rules(reader: Reader, wanted: Filter) -> tuple[list[Schedule], int]:
    """Return the recurring schedules that are *wanted* by due time, and the number of those that were not read."""
    ids = list(filter(id_test([] if wanted.match is None else [wanted.match]), reader.recurring()))
    read = filter(wanted.keeps, reader.schedules(ids[:_RULES], texts=wanted.texts))
    return sorted(read, key=lambda one: one.next_ms or 0), max(len(ids) - _RULES, 0)
