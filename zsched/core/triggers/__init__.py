"""
Recurring triggers: the times of a schedule. Pure, without state; integers of epoch milliseconds.

``build`` makes a ``Trigger`` of a ``TriggerSpec``, ``spec_of`` reads a stored one, and ``check`` refuses rules that
never fire. Each kind is a module with one ``TriggerKind``, listed in ``trigger.KINDS``. All decisions about zones, gaps
and folds are made in this package and nowhere else.

Reading order: spec, zones, wall_clock (sets of days and of local times), projection (local times to instants),
then the kinds every, cron, rrule with recurrence, and trigger, which lists them.
"""

from zsched.core.triggers.spec import (
    Anchor as Anchor,
    Fold as Fold,
    Gap as Gap,
    TriggerKind as TriggerKind,
    TriggerSpec as TriggerSpec,
)
from zsched.core.triggers.trigger import (
    GIVE_A_RULE as GIVE_A_RULE,
    KINDS as KINDS,
    RULES as RULES,
    KindOptions as KindOptions,
    Trigger as Trigger,
    build as build,
    check as check,
    delay_of as delay_of,
    due_of as due_of,
    kind_named as kind_named,
    lag_of as lag_of,
    max_jitter_of as max_jitter_of,
    nth_after as nth_after,
    read_spec as read_spec,
    spec_of as spec_of,
)
from zsched.core.triggers.zones import (
    has_zone as has_zone,
    lack_of as lack_of,
    offset_s as offset_s,
    resolve_local as resolve_local,
    shown_zone as shown_zone,
    zone as zone,
)
