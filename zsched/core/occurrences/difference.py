"""
The difference in times between a schedule as it is and as it would be: shown before a change. Pure.

Both sides are read from one generator (``future``), so the difference includes jitter, summer time, ``count`` and a
pause. The next 2,000 times within a year are compared. A paused schedule that stays paused is compared as if both sides
were active.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from zsched.core.model import After, At, Definition, Schedule, iso
from zsched.core.occurrences.first_times import first
from zsched.core.occurrences.future import Future, Spans
from zsched.core.options.checked import CheckedOptions
from zsched.core.options.choices import ScheduleState
from zsched.core.triggers.spec import Calendars, TriggerSpec
from zsched.core.triggers.trigger import with_calendars
from zsched.core.triggers.zones import local_time, shown_zone
from zsched.core.wording import relative_text

_AHEAD_MS: Final = 366 * 86_400_000
_WEEK_MS: Final = 7 * 86_400_000
_COMPARED: Final = 2_000  # times: 20 ms (measured)
_TOLD: Final = 5  # times of each side


class TimesDifference(NamedTuple):
    """
    The first times that a change takes away (*gone*) and adds (*come*), each side in its zone of *zones*; and the
    numbers of times in the next week, before and after.
    """

    gone: Sequence[int]
    come: Sequence[int]
    week: tuple[int, int]
    zones: tuple[str, str]
    now_ms: int

    @property
    def text(self) -> str:
        """The difference in a line: ``− Sat 29 Nov 09:00+09:00 … + …; 7 → 5 a week; first change in 20h``."""
        sides = zip("−+", (self.gone, self.come), self.zones, strict=True)
        shown = [f"{sign} {_local(times[0], tz)}{' …' * (len(times) > 1)}" for sign, times, tz in sides if times]
        if not shown:
            return "the times stay"
        first = relative_text(min((*self.gone, *self.come)), self.now_ms)
        return f"{' '.join(shown)}; {self.week[0]:,} → {self.week[1]:,} a week; first change {first}"

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        times = {"gone": [iso(ms) for ms in self.gone], "come": [iso(ms) for ms in self.come]}
        return times | {"per_week": list(self.week), "text": self.text}


def difference(
    before: Schedule | None, definition: Definition, now_ms: int, calendars: Callable[[], Calendars]
) -> TimesDifference:
    """
    Return the difference that a put of *definition* at *now_ms* makes to *before*; its rule may name one of
    *calendars*. Raises TriggerError, UnknownCalendar.
    """
    after = foreseen(before, definition, now_ms, calendars)
    if before is not None and before.state is after.state is ScheduleState.PAUSED:
        before, after = (replace(one, state=ScheduleState.ACTIVE) for one in (before, after))
    found: tuple[list[int], list[int]] = [], []
    both = heapq.merge(*(_tagged(one, now_ms, side) for side, one in enumerate((before, after))))
    for ms, group in groupby(islice(both, _COMPARED), itemgetter(0)):
        sides = {side for _, side in group}
        if len(sides) == 1:
            found[sides.pop()].append(ms)
        if len(found[1]) >= _TOLD and (before is None or len(found[0]) >= _TOLD):
            break
    gone, come = (times[:_TOLD] for times in found)
    before_week, after_week = (_per_week(one, now_ms) for one in (before, after))
    return TimesDifference(gone, come, (before_week, after_week), ((before or after).tz, after.tz), now_ms)


def foreseen(
    before: Schedule | None, definition: Definition, now_ms: int, calendars: Callable[[], Calendars]
) -> Schedule:
    """
    Return the schedule that a put of *definition* at *now_ms* makes of *before*: its times and options, without
    arguments. Its rule may name one of *calendars*. Raises TriggerError, UnknownCalendar.
    """
    when = definition.when
    if isinstance(when, TriggerSpec):
        when = with_calendars(when, calendars)
    was_paused = before is not None and before.state is ScheduleState.PAUSED
    is_paused = was_paused if definition.enabled is None else not definition.enabled
    state = ScheduleState.PAUSED if is_paused else ScheduleState.ACTIVE
    options: dict[str, Any] = {each.name: getattr(definition, each.name) for each in fields(CheckedOptions)}
    func = str(definition.func)
    if not isinstance(when, TriggerSpec):
        due_ms = when.due_ms if isinstance(when, At) else now_ms + when.delay_ms if isinstance(when, After) else now_ms
        return Schedule(definition.id, state, "once", func, due_ms, **options)
    if before is not None and before.trigger == when:
        times = before.next_ms, when, before.anchor_ms, before.nominal_ms
        return Schedule(definition.id, state, when.kind.name, func, *times, **options)
    plan = first(when, now_ms, definition.id)
    nominal_ms = None if plan.next is None else int(plan.next) + now_ms * plan.next.startswith("+")
    next_ms = None if nominal_ms is None else nominal_ms + plan.jitter_ms
    return Schedule(definition.id, state, when.kind.name, func, next_ms, when, now_ms, nominal_ms, **options)


def _tagged(one: Schedule | None, now_ms: int, side: int) -> Iterator[tuple[int, int]]:
    return ((each.due_ms, side) for each in _future(one, now_ms, _AHEAD_MS).occurrences())


def _per_week(one: Schedule | None, now_ms: int) -> int:
    [number] = _future(one, now_ms, _WEEK_MS).counts(Spans(now_ms, _WEEK_MS, 1)).totals()
    return number


def _future(one: Schedule | None, now_ms: int, length_ms: int) -> Future:
    return Future([] if one is None else [one], now_ms, now_ms, now_ms + length_ms)


def _local(ms: int, tz: str) -> str:
    """Return ``Sat 29 Nov 09:00+09:00``."""
    at = local_time(ms, shown_zone(tz))
    unit = "milliseconds" if ms % 1000 else "seconds" if at.second else "minutes"
    return f"{at:%a %-d %b} {at.isoformat(timespec=unit)[11:]}"
