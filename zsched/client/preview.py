"""The next times of a schedule, or of a rule that is not scheduled yet."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice, pairwise
from typing import Any, Final

from zsched.core.clock import Clock, to_ms
from zsched.core.model import Schedule
from zsched.core.occurrences.planning import occurrences
from zsched.core.options.define import define_trigger
from zsched.core.options.table import RuleOptions
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import RULES, build, check
from zsched.core.triggers.zones import instant_ms, local_time, shown_zone
from zsched.errors import InvalidSchedule
from zsched.storage.connection import Link

_LOOKED_AT: Final = 100  # next times of a rule, in search of the nearest two
_SPAN_MS: Final = 8 * 86_400_000  # eight days after the first of them, so also a week's last day and the next first


def next_times(
    link: Link, clock: Clock, schedule: Schedule | None, rule: TriggerSpec | None, n: int, start: datetime | None
) -> Sequence[datetime]:
    """Return the due times of *schedule*, or of *rule* if it is None. As ``Client.preview``, which describes it."""
    if schedule is not None and schedule.trigger is None:
        due = [] if schedule.next_ms is None else [local_time(schedule.next_ms, shown_zone(schedule.tz))]
        start_ms = 0 if start is None else instant_ms("start", start, schedule.tz)
        return [at for at in due if to_ms(at) > start_ms]
    spec = rule if schedule is None else schedule.trigger
    assert spec is not None  # for a schedule without a rule it returned above
    now_ms = clock.now_ms()
    start_ms = now_ms if start is None else instant_ms("start", start, spec.tz)
    if schedule is None:
        check(spec, start_ms)
        return link.compute(occurrences, spec, start_ms, start_ms, n)
    first_ms = schedule.nominal_ms if start_ms >= now_ms else None
    return link.compute(occurrences, spec, schedule.anchor_ms or start_ms, start_ms, n, schedule.id, first_ms or 0)


def demand_apart(options: Mapping[str, Any], least_s: float, now_ms: int) -> None:
    """
    Check that the rule in *options*, if there is one, has no two times less than *least_s* apart, among its next 100
    and within eight days after the first. Raises InvalidSchedule.
    """
    rule = {name: options[name] for name in RuleOptions.__annotations__ if options.get(name) is not None}
    if not rule.keys() & set(RULES):
        return
    spec = replace(define_trigger(rule), exclude=())  # without exclusions none are nearer
    trigger = build(spec, now_ms)
    first_ms = trigger.next_after(now_ms) or now_ms
    times = islice(trigger.between(first_ms - 1, first_ms + _SPAN_MS), _LOOKED_AT)
    if any(later_ms - earlier_ms < least_s * 1000 for earlier_ms, later_ms in pairwise(times)):
        problem, remedy = "its times are too close for this token or login", f"give {least_s:g} s or more between two"
        raise InvalidSchedule(spec.kind.name, rule[spec.kind.name], problem, remedy)
