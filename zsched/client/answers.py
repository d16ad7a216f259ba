"""
The answers to questions about the past: stories of schedules, occurrences, runs, and the log.

They come from a daemon's archive, which is asked through Redis. If no archive answers, they come from the log that
Redis still holds, folded in the same way. Every answer names its source. Only the question is written to Redis.
"""

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from itertools import islice
from shlex import quote
from typing import Any, Final, TypeVar

from zsched.core.clock import from_ms
from zsched.core.entry import Entry
from zsched.core.facets import Facets
from zsched.core.model import Schedule
from zsched.core.occurrences.changes import Change, SearchCursor, Wanted, runs_of
from zsched.core.occurrences.counts import WantedCounts
from zsched.core.occurrences.outcomes import OUTCOMES, What
from zsched.core.options.arguments import FacetFilters, SearchFilters, check_filter, check_id, check_number, choice
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import zone_name
from zsched.core.runs.attempts import ITS_PLACE
from zsched.core.runs.run import Run, RunStatus
from zsched.core.runs.run_id import RunId
from zsched.core.story.source import Source
from zsched.core.story.story import Chronicle, Story, in_the_way, tell
from zsched.core.story.verdict import LEADERLESS, NOTHING, Stalled, StoryVerdict, Word, on_run
from zsched.core.triggers.zones import instant_ms
from zsched.core.wording import alternatives, duration_text, plural, rough_duration, some
from zsched.errors import InvalidSchedule, RunNotFound
from zsched.storage.history_reader import MOST_AT_ONCE, HistoryPage, HistoryReader
from zsched.storage.meta import moving_away
from zsched.storage.queues import similar
from zsched.storage.reader import Reader
from zsched.storage.shell import Shell

_NEAR: Final = 2000  # ids that are compared with an unknown one
_LATELY: Final = 200  # the last occurrences whose ids begin alike, which are compared with it, too
_SAME: Final = 3  # characters at the beginning of such an id
_LIKE: Final = 0.7  # of difflib.SequenceMatcher.ratio
_OTHERS: Final = 100  # runs of its queue that are searched for those that began while a run waited
_BEFORE_MS: Final = 3_600_000  # they were pushed so long before it, at most
_ENDLESS: Final = 10**15  # results
_OF_A_RUN: Final = 1000  # changes of a schedule among which its run is searched: the length of an answer


T = TypeVar("T")


class Results(list[T]):
    """
    Results of a search, the newest first, and their ``source``. ``after``: the cursor to continue from; None: there are
    no more in that source.
    """

    def __init__(self, found: Iterable[T], source: Source, after: str | None = None) -> None:
        super().__init__(found)
        self.source, self.after = source, after


