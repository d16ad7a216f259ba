"""
Plans the recurring schedules that a tick found due.

The plan of a cron rule at a nominal time is the same for all schedules of that rule and those policies, so it is
remembered: what is computed depends on the number of distinct rules, not of schedules. Jitter is each schedule's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from zsched.core.policy import ON_TIME_MS, CatchUp, Plan, Policy, plan
from zsched.core.triggers import TriggerKind, TriggerSpec, build
from zsched.storage.dispatch import DueRecurring, PlannedRun

_REMEMBERED = 100_000  # (rule, policies, nominal time); each is about 250 bytes


@dataclass(slots=True)
class Planned:
    """Plans, and the schedules that cannot be planned with the reason of each."""

    good: list[PlannedRun] = field(default_factory=list)
    bad: list[tuple[DueRecurring, bytes]] = field(default_factory=list)


class _Known(NamedTuple):
    """A plan that holds up to ``until_ms``: then another occurrence is due, or this one is too late."""

    plan: Plan
    until_ms: int


class Planner:
    """Plans with a memory; one per connection."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes, bytes], _Known] = {}

    def plan(self, due: Iterable[DueRecurring], now_ms: int) -> Planned:
        """Plan each; one bad schedule never stops the others."""
        planned = Planned()
        for one in due:
            try:
                policy = _policy(one.policy or b"")
                planned.good.append(PlannedRun(one, self._plan(one, policy, now_ms), policy))
            except Exception as error:  # whatever a stored rule can make Python raise is that schedule's problem
                reason = f"cannot be planned: {type(error).__name__}: {error}"[:300].replace("\n", " ")
                planned.bad.append((one, reason.encode(errors="backslashreplace")))
        return planned

    def _plan(self, due: DueRecurring, policy: Policy, now_ms: int) -> Plan:
        key = (due.trigger, due.policy or b"", due.nominal_ms)
        known = self._known.get(key)
        if known is not None and now_ms <= known.until_ms:
            return known.plan
        spec, nominal_ms = _spec(due.trigger), int(due.nominal_ms)
        made = plan(build(spec, int(due.anchor_ms)), nominal_ms, now_ms, policy, due.id.decode())
        is_plain = made.fire_ms == nominal_ms and not made.passed and not spec.jitter_ms
        if is_plain and spec.kind is TriggerKind.CRON and spec.count is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            late_ms = nominal_ms + (ON_TIME_MS if policy.catch_up is CatchUp.NONE else policy.catch_up_window_ms)
            until_ms = late_ms if made.next_ms is None else min(late_ms, made.next_ms - 1)
            self._known[key] = _Known(made, until_ms)
        return made


@lru_cache(maxsize=50_000)
def _spec(trigger: bytes) -> TriggerSpec:
    return TriggerSpec.from_text(trigger.decode())


@lru_cache(maxsize=1000)
def _policy(text: bytes) -> Policy:
    return Policy.from_text(text.decode())
