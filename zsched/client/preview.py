"""The next times of a schedule, or of a rule that nobody scheduled yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from zsched.core.clock import Clock, to_ms
from zsched.core.instants import instant_ms
from zsched.core.model import Schedule
from zsched.core.options import define_trigger
from zsched.core.planning import local_time, occurrences
from zsched.core.triggers import check, shown_zone
from zsched.storage.connection import Link


def next_times(
    link: Link, clock: Clock, schedule: Schedule | None, rule: Mapping[str, Any], n: int, start: datetime | None
) -> Sequence[datetime]:
    """Return the due times of *schedule*, or of *rule* if it is None. As ``Client.preview``, which describes it."""
    if schedule is not None and schedule.trigger is None:
        due = [] if schedule.next_ms is None else [local_time(schedule.next_ms, shown_zone(schedule.tz))]
        start_ms = 0 if start is None else instant_ms("start", start, schedule.tz)
        return [at for at in due if to_ms(at) > start_ms]
    spec = define_trigger(rule) if schedule is None else schedule.trigger
    assert spec is not None  # for a schedule without a rule it returned above
    now_ms = clock.now_ms()
    start_ms = now_ms if start is None else instant_ms("start", start, spec.tz)
    if schedule is None:
        check(spec, start_ms)
        return link.compute(occurrences, spec, start_ms, start_ms, n)
    first_ms = schedule.nominal_ms if start_ms >= now_ms else None
    anchor_ms = schedule.anchor_ms or start_ms
    return link.compute(occurrences, spec, anchor_ms, start_ms, n, schedule.id, first_ms or 0)
