"""
Recurring triggers: the times of a schedule. Pure, without state; integers of epoch milliseconds.

``build`` makes a ``Trigger`` of a ``TriggerSpec``, ``spec_of`` reads a stored one, and ``check`` refuses rules that
never fire. Each kind is a module with one ``TriggerKind``, listed in ``trigger.KINDS``. All decisions about zones, gaps
and folds are made in this package and nowhere else.

Reading order: spec, zones, wall_clock (sets of days and of local times), projection (local times to instants),
then the kinds every, cron, rrule with recurrence, and trigger, which lists them.
"""

from zsched.core.triggers.spec import Anchor, Fold, Gap, TriggerKind, TriggerSpec
from zsched.core.triggers.trigger import (
    GIVE_A_RULE,
    KINDS,
    RULES,
    KindOptions,
    Trigger,
    build,
    check,
    delay_of,
    due_of,
    kind_named,
    lag_of,
    max_jitter_of,
    nth_after,
    read_spec,
    spec_of,
)
from zsched.core.triggers.zones import has_zone, lack_of, offset_s, resolve_local, shown_zone, zone

__all__ = [
    "GIVE_A_RULE",
    "KINDS",
    "RULES",
    "Anchor",
    "Fold",
    "Gap",
    "KindOptions",
    "Trigger",
    "TriggerKind",
    "TriggerSpec",
    "build",
    "check",
    "delay_of",
    "due_of",
    "has_zone",
    "kind_named",
    "lack_of",
    "lag_of",
    "max_jitter_of",
    "nth_after",
    "offset_s",
    "read_spec",
    "resolve_local",
    "shown_zone",
    "spec_of",
    "zone",
]
