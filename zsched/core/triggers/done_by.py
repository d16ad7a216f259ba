"""
Deadlines: the instant by which the run of an occurrence has to have succeeded.

The option ``done_by`` is a text: a local time (``06:00``), which means the first such time after the occurrence's
nominal time, or a duration (``30m``) after that. A local time follows the rules of a daily cron schedule: one that is
skipped when clocks go forward is the next valid time, and of one that is repeated the first counts.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from zsched.core.clock import LAST_MS
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import build, kind_named
from zsched.core.wording import parse_duration

LOCAL_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")


@lru_cache(maxsize=1000)
def deadlines(done_by: str, tz: str) -> Callable[[int], int]:
    """
    Return the function from the nominal time of an occurrence to its deadline. Raises InvalidSchedule, ValueError:
    another program wrote *done_by* or *tz*.
    """
    if not LOCAL_TIME.fullmatch(done_by):
        ms = round(parse_duration(done_by).total_seconds() * 1000)
        return lambda nominal_ms: min(nominal_ms + ms, LAST_MS)
    hour, minute, second = (*map(int, done_by.split(":")), 0)[:3]
    kind = kind_named("cron")
    expr, _ = kind.parse(f"{second} {minute} {hour} * * *", tz)
    daily = build(TriggerSpec(kind=kind, expr=expr, tz=tz, gap=kind.gap), 0)
    return lambda nominal_ms: daily.next_after(nominal_ms) or LAST_MS
