"""
Next times outside of the tick: a preview of a rule, the new time of an occurrence after a change of its zone's rules,
and skips by hand. Pure. ``first_times`` has the first time of a put or resume; ``policy.plan`` decides what fires, and
what comes next.

**Other rules of a zone.** The next time of a schedule was computed by the zone's rules of that moment. By other rules
the same occurrence is at another time: daily at 09:00 is an hour earlier in a country that gave up winter time. Of the
old rules only their results are known: *nominal*, the time of the waiting occurrence, and the last fired one. So the
waiting occurrence gets the time of the new rules that is nearest to *nominal*, and later than the last fired one. The
following ones come from the rule. The occurrence is moved, not created anew: if it fired at the old 09:00, it is not
repeated when the new rules make it 10:00, and the next one is not left out. A repetition changes nothing, so the work
may be started again.

A one-shot that was given as local time has the offset of its zone at that time (``At``). So its local time is
known, and moves unchanged.

A new time that has passed is due at once, and fires late. If the new rules do not have the time (a gap with
``gap="skip"``), the next occurrence takes its place; without a next one, the promised time stays.

Not guaranteed: that occurrences are distinguished if their distance is less than the zone's change. By the new rules
one of them may be at the time at which another one fired: that time does not fire again.

**Skips by hand.** Somebody leaves out single occurrences to come of a recurring schedule, and may take that back. The
skips are nominal times in the schedule's state (lua/lib/state.lua), so they go where that goes: into the log, into
archives, and back after a loss. A put, a pause and a resume keep them. ``TriggerSpec.skipped`` has them wherever a rule
is in use. Each stays in the state until the leader records it, with the first occurrence that is due after it.
``skip_plan`` decides from a schedule as it was read: skip.lua makes sure that it did not change meanwhile.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from zsched.core.clock import from_ms
from zsched.core.model import Schedule
from zsched.core.occurrences.future import coming
from zsched.core.occurrences.policy import Passed, excluded
from zsched.core.record import Record, skipped_in
from zsched.core.runs.job import OFFSET_FIELD, SIGNATURE_FIELD
from zsched.core.runs.run_id import RunId
from zsched.core.triggers.layers import Trigger, unskipped
from zsched.core.triggers.spec import NO_CALENDARS, Calendars, Fold, Gap, TriggerSpec
from zsched.core.triggers.trigger import build, delay_of, due_of, spec_of, with_calendars, with_skipped
from zsched.core.triggers.zones import local_time, offset_s, resolve_local, zone
from zsched.errors import InvalidSchedule

_REACH_MS: Final = 12 * 3_600_000  # back in time; zones change by an hour or two, a day would be another occurrence
_PLACES: Final = ("due", "paused")  # the places of a waiting occurrence
MOST: Final = 100  # skips of a schedule: its state stays below 2 kB


# -- preview --------------------------------------------------------------------------------------


def occurrences(
    spec: TriggerSpec, anchor_ms: int, start_ms: int, n: int, id: str = "", first_ms: int = 0
) -> list[datetime]:
    """
    Return the due times of up to *n* occurrences, strictly after *start_ms*, aware, in the rule's zone.

    They include the jitter of schedule *id*. The first may have its nominal time before *start_ms*, but not before
    *first_ms*, the first time that a schedule can have after its put.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    place, found = zone(spec.tz), coming(build(spec, anchor_ms), id, first_ms, start_ms)
    return [local_time(due_ms, place) for _, due_ms in islice(found, n)]


def nominal_time(schedule: Schedule, due_ms: int) -> int:
    """Return the nominal time of the occurrence that is due at *due_ms*: the latest, as jitter ends before the next."""
    trigger = None if schedule.trigger is None else build(schedule.trigger, schedule.anchor_ms or 0)
    nominal_ms = schedule.nominal_ms if trigger is None else trigger.last_until(due_ms)
    return due_ms if nominal_ms is None else nominal_ms


# -- by other rules of a zone ---------------------------------------------------------------------


