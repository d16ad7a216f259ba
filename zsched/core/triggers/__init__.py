"""
Recurring triggers: when a schedule is due. Pure; integers of epoch milliseconds; nothing is remembered.

``build`` makes a ``Trigger`` of a ``TriggerSpec``, ``spec_of`` reads a stored one; ``parse_every``, ``parse_cron``
and ``parse_rrule`` make the text of one from what a caller gives, and ``check`` refuses rules that never fire. All
decisions about zones, gaps and folds are made in this package and nowhere else.

Reading order: spec, zones, days, times, walls (sets of local times), projection (local times to instants),
then the rules every, cron, rrule with parts and recurrence, and bounded with build.
"""

from zsched.core.triggers.bounded import Trigger, nth_after
from zsched.core.triggers.build import build, check
from zsched.core.triggers.cron import parse_cron
from zsched.core.triggers.every import parse_every
from zsched.core.triggers.rrule import parse_rrule
from zsched.core.triggers.spec import Fold, Gap, TriggerKind, TriggerSpec, spec_of
from zsched.core.triggers.zones import resolve_local, zone

__all__ = [
    "Fold",
    "Gap",
    "Trigger",
    "TriggerKind",
    "TriggerSpec",
    "build",
    "check",
    "nth_after",
    "parse_cron",
    "parse_every",
    "parse_rrule",
    "resolve_local",
    "spec_of",
    "zone",
]
