"""
Resuming schedules: one script for many, which never fires early, and skips what was missed if the caller wants that.

A recurring schedule that skips occurrences is planned here, by what Redis has; the script makes sure that it did not
change meanwhile. A leader ends pauses by the same way, in its term.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from uuid import uuid4

from zsched.core.entry import text
from zsched.core.occurrences.first_times import REPLANS, after_missed
from zsched.core.occurrences.planning import trigger_of
from zsched.core.options.choices import Missed
from zsched.core.record import Record
from zsched.core.repair import IdOutcome
from zsched.core.triggers.calendars import NO_CALENDARS, Calendars
from zsched.errors import RedisUnavailable, TriggerError, ZschedError
from zsched.storage.calendars import read_calendars
from zsched.storage.connection import Channel
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.records import read_records
from zsched.storage.refusals import NO_VERSION, id_outcome
from zsched.storage.scripts import KEEP_OP_MS, Scripts


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
        own = {"op": uuid4().hex, "keep_op_ms": KEEP_OP_MS, "seen_version": if_version or "", **fence}
        rows = [*chain(*plans.items())]
        now_ms, *words = scripts.call(script, rows=rows, missed=missed.value, place=place, **own)
        outcomes |= {id: id_outcome(word, id, keys, if_version) for id, word in zip(plans, words[::2], strict=True)}
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
    words = (*seen, plan.next or "-", *window, plan.jitter_ms, passed.first_ms, passed.last_ms, passed.count)
    return " ".join(map(str, words))
