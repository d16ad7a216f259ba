"""
The part of the client that changes many schedules or runs, chosen by filters.

``portions`` finds and changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

from zsched.client.lives import Lives
from zsched.core.options.arguments import ScheduleFilters, SearchFilters, check_text, choice
from zsched.core.options.choices import Missed, ScheduleState

if TYPE_CHECKING:
    from zsched.core.repair import Repaired
    from zsched.core.runs.run import RunStatus


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
    """Filters of schedules, as in ``Client.list``, and options."""


class RunRepair(RepairOptions, SearchFilters, total=False):
    """Filters of runs, as in ``Client.runs``, and options."""


class Repairs(Lives):
    """
    The calls of ``Client`` that change many schedules or runs, chosen by filters; at least one is needed.

    The candidates are found first, and do not change any more. They are changed in portions, each in one step with one
    log entry, at a rate. A candidate that is refused does not stop the others. After an interruption, the same call
    continues: a candidate that is done already is skipped, or is found no more.

    Raises:
        InvalidSchedule: an option is invalid, or there is no filter.
        RedisUnavailable, RedisRefused: Redis was not reached, or refused. Changes made until then stay.
        ArchiveError: the archive stopped to answer while runs were searched; nothing was changed.
    """

    def retry_many(self, status: str | RunStatus, **given: Unpack[RunRepair]) -> Repaired:
        """
        Retry the runs that ended as *status* (failed, lost, expired, cancelled or refused), the oldest first; default:
        200 a second. A run that was retried before is left out, also if somebody else did it, and a run that succeeded
        since, because it was requeued in RQ; ``retry`` of one run takes it any number of times. A retry that failed
        again is a new failed run: ``until`` leaves it out. Raises as ``Repairs``.
        """
        return self._portions.retry(status, dict(given))

    def cancel_runs(self, status: str | RunStatus = "queued", **given: Unpack[RunRepair]) -> Repaired:
        """
        Cancel the queued runs, or stop the "running" ones, the oldest first; as ``cancel_run`` does. Raises as
        ``Repairs``.
        """
        return self._portions.cancel_runs(status, dict(given))

    def cancel_many(self, **given: Unpack[ScheduleRepair]) -> Repaired:
        """Cancel schedules. A schedule that fired meanwhile is skipped; its run stays. Raises as ``Repairs``."""
        return self._portions.change(self._changing.cancel, dict(given))

    def pause_many(self, note: str = "", **given: Unpack[ScheduleRepair]) -> Repaired:
        """Pause active schedules; *note* is the reason. Raises as ``Repairs``."""
        check_text("note", note)
        act = partial(self._changing.pause, note=note)
        return self._portions.change(act, dict(given), state=ScheduleState.ACTIVE)

    def resume_many(self, missed: str | Missed = Missed.FIRE, **given: Unpack[ScheduleRepair]) -> Repaired:
        """Resume paused schedules, as ``resume`` does; default: 200 a second. Raises as ``Repairs``."""
        act = partial(self._changing.resume, missed=choice("missed", missed, Missed))
        return self._portions.change(act, dict(given), is_pushing=True, state=ScheduleState.PAUSED)

    def release_many(self, missed: str | Missed = Missed.FIRE, **given: Unpack[ScheduleRepair]) -> Repaired:
        """Put quarantined schedules back, as ``release`` does; default: 200 a second. Raises as ``Repairs``."""
        act = partial(self._changing.resume, missed=choice("missed", missed, Missed), place="quarantine")
        return self._portions.change(act, dict(given), is_pushing=True, state=ScheduleState.QUARANTINED)
