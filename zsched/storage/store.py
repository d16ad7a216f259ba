"""
A client's changes of schedules that exist: cancel, pause, resume, release, run now, backfill.

Each call is one script, with its own operation id, so the link may send it again. Changes of many schedules in a step
have an outcome for each: a word, or the exception for the word by which a script refuses (``refusals``). ``puts`` has
the puts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import uuid4

from zsched.core.model import Schedule
from zsched.core.occurrences.first_times import REPLANS
from zsched.core.options.choices import Missed, ScheduleState
from zsched.core.record import skips_text
from zsched.core.repair import IdOutcome
from zsched.errors import VersionConflict
from zsched.storage.calendars import CalendarStore
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.reader import Reader
from zsched.storage.refusals import NO_VERSION, contended, demand, id_outcome
from zsched.storage.resuming import resume
from zsched.storage.scripts import KEEP_OP_MS, Scripts, word_text

BACKFILLED_AT_ONCE: Final = 100  # runs: about 1 ms of the server


class Store:
    """
    Changes schedules of one namespace over one link. *by*: who asks, for the log. *reader* finds those to plan. Raises
    RedisUnavailable, RedisRefused.
    """

    def __init__(self, link: Link, keys: Keys, by: str, reader: Reader) -> None:
        self.keys, self._scripts, self._reader = keys, Scripts(link, keys, by), reader
        self._link, self._by = link, by

    @property
    def calendars(self) -> CalendarStore:
        """The calendars of the namespace."""
        return CalendarStore(self._link, self.keys, self._by)

    # -- many schedules in a step, an outcome for each ------------------------------------------------

    def resume(
        self, ids: Sequence[str], missed: Missed, if_version: str | None = None, place: str = "paused"
    ) -> dict[str, IdOutcome]:
        """Resume schedules: see ``resuming``."""
        return resume(self._scripts, self._link, self.keys, ids, missed, if_version=if_version, place=place)

    def cancel(self, ids: Sequence[str], if_version: str | None = None) -> dict[str, IdOutcome]:
        """Cancel schedules: cancelled or not_found."""
        _, *words = self._call("cancel", if_version, ids)
        return {
            id: IdOutcome("not_found") if word == b"NOTFOUND" else id_outcome(word, id, self.keys, if_version)
            for id, word in zip(ids, words, strict=True)
        }

    def pause(
        self, ids: Sequence[str], note: str, until_ms: int | None = None, if_version: str | None = None
    ) -> dict[str, IdOutcome]:
        """Pause schedules, until a time if it is given: paused or unchanged."""
        own = {"note": note, "until_ms": until_ms or "", "keep_op_ms": KEEP_OP_MS if if_version else 0}
        _, *words = self._call("pause", if_version, ids, **own)
        return {id: id_outcome(word, id, self.keys, if_version) for id, word in zip(ids, words, strict=True)}

    # -- one schedule ---------------------------------------------------------------------------------

    def skip(
        self, id: str, at: datetime | None, number: int, note: str, if_version: str | None, *, takes_back: bool
    ) -> None:
        """
        Skip occurrences of a schedule by hand, or take that back, as in ``skip_plan``. Raises as that; Contended; as
        the refusals.
        """
        from zsched.core.occurrences.skips import skip_plan
        from zsched.core.options.instants import instant_ms

        for _ in range(1 + REPLANS):
            schedule = self._reader.get(id)
            if if_version is not None and schedule.version != if_version:
                raise VersionConflict(id, if_version, schedule.version)
            demand(_unskippable(schedule), id, self.keys)
            at_ms = None if at is None else instant_ms("at", at, schedule.tz)
            plan = self._link.compute(partial(skip_plan, takes_back=takes_back), schedule, at_ms, number)
            if plan is None:
                return
            _, word = self._call(
                "skip", None, (), id=id, note=note, seen_version=schedule.version or NO_VERSION,
                seen_nominal_ms=schedule.nominal_ms, from_ms=plan.from_ms, until_ms=plan.until_ms,
                nominal_ms=plan.nominal_ms, due_ms=plan.due_ms, skips=skips_text(plan.skipped),
                verb="take_back" if takes_back else "skip", times=",".join(map(str, plan.times)),
            )  # fmt: skip
            if word == b"done":
                return
        raise contended(id)

    # -- runs of one schedule ---------------------------------------------------------------------------

    def run_now(self, id: str, if_version: str | None = None) -> tuple[str, str | None]:
        """
        Push a run of a schedule at once: fired, and its run id; NOTFOUND, CHANGED:<version>, WRONGTYPE or QUARANTINED.
        SIGNED: it is a one-shot with a signature for its time.
        """
        word, run_ids = self.backfill(id, if_version, [])
        return word, run_ids[0] if run_ids else None

    def backfill(
        self, id: str, version: str | None, occurrences: Iterable[tuple[int, str]]
    ) -> tuple[str, list[str | None]]:
        """
        Push runs of a recurring schedule for up to ``BACKFILLED_AT_ONCE`` *occurrences*: nominal ms, and "once", or
        "again" if it ran and has to run again; without any, one for now. Return fired, NOTFOUND, CHANGED:<version>,
        QUARANTINED or WRONGTYPE; and per run its id, None for an occurrence whose run exists, or is open.
        """
        word, _, *run_ids = self._call("run_now", version, [text for one in occurrences for text in one], id=id)
        return word_text(word), [None if run_id == b"-" else word_text(run_id) for run_id in run_ids]

    def _call(self, name: str, version: str | None, rows: Sequence[str | int], **arguments: Any) -> list[Any]:
        """Run a script; it changes only schedules with *version*, if one is given."""
        own = {"op": uuid4().hex, "keep_op_ms": KEEP_OP_MS, "seen_version": version or ""}
        return self._scripts.call(name, rows=rows, **own | arguments)


def _unskippable(schedule: Schedule) -> str:
    """Return the word of a refusal if single occurrences of *schedule* cannot be skipped; else ""."""
    if schedule.kind == "once":
        return "ONCE"
    if schedule.state in (ScheduleState.QUARANTINED, ScheduleState.ENDED):
        return schedule.state.value.upper()
    is_whole = None not in (schedule.trigger, schedule.nominal_ms, schedule.next_ms)
    return "" if is_whole and not schedule.unreadable else "QUARANTINED"
