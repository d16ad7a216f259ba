"""Changes of existing schedules, many in a step: cancel, pause, resume, release; a word for each, maybe a refusal."""

from __future__ import annotations

from collections.abc import Sequence

from zsched.client.calls import naming_lost_call, new_id
from zsched.client.first_times import REPLANS
from zsched.core.model import Schedule
from zsched.core.occurrences import planning
from zsched.core.options.choices import Missed
from zsched.core.repair import IdOutcome
from zsched.errors import RedisUnavailable, TriggerError
from zsched.storage.reader import Reader, StoredSchedule
from zsched.storage.refusals import refusal
from zsched.storage.store import SkipPlan, Store


class Changing:
    """Changes schedules by *store*, and reads them by *reader*. Raises RedisUnavailable, RedisRefused."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store, self._reader = store, reader

    def find(self, id: str) -> StoredSchedule:
        """Return one schedule. Raises ScheduleNotFound."""
        with naming_lost_call(id):
            found = self._reader.find(id)
        if found is None:
            self._store.demand("NOTFOUND", id)
        assert found is not None
        return found

    def cancel(self, ids: Sequence[str], if_version: str | None = None) -> dict[str, IdOutcome]:
        """Cancel schedules: cancelled or not_found."""
        words = zip(ids, self._store.cancel(ids, new_id(), if_version), strict=True)
        return {
            id: IdOutcome("not_found") if word == "NOTFOUND" else self._outcome(id, word, if_version)
            for id, word in words
        }

    def pause(self, ids: Sequence[str], note: str, if_version: str | None = None) -> dict[str, IdOutcome]:
        """Pause schedules: paused or unchanged."""
        words = zip(ids, self._store.pause(ids, note, new_id(), if_version), strict=True)
        return {id: self._outcome(id, word, if_version) for id, word in words}

    def resume(
        self, ids: Sequence[str], missed: Missed, if_version: str | None = None, place: str = "paused"
    ) -> dict[str, IdOutcome]:
        """
        Resume schedules in a step: those in *place*, paused or quarantine. Those that skip occurrences of a rule are
        planned, and resumed in another.
        """
        outcomes: dict[str, IdOutcome] = {}
        plans: dict[str, SkipPlan | None] = dict.fromkeys(ids)
        again: list[str] = []
        for _ in range(1 + REPLANS):
            now_ms, words = self._store.resume(plans, new_id(), missed, if_version, place)
            outcomes |= {id: self._outcome(id, word, if_version) for id, word in zip(plans, words, strict=True)}
            again = [id for id in plans if outcomes[id].word == "AGAIN"]
            if not again:
                break
            found = {each.schedule.id: each.schedule for each in self._reader.find_many(again)}
            plans = {}
            for id in again:
                try:
                    plans[id] = _skip_plan(found.get(id), now_ms)
                except TriggerError as error:
                    outcomes[id] = IdOutcome("", error=error)
            if not plans:
                break
        for id in again:
            if outcomes[id].word == "AGAIN":
                remedy = "call again, or give missed=fire"
                problem = f"schedule {id!r} could not be planned in time for the server"
                outcomes[id] = IdOutcome("", error=RedisUnavailable(problem, remedy))
        return outcomes

    def _outcome(self, id: str, word: str, if_version: str | None) -> IdOutcome:
        return IdOutcome(word, error=refusal(word, id, self._store.keys, if_version=if_version))


def _skip_plan(schedule: Schedule | None, now_ms: int) -> SkipPlan | None:
    """Return the plan of a recurring *schedule* that is resumed at *now_ms*; None if it was replaced meanwhile."""
    if schedule is None or schedule.trigger is None or schedule.nominal_ms is None or schedule.anchor_ms is None:
        return None
    passed, bracket = planning.after_missed(
        schedule.trigger, schedule.anchor_ms, schedule.nominal_ms, now_ms, schedule.id
    )
    return SkipPlan(schedule.next_ms or 0, schedule.version or "-", passed, bracket)
