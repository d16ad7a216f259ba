"""
Deadlines: the instant by which the run of an occurrence has to have succeeded.

The option ``done_by`` is a text: a local time (``06:00``), which means the first such time after the occurrence's
nominal time, or a duration (``30m``) after that. A local time follows the rules of a daily cron schedule: one that is
skipped when clocks go forward is the next valid time, and of one that is repeated the first counts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from zsched.core.clock import LAST_MS
from zsched.core.triggers.spec import Rule, TriggerSpec
from zsched.core.triggers.trigger import build, kind_named
from zsched.core.wording import parse_duration

LOCAL_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")


def deadline_ms(done_by: str, tz: str, nominal_ms: int) -> int:
    """
    Return the deadline of the occurrence of *nominal_ms*. Raises InvalidSchedule, ValueError: another program wrote
    *done_by* or *tz*.
    """
    if LOCAL_TIME.fullmatch(done_by):
        return _daily(done_by, tz).next_after(nominal_ms) or LAST_MS
    return min(nominal_ms + round(parse_duration(done_by).total_seconds() * 1000), LAST_MS)


@lru_cache(maxsize=1000)
def _daily(local_time: str, tz: str) -> Rule:
    """Return the rule of every day at *local_time*."""
    hour, minute, second = (*map(int, local_time.split(":")), 0)[:3]
    kind = kind_named("cron")
    expr, _ = kind.parse(f"{second} {minute} {hour} * * *", tz)
    return build(TriggerSpec(kind=kind, expr=expr, tz=tz, gap=kind.gap), 0)
