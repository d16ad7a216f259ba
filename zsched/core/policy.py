"""
What becomes of a recurring schedule that is due: the one pure decision of the tick.

Catch-up is ``latest``: a schedule that is late by several occurrences fires the latest one; those
before it are coalesced into one ranged record, at a cost that does not grow with their number.
"""

from __future__ import annotations

from dataclasses import dataclass

from zsched.core.triggers import Trigger
from zsched.errors import TriggerError


@dataclass(frozen=True, slots=True)
class Range:
    """Consecutive occurrences with one outcome: first and last nominal time, and how many."""

    first_ms: int
    last_ms: int
    count: int


@dataclass(frozen=True, slots=True)
class Plan:
    """``fire_ms`` is pushed, ``coalesced`` recorded, ``next_ms`` comes then (None: the trigger is exhausted)."""

    fire_ms: int
    coalesced: Range | None
    next_ms: int | None


def plan(trigger: Trigger, nominal_ms: int, now_ms: int) -> Plan:
    """
    Decide what becomes of a schedule whose next occurrence was *nominal_ms*, at *now_ms*.

    Pure: same arguments, same plan. ``next_ms`` is strictly later than *now_ms*. The occurrence
    *nominal_ms* was promised, so it fires even if the zone's rules have changed since.

    Raises:
        TriggerError: the trigger cannot produce a time (evaluation bound reached).
    """
    next_ms = trigger.next_after(max(now_ms, nominal_ms))
    if next_ms is not None and next_ms <= nominal_ms:
        raise TriggerError(f"the trigger went back from {nominal_ms} to {next_ms}")
    latest_ms = trigger.last_until(now_ms)
    if latest_ms is None or latest_ms <= nominal_ms:
        return Plan(nominal_ms, None, next_ms)
    between = trigger.count_between(nominal_ms, latest_ms)  # the latest is among them, nominal is not
    last_ms = trigger.last_until(latest_ms - 1)
    coalesced = Range(nominal_ms, nominal_ms if last_ms is None else max(last_ms, nominal_ms), between)
    return Plan(latest_ms, coalesced, next_ms)