class Answers:
    """Answers to the calls of ``Past``."""

    def __init__(self, reader: Reader, history: HistoryReader, shell: Shell) -> None:
        self._reader, self._history, self._shell = reader, history, shell

    def why(self, id: str, tz: str | None = None) -> Story:
        """See ``Past``."""
        zone, parts = zone_name(tz), RunId.parse(id) if isinstance(id, str) else None
        check_id(id if parts is None else parts.schedule_id)
        chronicle = self._history.chronicle(id)
        found = self._reader.find(id)
        if found is None and not chronicle.explains_absence:  # it may have fired between the two reads
            chronicle = self._history.chronicle(id)
        run_id = ""
        if found is None and not chronicle.changes and parts is not None:
            of_schedule = self._history.chronicle(parts.schedule_id, _OF_A_RUN)
            if of_schedule.changes:
                run_id, chronicle, found = id, of_schedule, self._reader.find(parts.schedule_id)
        known = [run for run in runs_of(chronicle.changes) if run_id in ("", run.id)]
        runs = self._history.updated(known) if run_id else self._now(chronicle, known)
        stalled = self._history.stalled(runs) if runs else {}
        now_ms = found.read_ms if found else self._reader.now_ms()
        story = tell(chronicle, found, now_ms, zone, runs, stalled, self._hindrance(found, now_ms), run_id)
        if not story.is_known and not run_id:
            story = self._with_near_ids(story)
        for is_about, hint in _HINTS.get(story.verdict.word, ()):
            if (run := next((run for run in (*runs, *known) if is_about(run, stalled)), None)) is not None:
                story = replace(story, verdict=hint(self, story, run))
        return replace(story, verdict=story.verdict.completed(self._shell.written))

    def _now(self, chronicle: Chronicle, known: Sequence[Run]) -> list[Run]:
        """
        Return the *known* runs that are not over, or were requeued since, as RQ has them; and the open run
        that occurrences are skipped for, if its push is too long ago to be known.
        """
        now = zip(known, self._history.updated(known), strict=True)
        runs = [run for before, run in now if not before.is_over or run is not before]
        before_id = in_the_way(chronicle)
        if before_id is not None and all(run.id != before_id for run in known):
            runs += (run for run in self._history.updated([Run(before_id, RunStatus.QUEUED)]) if not run.is_over)
        return runs

    def _hindrance(self, schedule: Schedule | None, now_ms: int) -> StoryVerdict:
        """Return the verdict on *schedule*, which is due: why it does not fire."""
        if schedule is None or schedule.state is not ScheduleState.ACTIVE or now_ms <= (schedule.next_ms or now_ms):
            return LEADERLESS  # nobody looks at it
        seen = self._reader.overview()
        refusal = None if seen.server is None else seen.server.write_refusal
        if refusal is not None:
            return StoryVerdict(Word.OVERDUE, f"Redis refuses writes: {refusal.sentence}", refusal.remedy)
        if seen.leader is None:
            return LEADERLESS
        if seen.held_ms:
            wait = f"nothing fires for {duration_text(seen.held_ms)} more, after a loss or a restart of Redis"
            return StoryVerdict(Word.OVERDUE, wait, f"{NOTHING}: it fires then")
        for held in seen.held_back:
            if held.queue == schedule.queue or held.zone == schedule.tz:
                number = f"{held.cause}; {plural(held.waiting, 'schedule')} waiting, the oldest for"
                text = f"{number} {rough_duration(now_ms - held.since_ms)}"
                remedy, *command = ["raise the limit of all daemons, then: systemctl reload zsched; or schedule less"]
                if held.zone is not None:
                    remedy = "install tzdata there, or start a daemon on another machine"
                elif held.blocked_by is not None:
                    remedy, *command = moving_away(held.blocked_by)
                return StoryVerdict(Word.HELD_BACK, text, remedy, tuple(command))
        text = "a daemon leads, so it fires any moment"
        return StoryVerdict(Word.OVERDUE, text, "if it does not", ("zsched", "doctor"))

    def _with_near_ids(self, story: Story) -> Story:
        """Add ids that look like the unknown one: of some thousand schedules, and of those that fired lately."""
        ids = sorted({*self._reader.recurring(), *self._reader.paused()})
        at = bisect(ids, story.id)
        waiting = (id for _, id in self._reader.active(None, None, None, lambda _: True))
        near = [*ids[max(at - _NEAR, 0) : at + _NEAR], *islice(waiting, _NEAR)]
        if story.source.archive is not None:  # the log alone takes seconds to search
            lately = self.outcomes(None, None, _LATELY, {"match": f"{story.id[:_SAME]}*"})
            near += [one.id for one in self.page(lately, None)]
        if not (found := get_close_matches(story.id, dict.fromkeys(near), cutoff=_LIKE)):
            return story
        return replace(story, verdict=story.verdict.after(f"did you mean {alternatives(found)}?"))

    def _with_queues(self, story: Story, run: Run) -> StoryVerdict:
        """Add to the verdict on a run that no worker takes the queues that have workers: its own may be misspelt."""
        if not (heard := self._history.heard_queues()):
            return story.verdict
        if not (meant := similar(run.queue, heard)):
            return story.verdict.after(f"queues with workers: {some(sorted(heard))}")
        verdict = story.verdict.after(f"did you mean {meant}?")
        remedy = (
            f"zsched set ID --queue {quote(meant)} corrects a schedule, zsched cancel-run {run.id} takes it out; else"
        )
        return replace(verdict, remedy=f"{remedy} {verdict.remedy}")

    def _with_slots(self, story: Story, run: Run) -> StoryVerdict:
        """Add to the verdict on a run that waits for a slot of RQ's rate limit which run has one, and its remedy."""
        if not (holders := self._history.slot_holders(run)):
            return story.verdict
        stalled = self._history.stalled(holders)
        verdicts = [on_run(one, story.tz, stalled.get(one.queue)) for one in holders]
        told = "; ".join(one.text for one in verdicts)
        verdict = story.verdict.after(f"{'a slot has' if len(holders) == 1 else 'slots have'}: {told}")
        if verdict.word is not Word.NOT_RUN and RunId.ours(holders[0].id) is not None:
            return replace(verdict, remedy=verdicts[0].remedy, command=verdicts[0].command)
        return verdict

    def _with_host(self, story: Story, run: Run) -> StoryVerdict:
        """Name the host of the worker to whose code the remedy belongs, while RQ knows the worker."""
        verdict = story.verdict
        host = self._history.host_of(run.worker) if ITS_PLACE in verdict.remedy else None
        return verdict if host is None else replace(verdict, remedy=verdict.remedy.replace(ITS_PLACE, f"on {host}"))

    def _explained(self, story: Story, run: Run) -> StoryVerdict:
        """Add to the verdict on a run that expired why it had not begun: by the runs of its queue that did."""
        since_ms, until_ms = run.queued_ms or (run.fired_us or 0) // 1000, run.ended_ms or 0
        since, until = from_ms(max(since_ms - _BEFORE_MS, 0)), from_ms(until_ms)
        filters: SearchFilters = {"queue": run.queue, "since": since, "until": until}
        others = self.run_page(self.ended_or_open(None, None, _OTHERS, filters), None)
        begun = sum(
            one.started_ms is not None and since_ms <= one.started_ms <= until_ms for one in others if one.id != run.id
        )
        if begun:
            why = f"meanwhile {plural(begun, 'other run')} of queue {run.queue} began: its workers were busy"
        elif (heard := self._history.heard_queues()) is not None and run.queue not in heard:
            why = f"no run of queue {run.queue} began meanwhile; now {Stalled.UNHEARD.value[0].format(run.queue)}"
        else:
            why = f"no run of queue {run.queue} began meanwhile: no worker listened, or all were busy"
        return story.verdict.after(why)

    def get_run(self, run_id: str) -> tuple[Run, Source]:
        """See ``Past``."""
        parts = RunId.parse(run_id) if isinstance(run_id, str) else None
        id = check_id(run_id if parts is None else parts.schedule_id)
        chronicle = self._history.chronicle(id, _OF_A_RUN)
        known = [run for run in runs_of(chronicle.changes) if run.id == run_id]
        runs = self._history.updated(known) or ([] if parts is None else self._history.in_rq([run_id]))
        if not runs:
            problem = f"schedule {id!r} has no such run" if chronicle.changes else f"schedule {id!r} is not known"
            raise RunNotFound(f"no run {run_id!r}: {problem}", f"zsched history {id}")
        return runs[0], chronicle.source

    def page(self, wanted: Wanted, after: object) -> Results[Change]:
        """Return what a search finds from the cursor *after* on."""
        parts = list(self.parts(wanted, after))
        return Results((one for part in parts for one in part.occurrences), parts[-1].source, parts[-1].after)

    def run_page(self, wanted: Wanted, after: object) -> Results[Run]:
        """Return the runs among what a search finds from the cursor *after* on."""
        page = self.page(wanted, after)
        return Results((run for one in page if (run := one.named_run) is not None), page.source, page.after)

    def parts(self, wanted: Wanted, after: object = None) -> Iterator[HistoryPage]:
        """Yield the parts of a search from the cursor *after* on."""
        return self._history.search(wanted, _cursor(after))

    def counts(self, wanted: WantedCounts, filters: FacetFilters) -> tuple[dict[str, Any], Source]:
        """Return the *wanted* counts of what has *filters*, as ``archive.counts.counts_of``, and their source."""
        match, facets = _facets(filters)
        return self._history.counts(replace(wanted, match=match, facets=facets))

    @staticmethod
    def outcomes(
        id: str | None, status: object, limit: object, filters: SearchFilters, most: int | None = MOST_AT_ONCE
    ) -> Wanted:
        """Return the query of ``Past.history``; *most*: of its results; None: no bound. Raises InvalidSchedule."""
        wanted = status if isinstance(status, (list, tuple)) else [status]
        words = {what for what in OUTCOMES if status is None or what in wanted or what.value in wanted}
        statuses = {one for one in RunStatus if one in wanted or one.value in wanted}
        if not words and not statuses:
            names = ", ".join(dict.fromkeys(one.value for one in (*OUTCOMES, *RunStatus)))
            raise InvalidSchedule("status", status, "not an outcome of an occurrence or run", f"give one of {names}")
        return _wanted(words, statuses, _checked(limit, most), id, filters)

    @staticmethod
    def ended_or_open(
        id: str | None, status: object, limit: object, filters: SearchFilters, most: int | None = MOST_AT_ONCE
    ) -> Wanted:
        """Return the query of ``Past.runs``; *most* as in ``outcomes``. Raises InvalidSchedule."""
        statuses = RunStatus if status is None else (choice("status", status, RunStatus),)
        return _wanted((), statuses, _checked(limit, most), id, filters)

    def log(self, since: datetime | None = None, *, limit: int = 50) -> tuple[Iterator[Entry], Source]:
        """See ``Past``."""
        _checked(limit, 50_000)
        return self._history.entries(None if since is None else instant_ms("since", since, None) * 1000, limit)