class Move(NamedTuple):
    """
    A schedule as it was read, and the new times of its occurrence. ``offset_s``: of a one-shot, as in ``At``.
    ``passed``: occurrences up to the new one that are excluded now.
    """

    record: Record
    nominal_ms: int
    due_ms: int
    offset_s: int | None = None
    passed: tuple[Passed, ...] = ()

    @property
    def is_signed(self) -> bool:
        """True if a signature covers its time."""
        return SIGNATURE_FIELD.encode() in self.record.job[::2]


def move_of(record: Record, calendars: Calendars = NO_CALENDARS) -> Move | None:
    """
    Return the move of the occurrence of *record*; None if it stays, or if it does not wait. *calendars*: those that its
    rule may name.

    Raises:
        TriggerError, InvalidSchedule, ValueError, OverflowError, KeyError, TypeError: the stored schedule is broken, or
            this machine lacks its zone.
    """
    if record.place not in _PLACES or record.due_ms is None:
        return None
    if record.run:
        return _move_of_one_shot(record, record.due_ms)
    trigger = trigger_of(record, calendars)
    if record.nominal_ms is None or not trigger.spec.is_of_zone:
        return None
    new_ms = moved(trigger, record.nominal_ms, _fired_ms(record))
    return None if new_ms is None else Move(record, new_ms, due_of(trigger, record.id, new_ms))


def trigger_of(record: Record, calendars: Calendars = NO_CALENDARS) -> Trigger:
    """Return the trigger of a recurring schedule, without what is skipped. Raises as ``move_of``."""
    own = record.own_fields()
    spec = with_calendars(spec_of(own[b"trigger"]), lambda: calendars)
    return build(with_skipped(spec, skipped_in(record.state)), int(own[b"anchor"]))


def _fired_ms(record: Record) -> int | None:
    """Return the last fired occurrence, if it is known; an extra run is none."""
    last = RunId.parse(record.last) if record.last else None
    return None if last is None or last.rerun else last.nominal_ms


def reopened(record: Record, calendars: Calendars, now_ms: int) -> Move | None:
    """
    Return the move of the occurrence of *record* to the first open time after *now_ms*, if it is later than now and its
    rule names one of *calendars*; None if it stays.

    Raises:
        As ``move_of``.
    """
    if record.run or record.place not in _PLACES or record.nominal_ms is None or record.nominal_ms <= now_ms:
        return None
    trigger = trigger_of(record, calendars)
    if trigger.spec.calendars is NO_CALENDARS:
        return None
    new_ms = trigger.next_after(max(now_ms, _fired_ms(record) or 0))
    if new_ms is None or new_ms == record.nominal_ms:
        return None
    passed = excluded(trigger, record.nominal_ms - 1, new_ms)
    return Move(record, new_ms, due_of(trigger, record.id, new_ms), passed=passed)


