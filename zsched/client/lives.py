"""
The part of the client that changes what is there: a schedule's life (cancel, pause, resume, run now) and a run's
(retry, cancel); and what runs late on request (backfill).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from zsched.client.backfill import Filling
from zsched.client.calls import naming_lost_call, new_id
from zsched.client.past import Past
from zsched.core import planning
from zsched.core.arguments import check_id, check_text, choice, flag
from zsched.core.backfill import Backfill
from zsched.core.model import Missed, Schedule
from zsched.errors import RedisUnavailable
from zsched.storage.inquiry import Inquiry
from zsched.storage.reader import Reader, StoredSchedule
from zsched.storage.reruns import Reruns
from zsched.storage.store import Answer, Store

REPLANS = 5  # times that a plan may miss the server's time before the call gives up


class Lives(Past):
    """The calls of ``Client`` that change existing schedules and runs."""

    def __init__(self, store: Store, reader: Reader, inquiry: Inquiry, reruns: Reruns) -> None:
        super().__init__(reader, inquiry)
        self._store, self._reruns = store, reruns

    # -- life cycle ---------------------------------------------------------------------------------

    def cancel(self, id: str) -> str:
        """
        Forget a schedule: "cancelled", "already_fired" (its run stands in the newest part of the log: 2,000 entries,
        4 MiB) or "not_found" (no schedule and no such run; ``why`` asks the archives, which know older ones too).
        """
        check_id(id)
        with naming_lost_call(id):
            if self._store.cancel(id, op=new_id()).word == "cancelled":
                return "cancelled"
            return "already_fired" if self._reader.has_fired(id) else "not_found"

    def pause(self, id: str, note: str = "") -> Schedule:
        """Stop a schedule until it is resumed; *note* says why. Raises ScheduleNotFound, InvalidSchedule."""
        check_text("note", note)
        with naming_lost_call(check_id(id)):
            self._store.demand(self._store.pause(id, note).word, id)
        return self.get(id)

    def resume(self, id: str, missed: str | Missed = Missed.FIRE) -> Schedule | None:
        """
        Go on with a paused schedule. What passed meanwhile fires late (``fire``: the latest of a recurring
        one, the others coalesced) or is recorded as skipped (``skip``; a one-shot is then gone: None).

        Raises:
            ScheduleNotFound, InvalidSchedule: no such schedule, or it ended or is quarantined.
        """
        mode = choice("missed", missed, Missed)
        with naming_lost_call(check_id(id)):
            answer = self._resume(id, mode)
        self._store.demand(answer.word, id)
        found = self._reader.find(id)
        return found.schedule if found else None

    def run_now(self, id: str) -> str:
        """
        Push a run at once and return its run id. A one-shot runs now instead of at its time; a recurring
        schedule gets an extra run. Raises ScheduleNotFound, InvalidSchedule.
        """
        with naming_lost_call(check_id(id), is_repeatable=False):
            answer = self._store.run_now(id, op=new_id())
        self._store.demand(answer.word, id)
        return answer.detail or ""

    # -- runs ---------------------------------------------------------------------------------------

    def retry(self, run_id: str) -> str:
        """
        Run once more what is over (succeeded, failed, cancelled, lost, expired): an extra run of the same occurrence,
        with the same call and options and all of its retries; its run id. When RQ has forgotten the run an archive is
        asked what it was. Of ``meta`` what the job has counts, so perhaps what the task made of it.

        Raises:
            RunNotFound: neither RQ nor an archive knows it. RunNotOver: it is queued or running, or has not fired.
            PayloadGone: its arguments are kept nowhere. RedisRefused: another writer changed its job.
        """
        with naming_lost_call(run_id, is_repeatable=False):
            return self._reruns.retry(run_id, op=new_id())

    def cancel_run(self, run_id: str) -> str:
        """
        Keep a run from running, or stop it: "cancelled" (it waited, and its end is recorded), "stopping" (its worker
        was told, and what becomes of it is recorded when it ends; RQ's SimpleWorker ignores this) or "already_over".
        In a queue of more than 50,000 it is not looked for: it loses its arguments there, and a worker passes it over.

        Raises:
            RunNotFound. RunNotOver: it has not fired (``cancel`` its schedule), or its worker does not listen.
            RedisRefused: another writer changed its job.
        """
        with naming_lost_call(run_id):
            return self._reruns.cancel(run_id, op=new_id())

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
        Run what a recurring schedule did not run in [*start*, *end*), the oldest first, at the back of its queue;
        naive times are local in the schedule's zone. The runs have the ids that their occurrences would have had, and
        what was pushed already is left out, unless *again* asks for an extra run of it (not of what is still open).
        *dry_run* only says what would be done. *on_progress* is called with how many occurrences are done, and of how
        many. The same call again goes on where a broken one stopped.

        The occurrences are those of the rule as it is now, up to the next one. Overlap and catch_up do not matter
        here; a paused or ended schedule can be backfilled. Its next occurrence and its last run stay as they are.

        Raises:
            ScheduleNotFound. InvalidSchedule: it is not recurring, or quarantined; *start* or *end* is bad, or in the
            future; more than 100,000 occurrences. ArchiveError: what ran before some time is not known, without
            *again*. Contended: others changed it again and again. RedisUnavailable, RedisRefused. What was pushed until
            then stays.
        """
        filling = Filling(self._store, self._inquiry, self._find, check_id(id), flag("again", again))
        return filling.fill(start, end, flag("dry_run", dry_run), on_progress or (lambda done, total: None))

    # -- reading ------------------------------------------------------------------------------------

    def get(self, id: str) -> Schedule:
        """One schedule. Raises ScheduleNotFound."""
        return self._find(check_id(id)).schedule

    # -- how ----------------------------------------------------------------------------------------

    def _resume(self, id: str, missed: Missed) -> Answer:
        op = new_id()
        answer = self._store.resume(id, op, missed)
        for _ in range(REPLANS):
            if answer.word != "AGAIN":
                return answer
            old = self._find(id).schedule
            if old.trigger is None or old.nominal_ms is None or old.anchor_ms is None:
                answer = self._store.resume(id, op, missed)  # replaced meanwhile
                continue
            passed, plan = planning.after_missed(old.trigger, old.anchor_ms, old.nominal_ms, answer.now_ms, id)
            answer = self._store.resume(id, op, missed, old.next_ms, old.version or "", passed, plan)
        if answer.word != "AGAIN":
            return answer
        raise RedisUnavailable(
            f"schedule {id!r} could not be planned in time for the server; resume it with missed=fire"
        )

    def _find(self, id: str) -> StoredSchedule:
        with naming_lost_call(id):
            found = self._reader.find(id)
        if found is None:
            self._store.demand("NOTFOUND", id)
        assert found is not None
        return found