# What is added to the verdict of a story, and on which run: by the run and its queues without a worker.
_Hint = tuple[Callable[[Run, Mapping[str, Stalled]], Any], Callable[[Answers, Story, Run], StoryVerdict]]
_SLOTS: Final[_Hint] = (lambda run, _: run.limit, Answers._with_slots)
_HINTS: Final[dict[Word, tuple[_Hint, ...]]] = {
    Word.NOT_RUN: ((lambda run, stalled: stalled.get(run.queue) is Stalled.UNHEARD, Answers._with_queues), _SLOTS),
    Word.QUEUED: (_SLOTS,),
    Word.SKIPPED: (_SLOTS,),
    Word.FAILED: ((lambda run, _: run.status is RunStatus.FAILED and run.worker, Answers._with_host),),
    Word.EXPIRED: ((lambda run, _: run.status is RunStatus.EXPIRED and run.queue, Answers._explained),),
}


def _wanted(
    whats: Iterable[What], statuses: Iterable[RunStatus], limit: int, id: str | None, filters: SearchFilters
) -> Wanted:
    """Return the query. Raises InvalidSchedule."""
    match, facets = _facets(filters)
    times = ((name, filters.get(name)) for name in ("since", "until"))
    since_us, until_us = (None if at is None else instant_ms(name, at, None) * 1000 for name, at in times)
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise InvalidSchedule("until", filters.get("until"), "not later than since", "give a later time")
    known = None if id is None else check_id(id)
    return Wanted(frozenset(whats), frozenset(statuses), limit, known, match, facets, since_us, until_us)


def _facets(filters: Mapping[str, Any]) -> tuple[str | None, Facets]:
    """Return the checked filters of ids, and of the rest. Raises InvalidSchedule."""
    names = ("match", "func", "queue", "tag", "owner", "name")
    match, func, queue, tag, owner, named = (check_filter(name, filters.get(name)) for name in names)
    return match, Facets(func or "", queue or "", owner or "", (tag,) if tag else (), named or "")


def _cursor(after: object) -> str | None:
    """Return the checked cursor. Raises InvalidSchedule."""
    try:
        return None if after is None else str(SearchCursor.parse(after if isinstance(after, str) else ""))
    except ValueError:
        remedy = "give the cursor of a result, or the page's after"
        raise InvalidSchedule("after", after, "not a cursor of a search", remedy) from None


def _checked(limit: object, most: int | None) -> int:
    """Return *limit*, which may be None if *most* is. Raises InvalidSchedule."""
    if limit is None and most is None:
        return _ENDLESS
    return check_number("limit", limit, most or _ENDLESS, "results")
