"""
The part of the client about existing schedules and runs: read them, and change one, or many chosen by filters.

``store`` and ``reruns`` change them, ``bulk`` changes many, ``reader`` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

from zsched.client.calls import naming_lost_call
from zsched.client.named_texts import NamedTextCalls
from zsched.core.clock import Clock, from_ms
from zsched.core.options.arguments import (
    ScheduleFilters,
    SearchFilters,
    check_id,
    check_number,
    check_run_id,
    check_text,
    check_version,
    choice,
    flag,
)
from zsched.core.options.choices import Missed, ScheduleState
from zsched.errors import InvalidSchedule
from zsched.storage.refusals import demand, not_found

if TYPE_CHECKING:
    from zsched.client.bulk import BulkChanges
    from zsched.client.updating import Updating
    from zsched.core.model import Schedule
    from zsched.core.occurrences.backfill import Backfill
    from zsched.core.occurrences.changes import Change
    from zsched.core.occurrences.recent import RecentActivity
    from zsched.core.options.table import RuleOptions
    from zsched.core.repair import Repaired
    from zsched.core.runs.run import RunStatus
    from zsched.storage.overview import Overview
    from zsched.storage.reruns import Reruns


class RepairOptions(TypedDict, total=False):
    """
    Options of a repair in bulk. *dry_run*: change nothing, and return the plan. *limit*: only the first so many.
    *per_second*: at most so many changes a second. *confirm* is called with the plan before the first change; unless it
    returns True, nothing is changed. *on_progress* is called with the number of candidates done, and their total.
    """

    dry_run: bool
    limit: int | None
    per_second: int | None
    confirm: Callable[[Repaired], bool] | None
    on_progress: Callable[[int, int], None] | None


class ScheduleRepair(RepairOptions, ScheduleFilters, total=False):
    """Filters of schedules, as in ``Client.list``, or their *ids*, whatever their state; and options."""

    ids: Iterable[str] | None


class RunRepair(RepairOptions, SearchFilters, total=False):
    """
    Filters of runs, as in ``Client.runs``, or their *ids*, whatever their status; and options. *only*: the condition of
    each run that the filters find.
    """

    ids: Iterable[str] | None
    only: Callable[[Change], bool] | None


class Schedules(NamedTextCalls):
    """The calls of ``Client`` about existing schedules and runs."""

    _bulk: BulkChanges
    _clock: Clock
    _reruns: Reruns
    _updating: Updating

    # -- life cycle ---------------------------------------------------------------------------------

    def cancel(self, id: str, *, if_version: str | None = None) -> str:
        """
        Cancel a schedule. Return "cancelled", "already_fired" (a one-shot whose run was pushed, by the newest part of
        the log: 2,000 entries, 4 MiB) or "not_found": ``why`` tells what became of it.
        """
        check_id(id)
        with naming_lost_call(id):
            word = self._store.cancel([id], check_version(if_version))[id].demand().word
            return "already_fired" if word == "not_found" and self._reader.has_fired(id) else word

    def pause(
        self, id: str, note: str = "", *, until: datetime | None = None, if_version: str | None = None
    ) -> Schedule:
        """
        Stop a schedule until it is resumed; *note* is the reason. The leader resumes it at *until*, local in its zone
        without an offset, as ``resume`` does with "skip".

        Raises:
            ScheduleNotFound, InvalidSchedule: no such schedule, or it ended or is quarantined.
            VersionConflict: it does not have the version *if_version*.
        """
        check_text("note", note)
        with naming_lost_call(check_id(id)):
            tz = self._reader.get(id).tz if isinstance(until, datetime) and until.utcoffset() is None else None
            self._store.pause([id], note, _until_ms(until, tz), check_version(if_version))[id].demand()
        return self.get(id)

    def resume(self, id: str, missed: str | Missed = Missed.FIRE, *, if_version: str | None = None) -> Schedule | None:
        """
        Resume a paused schedule. *missed*: with "fire" the latest missed occurrence fires late, and the others are
        coalesced; with "skip" they are recorded as skipped. None: it was a one-shot past its time, which has fired, or
        ended.

        Raises:
            ScheduleNotFound, InvalidSchedule: no such schedule, or it ended or is quarantined.
            VersionConflict: it does not have the version *if_version*.
        """
        return self._resumed(id, missed, if_version, "paused")

    def release(self, id: str, missed: str | Missed = Missed.FIRE, *, if_version: str | None = None) -> Schedule | None:
        """
        Release a quarantined schedule, once its cause is gone, as a daemon does by itself. It fires as
        ``resume`` does, by its own ``catch_up`` and ``expires_after``.

        Raises:
            ScheduleNotFound, InvalidSchedule: no such schedule, or it ended, or what it needs is gone from Redis.
            VersionConflict: it does not have the version *if_version*.
        """
        return self._resumed(id, missed, if_version, "quarantine")

    def _resumed(self, id: str, missed: str | Missed, if_version: str | None, place: str) -> Schedule | None:
        mode = choice("missed", missed, Missed)
        with naming_lost_call(check_id(id)):
            self._store.resume([id], mode, check_version(if_version), place)[id].demand()
        return self._reader.find(id)

    def skip(
        self, id: str, at: datetime | None = None, *, next: int = 1, note: str = "", if_version: str | None = None
    ) -> Schedule:
        """
        Leave out the occurrence *at* of a recurring schedule, local in its zone without an offset, or its *next* ones:
        100 at most. *note* is the reason. They are recorded as skipped by hand. ``Schedule.skipped`` has them until
        then.

        Raises:
            ScheduleNotFound, InvalidSchedule: no such schedule; it is a one-shot, ended or quarantined; no such
                occurrence is to come.
            VersionConflict: it does not have the version *if_version*.
            Contended: another writer changed it at every attempt.
        """
        check_number("next", next, 100, "occurrences")
        return self._skipped(id, at, next, note, if_version, takes_back=False)

    def unskip(self, id: str, at: datetime | None = None, *, note: str = "", if_version: str | None = None) -> Schedule:
        """Take back the skip of the occurrence *at*, or all skips of occurrences to come. Raises as ``skip``."""
        return self._skipped(id, at, 0, note, if_version, takes_back=True)

    def _skipped(
        self, id: str, at: datetime | None, number: int, note: str, if_version: str | None, *, takes_back: bool
    ) -> Schedule:
        check_text("note", note)
        with naming_lost_call(check_id(id), is_repeatable=takes_back or at is not None):
            self._store.skip(id, at, number, note, check_version(if_version), takes_back=takes_back)
        return self.get(id)

    def run_now(self, id: str, if_version: str | None = None) -> str:
        """
        Push a run at once and return its run id. A one-shot runs now instead of at its time; a recurring schedule gets
        an extra run. A client with keys signs a signed one-shot again for it. Raises InvalidSchedule.

        Raises:
            ScheduleNotFound: no such schedule.
            VersionConflict: it does not have the version *if_version*.
            Contended: another writer changed it at every attempt.
        """
        return self._run_now_as(None, id, if_version)

    def _run_now_as(self, op: str | None, id: str, if_version: str | None = None) -> str:
        """``run_now`` as the operation *op*: for ten minutes another call of the same operation does nothing."""
        with naming_lost_call(check_id(id), is_repeatable=op is not None):
            word, run_id = self._store.run_now(id, check_version(if_version), op)
            if word == "SIGNED":
                answer = self._updating.run_now(id, if_version)
                word, run_id = answer.word, answer.detail
        demand(word, id, self._keys, if_version=if_version)
        return run_id or ""

    # -- runs ---------------------------------------------------------------------------------------

    def retry(self, run_id: str) -> str:
        """
        Run a finished run once more, whatever its end, and return the new run id. The new run has the same occurrence,
        call, options and number of retries; ``meta`` includes the task's changes. It is signed if the run was. A run
        that RQ has forgotten comes from an archive.

        Raises:
            RunNotFound: neither RQ nor an archive knows it.
            RunNotOver: it is queued or running, or has not fired.
            PayloadGone: its arguments are no longer stored.
            RedisRefused: another writer changed its job.
        """
        return self._retry_as(None, run_id)

    def _retry_as(self, op: str | None, run_id: str) -> str:
        """``retry`` as the operation *op*."""
        with naming_lost_call(run_id, is_repeatable=op is not None):
            return self._reruns.retry([check_run_id(run_id)], op=op)[run_id].demand().detail

    def cancel_run(self, run_id: str) -> str:
        """
        Cancel a queued run, or stop a running one. Return "cancelled" (it was queued), "stopping" (its worker was
        asked; RQ's SimpleWorker ignores this) or "already_over". Behind the first 50,000 jobs of a queue, the job loses
        its data, and a worker skips it.

        Raises:
            RunNotFound: no run has this id.
            RunNotOver: it has not fired (``cancel`` its schedule), or its worker does not listen.
            RedisRefused: another writer changed its job.
        """
        with naming_lost_call(run_id):
            return self._reruns.cancel([check_run_id(run_id)])[run_id].demand().word

    def backfill(
        self,
        id: str,
        start: datetime,
        end: datetime,
        *,
        dry_run: bool = False,
        again: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Backfill:
        """
        Run the occurrences of a recurring schedule in [*start*, *end*) that did not run: the oldest first, at the back
        of its queue, with their usual ids. Naive times are local in the schedule's zone. Occurrences that were pushed
        already are left out; with *again*, they get an extra run unless their run is open. *dry_run* only returns the
        plan. *on_progress* gets the number of occurrences done, and the total. Repeat an interrupted call to continue.

        Raises:
            ScheduleNotFound: no schedule has this id.
            InvalidSchedule: it is not recurring, or quarantined; *start* or *end* is invalid, or in the future; more
                than 100,000 occurrences.
            ArchiveError: the history does not reach back to *start* (not with *again*).
            Contended: another writer changed it at every attempt.
            RedisUnavailable, RedisRefused: runs that were pushed until then stay.
        """
        from zsched.client.backfill import Backfiller  # it reads the past, which other calls need not wait for

        backfiller = Backfiller(self._link, self._store, self._history, self.get, check_id(id), flag("again", again))
        return backfiller.fill(start, end, flag("dry_run", dry_run), on_progress)

    # -- reading ------------------------------------------------------------------------------------

    def get(self, id: str) -> Schedule:
        """Return one schedule. Raises ScheduleNotFound, also if it is beyond the limits of the caller."""
        with naming_lost_call(check_id(id)):
            found = self._reader.get(id)
        if self._limits is not None and self._limits.refusal(found.limited_by) is not None:
            raise not_found(id, self._keys)
        return found

    def _get_many(self, ids: Iterable[str]) -> Iterator[Schedule]:
        """Yield the schedules of *ids* that exist, in the order of *ids*; read page by page."""
        return self._reader.schedules(map(check_id, ids))

    def list(
        self, *, limit: int | None = None, after: str | None = None, **filters: Unpack[ScheduleFilters]
    ) -> Iterator[Schedule]:
        """
        List schedules: active ones by due time, then paused, quarantined and ended ones by id; read page by page.

        *match* is a glob over ids; *owner* "": without an owner. *after* is the ``cursor`` of the last listed schedule.
        Raises InvalidSchedule at once for an invalid filter.
        """
        from zsched.core.listing import Filter, select

        return select(Filter.of(limit=limit, after=after, limits=self._limits, **filters), self._reader)

    def preview(
        self, /, id: str | None = None, *, n: int = 10, start: datetime | None = None, **trigger: Unpack[RuleOptions]
    ) -> Sequence[datetime]:
        """
        Return the due times of the next *n* occurrences, strictly after *start* (default: now), aware, in the
        schedule's zone: of a schedule's *id* (its jitter is applied), or of trigger options (every, cron, rrule, tz …).
        Options need Redis only if ``exclude`` names a calendar.

        Raises:
            InvalidSchedule: both or neither given, an invalid rule, or a rule with jitter, which depends on the id.
            ScheduleNotFound: no schedule has this id.
        """
        check_number("n", n, 100_000, "occurrences")
        if (id is None) == (not trigger):
            raise InvalidSchedule("id", id, "preview takes one schedule or one rule", "give an id, or trigger options")
        from zsched.client.preview import next_times
        from zsched.core.options.define import define_trigger
        from zsched.core.triggers.trigger import with_calendars

        schedule = None if id is None else self.get(id)
        rule = with_calendars(define_trigger(trigger), self._reader.calendars) if id is None else None
        return next_times(self._link, self._clock, schedule, rule, n, start)

    def _coming(self, schedule: Schedule, n: int) -> Sequence[datetime]:
        """
        Return the next *n* times of *schedule*, an overdue one included; only the first if this machine lacks its zone.
        A paused, quarantined or ended schedule has none.
        """
        from zsched.client.preview import next_times
        from zsched.core.triggers.zones import has_zone

        first_ms = schedule.next_ms if schedule.nominal_ms is None else schedule.nominal_ms
        if schedule.state is not ScheduleState.ACTIVE or first_ms is None:
            return []
        if schedule.trigger is not None and not has_zone(schedule.tz):
            return [from_ms(first_ms)]
        return next_times(self._link, self._clock, schedule, None, n, from_ms(max(first_ms - 1, 0)))

    def _overview(self) -> Overview:
        """Return counts, backlog and leader of the namespace at this moment, for ``zsched status``."""
        return self._reader.overview()

    def recent(self) -> RecentActivity:
        """
        Count the events of the last 1, 5 and 30 minutes, and list the latest failed runs that are not known, from
        the log in Redis.
        ``is_cut``: it took longer than a quarter of a second, so the last period is incomplete.
        """
        return self._reader.recent(self._clock)

    # -- many, chosen by filters ----------------------------------------------------------------------
    #
    # The candidates are found first, and do not change any more. They are changed in portions, each in one step with
    # one log entry, at a rate. A candidate that is refused does not stop the others. After an interruption, the same
    # call continues: a candidate that is done already is skipped, or is found no more.

    def retry_many(self, status: str | RunStatus, **given: Unpack[RunRepair]) -> Repaired:
        """
        Retry the runs that ended as *status* (failed, lost, expired, cancelled or refused), the oldest first; default:
        200 a second. Runs that were retried before, or succeeded since, are left out.

        Raises:
            InvalidSchedule: an option is invalid, or there is no filter.
            RedisUnavailable, RedisRefused: changes made until then stay.
            ArchiveError: the archive stopped to answer while runs were searched; nothing was changed.
        """
        return self._bulk.retry(status, dict(given))

    def cancel_runs(self, status: str | RunStatus = "queued", **given: Unpack[RunRepair]) -> Repaired:
        """
        Cancel the queued runs, or stop the "running" ones, the oldest first; as ``cancel_run`` does. Raises as
        ``retry_many``.
        """
        return self._bulk.cancel_runs(status, dict(given))

    def cancel_many(self, **given: Unpack[ScheduleRepair]) -> Repaired:
        """Cancel schedules. One that fired meanwhile is skipped; its run stays. Raises as ``retry_many``."""
        return self._bulk.change(self._store.cancel, dict(given))

    def pause_many(self, note: str = "", *, until: datetime | None = None, **given: Unpack[ScheduleRepair]) -> Repaired:
        """Pause active schedules, as ``pause`` does; *until* has an offset. Raises as ``retry_many``."""
        check_text("note", note)
        act = partial(self._store.pause, note=note, until_ms=_until_ms(until, None))
        return self._bulk.change(act, dict(given), state=ScheduleState.ACTIVE)

    def resume_many(self, missed: str | Missed = Missed.FIRE, **given: Unpack[ScheduleRepair]) -> Repaired:
        """Resume paused schedules, as ``resume`` does; default: 200 a second. Raises as ``retry_many``."""
        act = partial(self._store.resume, missed=choice("missed", missed, Missed))
        return self._bulk.change(act, dict(given), is_pushing=True, state=ScheduleState.PAUSED)

    def release_many(self, missed: str | Missed = Missed.FIRE, **given: Unpack[ScheduleRepair]) -> Repaired:
        """Release quarantined schedules, as ``release`` does; default: 200 a second. Raises as ``retry_many``."""
        act = partial(self._store.resume, missed=choice("missed", missed, Missed), place="quarantine")
        return self._bulk.change(act, dict(given), is_pushing=True, state=ScheduleState.QUARANTINED)


def _until_ms(until: datetime | None, tz: str | None) -> int | None:
    from zsched.core.triggers.zones import instant_ms

    return None if until is None else instant_ms("until", until, tz)
