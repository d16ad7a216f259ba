"""Reads a timeline: outcomes from the history, the next occurrences from the lanes, later ones from the rules."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from zsched.client.answers import Answers
from zsched.core.clock import from_ms
from zsched.core.occurrences.future import Spans
from zsched.core.occurrences.timeline import MOST_OUTCOMES, Timeline
from zsched.core.options.arguments import SearchFilters, seconds_to_ms
from zsched.core.options.instants import instant_ms
from zsched.storage.connection import Link
from zsched.storage.reader import Reader

_RULES: Final = 5000  # recurring schedules that are read
_LEAST_MS: Final = 1000  # of a span
_MOST_SPANS: Final = 1440  # the minutes of a day


def timeline(
    link: Link, reader: Reader, answers: Answers, start: datetime, end: datetime, bucket: timedelta | float | str
) -> Timeline:
    """See ``Past.timeline``."""
    start_ms, end_ms = instant_ms("from", start, None), instant_ms("to", end, None)
    spans = Spans.of(start_ms, end_ms, seconds_to_ms("bucket", bucket, _LEAST_MS), _MOST_SPANS)
    found = Timeline(spans, reader.now_ms())
    _add_past(found, answers, end_ms)
    if end_ms > found.now_ms:
        found.add_due(reader.due_in(found.spans.bounds))
        ids = reader.recurring()
        recurring = list(reader.schedules(islice(ids, _RULES)))
        found.left_out = max(len(ids) - _RULES, 0)
        link.compute(found.add_later, recurring)
    return found


def _add_past(found: Timeline, answers: Answers, end_ms: int) -> None:
    start_ms = found.complete_since_ms = found.spans.start_ms
    if start_ms >= found.now_ms:
        return
    within: SearchFilters = {"since": from_ms(start_ms), "until": from_ms(min(end_ms, found.now_ms))}
    for part in answers.parts(answers.outcomes(None, None, MOST_OUTCOMES, within, None)):
        found.source = part.source
        for one in part.occurrences:
            found.add_outcome(one)
        reached_us = 0 if part.after is None else part.reached_us or 0
        found.complete_since_ms = max(start_ms, reached_us // 1000)
