"""
The part of the client that reads the past, and what is to come: stories of schedules, occurrences, runs, and the log.

``answers`` reads and formats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Unpack

from zsched.core.options.arguments import FacetFilters, SearchFilters
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

if TYPE_CHECKING:
    from zsched.client.answers import Answers, Results
    from zsched.core.entry import Entry, Position
    from zsched.core.occurrences.changes import Change
    from zsched.core.occurrences.counts import RowsBy, Timeline
    from zsched.core.occurrences.forecast import By, Forecast
    from zsched.core.occurrences.outcomes import What
    from zsched.core.options.allowed import Limits
    from zsched.core.runs.run import Run, RunStatus
    from zsched.core.story.source import Source
    from zsched.core.story.story import Story
    from zsched.storage.history_reader import HistoryPage, HistoryReader
    from zsched.storage.reader import Reader


class HistorySearch(SearchFilters, total=False):
    """Filters and options of ``Client.history``; without ``limit``, there is none."""

    status: str | What | RunStatus | None
    limit: int | None
    after: str | None


class ForecastOptions(FacetFilters, total=False):
    """Filters of schedules, and options of ``Client.forecast``."""

    by: str | By | None
    bucket: timedelta | float | str | None
    workers: Mapping[str, int] | None
    quiet_window: timedelta | float | str | None
    suggest: bool
    limit: int
    on_progress: Callable[[int, int], None] | None


def history_parts(past: Past, id: str | None = None, **given: Unpack[HistorySearch]) -> Iterator[HistoryPage]:
    """
    Yield the parts of the search of ``Past.iter_history``, also those without a result: each says how far it came
    (``reached_us``), and has the ``source``. Raises as ``history``.
    """
    wanted = past._answers.outcomes(id, given.get("status"), given.get("limit"), given, None)
    return past._answers.parts(wanted, given.get("after"))


class Past:
    """The calls of ``Client`` that ask for the past of its namespace. Raises RedisUnavailable, RedisRefused."""

    _link: Link
    _keys: Keys
    _reader: Reader
    _answers: Answers
    _history: HistoryReader
    _limits: Limits | None = None

    def why(self, id: str, tz: str | None = None) -> Story:
        """
        Tell the story of a schedule, or of a run. ``Story.source`` is an archive, or the log in Redis. Times are local
        in *tz*, else in the schedule's own zone.
        """
        return self._answers.why(id, tz)

    def history(
        self,
        id: str | None = None,
        *,
        status: str | What | RunStatus | None = None,
        limit: int = 20,
        after: str | None = None,
        **filters: Unpack[SearchFilters],
    ) -> Results[Change]:
        """
        List the latest occurrences with their outcomes, the newest first; a pushed one has its ``run``. *status* may be
        a run's, too ("cancelled" matches either). ``source`` names the origin of the data. To continue, give the page's
        ``after``, or the ``cursor`` of a result.

        Raises:
            ArchiveError: the archive stopped to answer in the middle of the search.
        """
        return self._answers.page(self._answers.outcomes(id, status, limit, filters), after)

    def runs(
        self,
        id: str | None = None,
        status: str | RunStatus | None = None,
        limit: int = 20,
        *,
        after: str | None = None,
        **filters: Unpack[SearchFilters],
    ) -> Results[Run]:
        """
        List the latest runs, the last pushed first; filter as in ``history``. RQ is asked for the status of open runs.
        With a final *status* other than succeeded, the list has the runs that ended last.
        """
        return self._answers.run_page(self._answers.ended_or_open(id, status, limit, filters), after)

    def iter_history(self, id: str | None = None, **given: Unpack[HistorySearch]) -> Iterator[Change]:
        """Yield occurrences as ``history`` does, as they are found: all, or ``limit``. Raises as ``history``."""
        for part in history_parts(self, id, **given):
            yield from part.occurrences

    def timeline(
        self,
        start: datetime,
        end: datetime,
        bucket: timedelta | float | str,
        by: str | RowsBy | None = None,
        limit: int = 40,
        **filters: Unpack[FacetFilters],
    ) -> Timeline:
        """
        Count, by spans of *bucket* in [*start*, *end*), past outcomes and expected occurrences; at most 1,440 spans, of
        whole minutes. ``complete_since_ms`` says since when all outcomes are counted. Later occurrences than the next
        one are counted of at most 5,000 recurring schedules. *by* "schedule", "queue", "tag" or "function": also in
        *limit* rows, those with most failures first; the row of a one-shot is its function, without what is to come.
        *filters*: as in ``list``; of one-shots, which have no ids and tags in counts, only ``func``, ``queue`` and
        ``owner``.

        Raises:
            InvalidSchedule: a time is naive, there are too many spans, or another argument is wrong.
            ArchiveError: as ``history``.
        """
        from zsched.client.timeline import timeline

        return timeline(self._link, self._reader, self._answers, start, end, bucket, by, limit, filters)

    def forecast(
        self, end: datetime | timedelta | float | str, start: datetime | None = None, **asked: Unpack[ForecastOptions]
    ) -> Forecast:
        """
        Tell what will fire from *start* (default: now) until *end*, a time or a duration: the first *limit* (1,000)
        occurrences, or their numbers *by* "queue", "function" or "minute", with the peak of each. The first *limit*
        minutes have their largest ``parts``. *bucket*: of the peaks. *workers* of queues: the backlog of each, by the
        usual durations of its functions. *quiet_window*: find the first gap of this length. *suggest* what would
        flatten the highest peaks. *on_progress* gets the numbers of counted rules, and of all.

        Raises:
            InvalidSchedule: an argument is invalid, or the answer would be too large.
            ArchiveError: as ``history``, while the durations were read.
        """
        from zsched.client.timeline import forecast

        return forecast(self._link, self._reader, self._answers, self._limits, start, end, asked)

    def iter_runs(
        self,
        id: str | None = None,
        status: str | RunStatus | None = None,
        *,
        limit: int | None = None,
        after: str | None = None,
        **filters: Unpack[SearchFilters],
    ) -> Iterator[Run]:
        """Yield runs as ``runs`` does, as they are found: all, or *limit*. Raises as ``history``."""
        for part in self._answers.parts(self._answers.ended_or_open(id, status, limit, filters, None), after):
            yield from (run for one in part.occurrences if (run := one.named_run) is not None)

    def get_run(self, run_id: str) -> tuple[Run, Source]:
        """
        Return a run with all its attempts, and the source. A failed attempt has the last lines of its traceback, if a
        worker of ``zsched.rq`` recorded them.

        Raises:
            RunNotFound: no run has this id, or it is not among the newest thousand changes of its schedule.
        """
        return self._answers.get_run(run_id)

    def log(self, since: datetime | None = None, *, limit: int = 50) -> tuple[Iterator[Entry], Source]:
        """
        Return all entries of the log since *since* (aware), or the newest *limit*, in order; and their source.

        Raises:
            ArchiveError: while they are read, when the archive stops answering.
        """
        return self._answers.log(since, limit=limit)

    def _log_search(
        self, by: str | None = None, id: str | None = None, what: What | None = None, limit: int = 50,
        until_us: int | None = None, is_all: bool = False,
    ) -> tuple[list[Entry], int | None, Source]:  # fmt: skip
        """
        Return the newest *limit* entries of the log before *until_us* that *by* (None: anybody) asked for, or with
        changes of schedule *id*, or of the kind *what*, or *is_all*; the newest first; the time (µs) up to which there
        may be more; and their source.
        """
        return self._history.log_search(by=by, id=id, what=what, limit=limit, until_us=until_us, is_all=is_all)

    def follow_log(self, after: Position | None = None, gather_s: float = 0.0) -> Iterator[Entry]:
        """
        Yield entries of the log after *after*, or from now on, as they come, without end. *gather_s*: how long to wait
        for more after the first one.
        """
        return self._history.follow(after or self._history.last(), gather_s)
