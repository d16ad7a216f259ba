"""
Skips by hand: somebody leaves out single occurrences to come of a recurring schedule, and may take that back.

The skips are nominal times in the schedule's state (lua/lib/state.lua), so they go where that goes: into the log, into
archives, and back after a loss. A put, a pause and a resume keep them. ``TriggerSpec.skipped`` has them wherever a rule
is in use. Each stays in the state until the leader records it, with the first occurrence that is due after it.

``skip_plan`` decides from a schedule as it was read: skip.lua makes sure that it did not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from zsched.core.model import Schedule
from zsched.core.occurrences.future import coming
from zsched.core.occurrences.planning import local_time
from zsched.core.triggers.layers import Trigger, unskipped
from zsched.core.triggers.trigger import build, due_of
from zsched.core.triggers.zones import zone
from zsched.errors import InvalidSchedule

MOST: Final = 100  # skips of a schedule: its state stays below 2 kB


class SkipPlan(NamedTuple):
    """
    The occurrences ``times``, which are skipped or taken back; and then all skips, and the next occurrence. It holds
    while from_ms <= TIME < until_ms, when the first of ``times`` is due.
    """

    times: tuple[int, ...]
    skipped: tuple[int, ...]
    nominal_ms: int
    due_ms: int
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
    times = tuple(one for one in times if (one in known) == takes_back)
    if not times:
        return None
    skipped = tuple(sorted({*known} ^ {*times}))
    if len(skipped) > MOST:
        remedy = f"pause it instead: zsched pause {schedule.id} --until TIME"
        raise InvalidSchedule("id", schedule.id, f"more than {MOST} of its times would be skipped", remedy)
    then = build(replace(spec, skipped=skipped), schedule.anchor_ms or 0)
    next_ms: int | None = nominal_ms
    if takes_back and due_ms > schedule.read_ms:
        next_ms = min(*times, nominal_ms)
    elif nominal_ms in times:
        next_ms = then.next_after(nominal_ms)
    if next_ms is not None and next_ms != nominal_ms:
        nominal_ms, due_ms = next_ms, due_of(then, schedule.id, next_ms)
    until_ms = min(due_of(then, schedule.id, one) for one in times)
    return SkipPlan(times, skipped, nominal_ms, due_ms, schedule.read_ms, until_ms)


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
