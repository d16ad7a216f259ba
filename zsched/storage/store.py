"""
A client's changes of schedules that exist: cancel, pause, resume, release, run now, backfill.

Each call is one script, with its own operation id, so the link may send it again. Changes of many schedules in a step
have an outcome for each: a word, or the exception for the word by which a script refuses (``refusals``). ``puts`` has
the puts.

A resume never fires early. A recurring schedule that skips what it missed is planned here, by what Redis has; the
script makes sure that it did not change meanwhile. A leader ends pauses by the same way, in its term.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Final

from zsched.core.entry import text
from zsched.core.model import Schedule
from zsched.core.occurrences.first_times import REPLANS, after_missed
from zsched.core.occurrences.planning import skip_plan, trigger_of
from zsched.core.occurrences.policy import passed_text
from zsched.core.options.choices import Missed, ScheduleState
from zsched.core.record import Record, skips_text
from zsched.core.repair import IdOutcome
from zsched.core.triggers.spec import NO_CALENDARS, Calendars
from zsched.core.triggers.zones import instant_ms
from zsched.errors import RedisUnavailable, TriggerError, VersionConflict, ZschedError
from zsched.storage.connection import Channel, Link
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.named_texts import NamedTextStore, read_calendars
from zsched.storage.reader import Reader
from zsched.storage.records import read_records
from zsched.storage.refusals import NO_VERSION, contended, demand, refusal
from zsched.storage.scripts import Scripts

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
    def named_texts(self) -> NamedTextStore:
        """The calendars and known failures of the namespace."""
        return NamedTextStore(self._link, self.keys, self._by)

    # -- many schedules in a step, an outcome for each ------------------------------------------------

    def resume(
        self, ids: Sequence[str], missed: Missed, if_version: str | None = None, place: str = "paused"
    ) -> dict[str, IdOutcome]:
        """Resume schedules: see the function."""
        return resume(self._scripts, self._link, self.keys, ids, missed, if_version=if_version, place=place)

    def cancel(self, ids: Sequence[str], if_version: str | None = None) -> dict[str, IdOutcome]:
        """Cancel schedules: cancelled or not_found."""
        _, *words = self._call("cancel", if_version, ids)
        return {
            id: IdOutcome("not_found") if word == b"NOTFOUND" else _outcome(word, id, self.keys, if_version)
            for id, word in zip(ids, words, strict=True)
        }

    def pause(
        self, ids: Sequence[str], note: str, until_ms: int | None = None, if_version: str | None = None
    ) -> dict[str, IdOutcome]:
        """Pause schedules, until a time if it is given: paused or unchanged."""
        op = None if if_version else "-"
        _, *words = self._call("pause", if_version, ids, note=note, until_ms=until_ms or "", op=op)
        return {id: _outcome(word, id, self.keys, if_version) for id, word in zip(ids, words, strict=True)}

    # -- one schedule ---------------------------------------------------------------------------------

    def skip(
        self, id: str, at: datetime | None, number: int, note: str, if_version: str | None, *, takes_back: bool
    ) -> None:
        """
        Skip occurrences of a schedule by hand, or take that back, as in ``skip_plan``. Raises as that; Contended; as
        the refusals.
        """
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
                passed=passed_text(plan.passed), verb="take_back" if takes_back else "skip",
                times=",".join(map(str, plan.times)),
            )  # fmt: skip
            if word == b"done":
                return
        raise contended(id)

    # -- runs of one schedule ---------------------------------------------------------------------------

    def run_now(self, id: str, if_version: str | None = None, op: str | None = None) -> tuple[str, str | None]:
        """
        Push a run of a schedule at once: fired, and its run id; NOTFOUND, CHANGED:<version>, WRONGTYPE or QUARANTINED.
        SIGNED: it is a one-shot with a signature for its time. *op*: the operation; None: a new one.
        """
        word, run_ids = self.backfill(id, if_version, [], op)
        return word, run_ids[0] if run_ids else None

    def backfill(
        self, id: str, version: str | None, occurrences: Iterable[tuple[int, str]], op: str | None = None
    ) -> tuple[str, list[str | None]]:
        """
        Push runs of a recurring schedule for up to ``BACKFILLED_AT_ONCE`` *occurrences*: nominal ms, and "once", or
        "again" if it ran and has to run again; without any, one for now. Return fired, NOTFOUND, CHANGED:<version>,
        QUARANTINED or WRONGTYPE; and per run its id, None for an occurrence whose run exists, or is open.
        """
        rows = [each for one in occurrences for each in one]
        word, _, *run_ids = self._call("run_now", version, rows, id=id, op=op)
        return text(word), [None if run_id == b"-" else text(run_id) for run_id in run_ids]

    def _call(self, name: str, version: str | None, rows: Sequence[str | int], **arguments: Any) -> list[Any]:
        """Run a script; it changes only schedules with *version*, if one is given."""
        return self._scripts.call(name, rows=rows, **{"seen_version": version or ""} | arguments)


def _unskippable(schedule: Schedule) -> str:
    """Return the word of a refusal if single occurrences of *schedule* cannot be skipped; else ""."""
    if schedule.kind == "once":
        return "ONCE"
    if schedule.state in (ScheduleState.QUARANTINED, ScheduleState.ENDED):
        return schedule.state.value.upper()
    is_whole = None not in (schedule.trigger, schedule.nominal_ms, schedule.next_ms)
    return "" if is_whole and not schedule.unreadable else "QUARANTINED"


def resume(
    scripts: Scripts,
    channel: Channel,
    keys: Keys,
    ids: Sequence[str],
    missed: Missed,
    *,
    if_version: str | None = None,
    place: str = "paused",
    term: Term | None = None,
) -> dict[str, IdOutcome]:
    """
    Resume schedules in a step: those in *place*, paused or quarantine. Those that skip occurrences of a rule are
    planned, and resumed in another. *term*: the leader ends pauses.
    """
    script, fence = ("resume", {}) if term is None else ("end_pauses", term.fence)
    outcomes: dict[str, IdOutcome] = {}
    plans = dict.fromkeys(ids, "")
    for _ in range(1 + REPLANS):
        own = {"seen_version": if_version or "", "missed": missed.value, "place": place, **fence}
        now_ms, *words = scripts.call(script, rows=[*chain(*plans.items())], **own)
        outcomes |= {id: _outcome(word, id, keys, if_version) for id, word in zip(plans, words[::2], strict=True)}
        again = [id for id in plans if outcomes[id].word == "AGAIN"]
        plans = dict.fromkeys(again, "")
        calendars = read_calendars(channel, keys) if again else NO_CALENDARS
        for record in (one for page in read_records(scripts, keys, again) for one in page.records):
            try:
                plans[record.id] = _skip_plan(record, calendars, int(now_ms))
            except ZschedError as error:
                outcomes[record.id] = IdOutcome("", error=error)
                del plans[record.id]
        if not plans:
            break
    for id in plans:
        problem = f"schedule {id!r} could not be planned in time for the server"
        outcomes[id] = IdOutcome("", error=RedisUnavailable(problem, "call again, or give missed=fire"))
    return outcomes


def _skip_plan(record: Record, calendars: Calendars, now_ms: int) -> str:
    """
    Return the plan for resume.lua of a recurring schedule that is resumed at *now_ms* without its missed occurrences,
    if it still has its due time and version; "" if it was replaced meanwhile.
    """
    if record.run or record.nominal_ms is None:
        return ""
    try:
        trigger, version = trigger_of(record, calendars), text(record.own_fields()[b"version"])
    except ZschedError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise TriggerError(f"the stored rule of {record.id!r} cannot be read: {error}") from error
    passed, plan = after_missed(trigger, record.nominal_ms, now_ms, record.id)
    seen, window = (record.due_ms or 0, version or NO_VERSION), (plan.from_ms, plan.until_ms)
    return " ".join(map(str, (*seen, plan.next or "-", *window, plan.jitter_ms, passed_text(passed))))


def _outcome(word: bytes, id: str, keys: Keys, if_version: str | None = None) -> IdOutcome:
    said = text(word)
    return IdOutcome(said, error=refusal(said, id, keys, if_version=if_version))