def _move_of_one_shot(record: Record, due_ms: int) -> Move | None:
    """Return the move of a one-shot, if it was given as local time. A repeated local time keeps the nearer instant."""
    job = record.job_fields()
    if (offset_at_first := job.get(OFFSET_FIELD.encode())) is None:
        return None
    delay_ms = delay_of(record.id, int(job.get(b"zs_jitter", b"0")))
    nominal_ms, place = due_ms - delay_ms, zone(job.get(b"zs_tz", b"UTC").decode())
    local = from_ms(nominal_ms + int(offset_at_first) * 1000)
    times = [resolve_local(local, place, Gap.SHIFT, fold)[0] for fold in (Fold.FIRST, Fold.SECOND)]
    new_ms = min(times, key=lambda ms: abs(ms - nominal_ms))
    return None if new_ms == nominal_ms else Move(record, new_ms, new_ms + delay_ms, offset_s(place, new_ms // 1000))


def moved(trigger: Trigger, nominal_ms: int, fired_ms: int | None) -> int | None:
    """
    Return the time by *trigger* of the occurrence that waited for *nominal_ms*; None if it stays.

    The time is later than *fired_ms*, the last fired occurrence (None: not known). Of two equally near times the later
    one is returned.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    before_ms = trigger.last_until(nominal_ms)
    if before_ms == nominal_ms:
        return None
    after_ms = trigger.next_after(nominal_ms)
    if before_ms is None or nominal_ms - before_ms > _REACH_MS or (fired_ms is not None and before_ms <= fired_ms):
        return after_ms
    is_nearer = after_ms is None or nominal_ms - before_ms < after_ms - nominal_ms
    return before_ms if is_nearer else after_ms


class SkipPlan(NamedTuple):
    """
    The occurrences ``times``, which are skipped or taken back; and then all skips, and the next occurrence. ``passed``:
    excluded ones up to that. It holds while from_ms <= TIME < until_ms, when the first of ``times`` is due.
    """

    times: tuple[int, ...]
    skipped: tuple[int, ...]
    nominal_ms: int
    due_ms: int
    passed: tuple[Passed, ...]
    from_ms: int
    until_ms: int


def skip_plan(schedule: Schedule, at_ms: int | None, number: int, *, takes_back: bool = False) -> SkipPlan | None:
    """
    Plan to skip the occurrence *at_ms* of *schedule*, or its next *number* ones; or to take back that skip, or all of
    them. None: nothing is left to do.

    Raises:
        InvalidSchedule: there is no such occurrence to come, or there are too many skips.
        TriggerError: the trigger cannot produce a time.
    """
    spec, nominal_ms, due_ms = schedule.trigger, schedule.nominal_ms, schedule.next_ms
    assert spec is not None
    assert nominal_ms is not None
    assert due_ms is not None
    trigger, known = build(spec, schedule.anchor_ms or 0), spec.skipped
    times: Iterable[int]
    if at_ms is not None:
        times = (_occurrence(unskipped(trigger), schedule, at_ms),)
    elif takes_back:
        times = (one for one in known if due_of(trigger, schedule.id, one) > schedule.read_ms)
    else:
        times = (one for one, _ in islice(coming(trigger, schedule.id, nominal_ms, schedule.read_ms), number))
    if not (times := tuple(one for one in times if (one in known) == takes_back)):
        return None
    skipped = tuple(sorted({*known} ^ {*times}))
    if len(skipped) > MOST:
        remedy = f"pause it instead: zsched pause {schedule.id} --until TIME"
        raise InvalidSchedule("id", schedule.id, f"more than {MOST} of its times would be skipped", remedy)
    then = build(replace(spec, skipped=skipped), schedule.anchor_ms or 0)
    next_ms: int | None = nominal_ms
    passed = tuple[Passed, ...]()
    if takes_back and due_ms > schedule.read_ms:
        next_ms = min(*times, nominal_ms)
    elif nominal_ms in times:
        next_ms = then.next_after(nominal_ms)
    if next_ms is not None and next_ms != nominal_ms:
        passed = excluded(then, nominal_ms, next_ms)
        nominal_ms, due_ms = next_ms, due_of(then, schedule.id, next_ms)
    until_ms = min(due_of(then, schedule.id, one) for one in times)
    return SkipPlan(times, skipped, nominal_ms, due_ms, passed, schedule.read_ms, until_ms)


def _occurrence(trigger: Trigger, schedule: Schedule, at_ms: int) -> int:
    """Return the occurrence to come that is at *at_ms*, or due then by its jitter. Raises InvalidSchedule."""
    found, place = trigger.last_until(at_ms), zone(trigger.spec.tz)
    due_ms, shown = found and due_of(trigger, schedule.id, found), local_time(at_ms, place).isoformat()
    if found is None or due_ms is None or at_ms not in (found, due_ms, due_ms // 1000 * 1000):
        nearest = (one for one in (found, trigger.next_after(at_ms)) if one is not None)
        remedy = f"the nearest are {' and '.join(local_time(one, place).isoformat() for one in nearest)}"
        raise InvalidSchedule("at", shown, "no occurrence of its rule is then", remedy)
    if due_ms <= schedule.read_ms:
        raise InvalidSchedule("at", shown, "its time has come already", "give a later one")
    return found
