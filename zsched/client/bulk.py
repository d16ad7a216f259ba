"""
Repairs in bulk: find the candidates, then change them portion by portion.

::

    filters ──► candidates: a list that stays ──► confirm ──► a portion ──► wait for the rate ──► … ──► Repaired
                                                                 └ one script, one log entry, an outcome for each

**Nothing is done twice.** A schedule that is cancelled, paused or resumed is no longer a candidate, or needs no change.
A run that was retried stays failed, so a retry is found in two ways. The history has it as ``retried``, with the id of
the run that it repeats; it is later than that run's end, so a source that has the end has the retry too. If another
source answers the second question, and begins later, runs that ended before are left out. And for a day Redis has a key
of the run (lua/retry.lua), which holds if two people give the same command at the same time, and if the archive is
late.

Not guaranteed: that the candidates have not changed since they were found. Each is judged once more in its portion. If
no archive answers, runs are searched in the log in Redis only; ``Repaired.source`` says so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from zsched.client.answers import Answers
from zsched.client.schedules import RepairOptions
from zsched.core.clock import SystemClock, from_ms
from zsched.core.listing import Filter, select
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.options.allowed import Limits
from zsched.core.options.arguments import SearchFilters, check_id, check_number, check_run_id, choice, flag
from zsched.core.pages import pages_of, unnoticed
from zsched.core.repair import AT_ONCE, CHANGED_PER_SECOND, PUSHED_PER_SECOND, SAMPLED, IdOutcome, Repaired
from zsched.core.runs.run import UNSUCCESSFUL, Run, RunStatus
from zsched.core.story.source import Source
from zsched.errors import InvalidSchedule, RedisUnavailable
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.reader import Reader
from zsched.storage.refusals import not_found
from zsched.storage.reruns import Reruns

_CANCELLED: Final = (RunStatus.QUEUED, RunStatus.RUNNING)
_FILTERS: Final = frozenset(SearchFilters.__annotations__)
_SKEW_MS: Final = 3_600_000  # by which a worker's clock, which ended a run, may be ahead of the server's

Act = Callable[..., Mapping[str, IdOutcome]]  # changes some candidates in one step: their ids, and an if_version


def _take_options(given: dict[str, Any]) -> RepairOptions:
    """Take the options of a repair out of *given*; the filters are left. Raises InvalidSchedule."""
    options: Any = {name: given.pop(name, None) for name in RepairOptions.__annotations__ if name in given}
    flag("dry_run", options.get("dry_run", False))
    for name in ("limit", "per_second"):
        if options.get(name) is not None:
            check_number(name, options[name], None, "changes")
    return cast("RepairOptions", options)


def _take_ids(given: dict[str, Any], check: Callable[[object], str]) -> list[str] | None:
    """Take the checked ids out of *given*; None: there are filters instead. Raises InvalidSchedule."""
    ids = given.pop("ids", None)
    if isinstance(ids, str) or (ids is not None and any(value is not None for value in given.values())):
        raise InvalidSchedule("ids", ids, "not a list of ids alone", "give a list without filters")
    return None if ids is None else [check(id) for id in ids]


class BulkChanges:
    """
    The changes of many schedules or runs by one client, found by filters or given by ids. With *limits*, schedules
    beyond them are left out, and each is changed as it was found: somebody may have moved it beyond them since.
    """

    def __init__(
        self, link: Link, keys: Keys, reader: Reader, reruns: Reruns, answers: Answers, limits: Limits | None
    ) -> None:
        self._link, self._keys, self._reader, self._reruns, self._answers = link, keys, reader, reruns, answers
        self._limits, self._clock = limits, SystemClock()

    def retry(self, status: object, given: dict[str, Any]) -> Repaired:
        """See ``Client.retry_many``."""
        wanted, options, source = _one_of(status, UNSUCCESSFUL), _take_options(given), None
        if (ids := _take_ids(given, check_run_id)) is None:
            runs, source = self._runs(wanted, given)
            retried = self._retried(runs, source, given.get("match"))
            ids = [run.id for run in runs if run.id not in retried]
        once = partial(self._reruns.retry, is_once=True)
        return self._carry_out(ids, once, options, PUSHED_PER_SECOND, source)

    def cancel_runs(self, status: object, given: dict[str, Any]) -> Repaired:
        """See ``Client.cancel_runs``."""
        wanted, options, source = _one_of(status, _CANCELLED), _take_options(given), None
        if (ids := _take_ids(given, check_run_id)) is None:
            demand_filter(given)
            runs, source = self._runs(wanted, given)
            ids = [run.id for run in runs]
        return self._carry_out(ids, self._reruns.cancel, options, CHANGED_PER_SECOND, source)

    def change(self, act: Act, given: dict[str, Any], *, is_pushing: bool = False, **usual: Any) -> Repaired:
        """Change schedules by *act*. *usual*: filters that hold unless others are given."""
        options, ids = _take_options(given), _take_ids(given, check_id)
        if ids is None:
            demand_filter(given)
            wanted = Filter.of(limit=options.get("limit"), limits=self._limits, **(usual | given))
            found = select(wanted, self._reader)
        else:
            found = filter(Filter(limits=self._limits).keeps, self._reader.schedules(ids))
        versions = {schedule.id: schedule.version for schedule in found}
        act = act if self._limits is None else partial(self._one_by_one, act, versions)
        per_second = PUSHED_PER_SECOND if is_pushing else CHANGED_PER_SECOND
        return self._carry_out(versions if ids is None else ids, act, options, per_second)

    # -- candidates -------------------------------------------------------------------------------

    def _runs(self, status: RunStatus, filters: dict[str, Any]) -> tuple[list[Run], Source]:
        """Return the runs in *status*, the oldest first, and their source."""
        only: Callable[[Change], bool] = filters.pop("only", None) or (lambda _: True)
        if unknown := filters.keys() - _FILTERS:
            raise TypeError(f"{', '.join(sorted(unknown))}: unknown filter of runs; give {', '.join(sorted(_FILTERS))}")
        wanted = self._answers.ended_or_open(None, status, None, cast("SearchFilters", filters), None)
        parts = list(self._answers.parts(wanted))
        runs = {one.run.id: one.run for part in parts for one in part.occurrences if one.run is not None and only(one)}
        return list(reversed(runs.values())), parts[0].source

    def _retried(self, runs: Sequence[Run], source: Source, match: str | None) -> set[str]:
        """
        Return the runs that were retried since the first of *runs*, found by *source*, ended. If the answer comes from
        a source that begins later, also those that may have been retried before that.
        """
        if not runs:
            return set()
        ended_ms = [run.ended_ms for run in runs if run.ended_ms is not None]
        since = from_ms(max(min(ended_ms) - _SKEW_MS, 0)) if len(ended_ms) == len(runs) else None
        wanted = self._answers.outcomes(None, What.RETRIED, None, {"match": match, "since": since}, None)
        parts = list(self._answers.parts(wanted))
        retried = {one.why for part in parts for one in part.occurrences}
        whole_since_us = parts[0].source.whole_since_us
        if whole_since_us > source.whole_since_us:
            retried |= {run.id for run in runs if ((run.ended_ms or 0) - _SKEW_MS) * 1000 < whole_since_us}
        return retried

    # -- changes ----------------------------------------------------------------------------------

    def _carry_out(
        self, ids: Iterable[str], act: Act, options: RepairOptions, per_second: int, source: Source | None = None
    ) -> Repaired:
        candidates = list(dict.fromkeys(ids))[: options.get("limit")]
        plan = Repaired(len(candidates), tuple(candidates[:SAMPLED]), source=source, is_dry_run=True)
        confirm, on_progress = options.get("confirm"), options.get("on_progress") or unnoticed
        if options.get("dry_run") or (candidates and confirm is not None and not confirm(plan)):
            return plan
        result, per_second = replace(plan, is_dry_run=False), options.get("per_second") or per_second
        on_progress(0, result.found)
        began_ms = self._clock.monotonic_ms()
        for some in pages_of(candidates, max(1, min(AT_ONCE, per_second // 4))):  # four steps a second, or one
            due_ms = began_ms + result.done * 1000 / per_second
            self._link.pause(max(due_ms - self._clock.monotonic_ms(), 0) / 1000)
            try:
                result = result.with_outcomes(act(some))
            except RedisUnavailable as error:
                done_before = f"{result.number:,} of {result.found:,} were done before; repeating the call continues"
                raise error.but(f"{error.problem} ({done_before})") from error
            on_progress(result.number, result.found)
        return result

    def _one_by_one(self, act: Act, versions: Mapping[str, str | None], ids: Sequence[str]) -> dict[str, IdOutcome]:
        """Do *act* with each of *ids*, if it has the version that was found; ids that were not found are refused."""
        return {
            id: act([id], if_version=versions[id])[id] if id in versions
            else IdOutcome("", error=not_found(id, self._keys))
            for id in ids
        }  # fmt: skip


def demand_filter(filters: Mapping[str, Any]) -> None:
    """Check that there is a filter: no change of everything by accident. Raises InvalidSchedule."""
    if all(value is None for value in filters.values()):
        raise InvalidSchedule("match", None, "no filter is given", 'give one, or match="*" for all')


def _one_of(status: object, statuses: Sequence[RunStatus]) -> RunStatus:
    if (found := choice("status", status, RunStatus)) not in statuses:
        names = ", ".join(one.value for one in statuses)
        raise InvalidSchedule("status", found.value, "not a status for this call", f"give one of {names}")
    return found
