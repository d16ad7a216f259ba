"""
The part of the client that changes existing schedules (cancel, pause, resume, release, run now, backfill) and runs
(retry, cancel).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from zsched.client.calls import naming_lost_call, new_id
from zsched.client.past import Past
from zsched.core.options.arguments import check_id, check_run_id, check_text, check_version, choice, flag
from zsched.core.options.choices import Missed

if TYPE_CHECKING:
    from zsched.core.model import Schedule
    from zsched.core.occurrences.backfill import Backfill
    from zsched.storage.reader import StoredSchedule


class Lives(Past):
    """The calls of ``Client`` that change existing schedules and runs."""

    # -- life cycle ---------------------------------------------------------------------------------

    def cancel(self, id: str, *, if_version: str | None = None) -> str:
        """
        Cancel a schedule. Return "cancelled", "already_fired" or "not_found".

        "already_fired": a one-shot whose run was pushed, by the newest part of the log (2,000 entries, 4 MiB).
        "not_found": no such schedule waits. It may have been cancelled or skipped, may have expired, or have fired
        before that part of the log; ``why`` tells. Raises VersionConflict: it does not have the version *if_version*.
        """
        check_id(id)
        with naming_lost_call(id):
            word = self._changing.cancel([id], check_version(if_version))[id].demand().word
            return "already_fired" if word == "not_found" and self._reader.has_fired(id) else word

    def pause(self, id: str, note: str = "", *, if_version: str | None = None) -> Schedule:
        """
        Stop a schedule until it is resumed; *note* is the reason.

        Raises:
            ScheduleNotFound, InvalidSchedule: no such schedule, or it ended or is quarantined.
            VersionConflict: it does not have the version *if_version*.
        """
        check_text("note", note)
        with naming_lost_call(check_id(id)):
            self._changing.pause([id], note, check_version(if_version))[id].demand()
        return self.get(id)

    def resume(self, id: str, missed: str | Missed = Missed.FIRE, *, if_version: str | None = None) -> Schedule | None:
        """
        Resume a paused schedule. With ``fire``, a missed occurrence fires late: the latest one of a recurring schedule,
        and the others are coalesced. With ``skip``, missed occurrences are recorded as skipped. None: it was a one-shot
        past its time. With ``fire`` it fires at once, with ``skip`` it has ended.

        Raises:
            ScheduleNotFound, InvalidSchedule: no such schedule, or it ended or is quarantined.
            VersionConflict: it does not have the version *if_version*.
        """
        return self._resumed(id, missed, if_version, "paused")

    def release(self, id: str, missed: str | Missed = Missed.FIRE, *, if_version: str | None = None) -> Schedule | None:
        """
        Put a quarantined schedule back, once what was in its way is gone: it fires as ``resume`` does, and by its own
        ``catch_up`` and ``expires_after``. It is quarantined again if it still cannot be planned or pushed. A daemon
        does this itself when it finds that a cause is gone, or that its archive has what Redis lost.

        Raises:
            ScheduleNotFound, InvalidSchedule: no such schedule, or it ended, or what it needs is gone from Redis.
            VersionConflict: it does not have the version *if_version*.
        """
        return self._resumed(id, missed, if_version, "quarantine")

    def _resumed(self, id: str, missed: str | Missed, if_version: str | None, place: str) -> Schedule | None:
        mode = choice("missed", missed, Missed)
        with naming_lost_call(check_id(id)):
            self._changing.resume([id], mode, check_version(if_version), place)[id].demand()
        found = self._reader.find(id)
        return found.schedule if found else None

    def run_now(self, id: str, if_version: str | None = None) -> str:
        """
        Push a run at once and return its run id. A one-shot runs now instead of at its time; a recurring
        schedule gets an extra run. A client with keys signs a signed one-shot again for it. Raises ScheduleNotFound,
        InvalidSchedule, VersionConflict; Contended: another writer changed it at every attempt.
        """
        with naming_lost_call(check_id(id), is_repeatable=False):
            word, run_id = self._store.run_now(id, new_id(), check_version(if_version))
            if word == "SIGNED":
                answer = self._updating.run_now(id, if_version)
                word, run_id = answer.word, answer.detail
        self._store.demand(word, id, if_version=if_version)
        return run_id or ""

    # -- runs ---------------------------------------------------------------------------------------

    def retry(self, run_id: str) -> str:
        """
        Run a finished run once more, whatever its end was, and return the new run id. The new run belongs to the same
        occurrence, and has the same call, options and number of retries. A client with keys signs it if the run itself
        was signed. If RQ has forgotten
        the run, an archive supplies it. ``meta`` is taken from the job, so it includes the task's changes.

        Raises:
            RunNotFound: neither RQ nor an archive knows it.
            RunNotOver: it is queued or running, or has not fired.
            PayloadGone: its arguments are kept nowhere.
            RedisRefused: another writer changed its job.
        """
        with naming_lost_call(run_id, is_repeatable=False):
            return self._reruns.retry([check_run_id(run_id)])[run_id].demand().detail

    def cancel_run(self, run_id: str) -> str:
        """
        Cancel a queued run, or stop a running one. Return "cancelled" (it was queued, and its end is recorded),
        "stopping" (its worker was asked to stop, and the end is recorded later; RQ's SimpleWorker ignores this) or
        "already_over". A queue of more than 50,000 jobs is not searched: the job loses its data, and a worker skips it.

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
        Run the occurrences of a recurring schedule in [*start*, *end*) that did not run. They go to the back of its
        queue, the oldest first. Naive times are local in the schedule's zone. The runs have the usual ids. Occurrences
        that were pushed already are left out; with *again*, they get an extra run unless their run is still open.
        *dry_run* only returns the plan. *on_progress* is called with the number of occurrences done, and the total.
        Repeating the call continues where an interrupted one stopped.

        The occurrences are computed from the present rule, up to the next occurrence. Overlap and catch_up do not apply
        here. A paused or ended schedule can be backfilled. Its next occurrence and its last run do not change.

        Raises:
            ScheduleNotFound: no schedule has this id.
            InvalidSchedule: it is not recurring, or quarantined; *start* or *end* is invalid, or in the future; more
                than 100,000 occurrences.
            ArchiveError: the history does not reach back to *start* (not with *again*).
            Contended: another writer changed it at every attempt.
            RedisUnavailable, RedisRefused: Redis was not reached, or refused. Runs that were pushed until then stay.
        """
        from zsched.client.backfill import Filling  # it reads the past, which other calls need not wait for

        filling = Filling(self._link, self._store, self._inquiry, self._found, check_id(id), flag("again", again))
        return filling.fill(start, end, flag("dry_run", dry_run), on_progress or (lambda done, total: None))

    def _found(self, id: str) -> StoredSchedule:
        """Return one schedule. Raises ScheduleNotFound, also if it is beyond the limits of the caller."""
        found = self._changing.find(id)
        if self._limits is not None and self._limits.refusal(found.schedule.limited_by) is not None:
            self._store.demand("NOTFOUND", id)
        return found

    # -- reading ------------------------------------------------------------------------------------

    def get(self, id: str) -> Schedule:
        """Return one schedule. Raises ScheduleNotFound."""
        return self._changing.find(check_id(id)).schedule

    def get_many(self, ids: Iterable[str]) -> Iterator[Schedule]:
        """Yield those of the schedules *ids* that exist, in the order of *ids*; read page by page."""
        return self._reader.schedules(map(check_id, ids))
