"""
The answers to questions about the past: stories of schedules, occurrences, runs, and the log.

They come from a daemon's archive, which is asked through Redis. If no archive answers, they come from the log that
Redis still holds. Every answer names its source. Only the question itself is written to Redis.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from itertools import islice
from typing import Final

from zsched.core.arguments import check_id, choice, instant_ms, zone_name
from zsched.core.changes import OUTCOMES, What
from zsched.core.log import Entry, Position
from zsched.core.lookback import Lookback, Occurrence, Wanted
from zsched.core.run_id import RunId
from zsched.core.runs import OPEN, Run, RunStatus
from zsched.core.story import Chronicle, Source, Story, tell, tell_of_run
from zsched.core.wording import alternatives
from zsched.errors import InvalidSchedule
from zsched.storage.inquiry import Inquiry
from zsched.storage.reader import Reader

_NEAR: Final = 2000  # ids that are compared with an unknown one
_LIKE: Final = 0.7  # of difflib.SequenceMatcher.ratio
_OF_A_RUN: Final = 1000  # changes of a schedule among which its run is searched: the length of an answer


class RunList(list[Run]):
    """Runs in order, and their source."""

    def __init__(self, runs: Iterable[Run], source: Source) -> None:
        super().__init__(runs)
        self.source = source


class Answers:
    """Answers to the calls of ``Past``."""

    def __init__(self, reader: Reader, inquiry: Inquiry) -> None:
        self._reader, self._inquiry = reader, inquiry

    def why(self, id: str, tz: str | None = None) -> Story:
        """See ``Past``."""
        zone, parts = zone_name(tz), RunId.parse(id) if isinstance(id, str) else None
        check_id(id if parts is None else parts.schedule_id)
        chronicle = self._inquiry.chronicle(id)
        found = self._reader.find(id)
        if found is None and not chronicle.explains_absence:  # it may have fired between the two reads
            chronicle = self._inquiry.chronicle(id)
        if found is None and not chronicle.changes and parts is not None:
            of_schedule = self._inquiry.chronicle(parts.schedule_id, _OF_A_RUN)
            if of_schedule.changes:
                return self._why_run(id, of_schedule, zone)
        runs = self._inquiry.seen(_open(chronicle))
        stalled = self._inquiry.stalled(runs)
        story = tell(chronicle, found.schedule if found else None, self._reader.now_ms(), zone, runs, stalled)
        return story if story.is_known else self._with_near_ids(story)

    def _with_near_ids(self, story: Story) -> Story:
        """Add ids of schedules that look like the unknown one, among some thousand."""
        ids = sorted({*self._reader.recurring(), *self._reader.paused()})
        at = bisect(ids, story.id)
        waiting = (id for _, id in self._reader.active(None, None, None, lambda _: True))
        near = [*ids[max(at - _NEAR, 0) : at + _NEAR], *islice(waiting, _NEAR)]
        found = get_close_matches(story.id, dict.fromkeys(near), cutoff=_LIKE)
        if not found:
            return story
        return replace(story, verdict=story.verdict.after(f"did you mean {alternatives(found)}?"))

    def _why_run(self, run_id: str, chronicle: Chronicle, zone: str | None) -> Story:
        found = self._reader.find(chronicle.id)
        runs = self._inquiry.seen([run for run in _runs(chronicle, RunStatus) if run.id == run_id])
        stalled, schedule = self._inquiry.stalled(runs), found.schedule if found else None
        return tell_of_run(run_id, chronicle, schedule, self._reader.now_ms(), zone, runs, stalled)

    def history(
        self, id: str | None = None, *, status: str | What | RunStatus | None = None, limit: int = 20
    ) -> tuple[Sequence[Occurrence], Source]:
        """See ``Past``."""
        _check_limit(limit)
        words = set(OUTCOMES) if status is None else {what for what in OUTCOMES if status in (what, what.value)}
        statuses = {one for one in RunStatus if status in (one, one.value)}
        if not words and not statuses:
            names = ", ".join(dict.fromkeys(one.value for one in (*OUTCOMES, *RunStatus)))
            raise InvalidSchedule("status", status, "not an outcome of an occurrence or run", f"give one of {names}")
        asked_for = None if id is None else check_id(id)
        return self._inquiry.occurrences(Wanted(frozenset(words), frozenset(statuses), limit, asked_for))

    def runs(self, id: str | None = None, status: str | RunStatus | None = None, limit: int = 20) -> RunList:
        """See ``Past``."""
        _check_limit(limit)
        statuses = RunStatus if status is None else (choice("status", status, RunStatus),)
        wanted = Wanted(frozenset(), frozenset(statuses), limit, None if id is None else check_id(id))
        found, source = self._inquiry.occurrences(wanted)
        return RunList((one.run for one in found if one.run is not None), source)

    def log(self, since: datetime | None = None, *, limit: int = 50) -> tuple[Iterator[Entry], Source]:
        """See ``Past``."""
        _check_limit(limit, 50_000)
        since_us = None if since is None else instant_ms("since", since, None) * 1000
        return self._inquiry.entries(since_us, limit)

    def follow_log(self, after: Position | None = None) -> Iterator[Entry]:
        """See ``Past``."""
        return self._inquiry.follow(after or self._inquiry.last())


def _open(chronicle: Chronicle) -> list[Run]:
    """Return the runs of *chronicle* that are not known to be over, the last pushed first."""
    return [run for run in _runs(chronicle, OPEN) if not run.is_over]


def _runs(chronicle: Chronicle, statuses: Iterable[RunStatus]) -> list[Run]:
    """Return the runs of *chronicle*, the last pushed first."""
    lookback = Lookback(Wanted(frozenset(), frozenset(statuses), len(chronicle.changes)))
    lookback.see(chronicle.changes)
    return [one.run for one in lookback.found() if one.run is not None]


def _check_limit(limit: object, most: int = 1000) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:
        raise InvalidSchedule("limit", limit, "not a valid number of results", f"give 1 to {most}")
