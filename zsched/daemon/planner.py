"""
Plans the recurring schedules that a tick found due.

The plan of a cron rule at a nominal time is the same for all schedules of that rule, so it is
remembered: what is computed depends on the number of distinct rules, not of schedules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from zsched.core.policy import Plan, plan
from zsched.core.triggers import TriggerKind, TriggerSpec, build
from zsched.storage.dispatch import DueRecurring

_REMEMBERED = 100_000  # (rule, nominal time) pairs; a pair is about 200 bytes


@dataclass(slots=True)
class Planned:
    """Plans, and the schedules that cannot be planned with the reason of each."""

    good: list[tuple[DueRecurring, Plan]] = field(default_factory=list)
    bad: list[tuple[DueRecurring, bytes]] = field(default_factory=list)


class Planner:
    """Plans with a memory; one per connection."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Plan] = {}

    def plan(self, due: Iterable[DueRecurring], now_ms: int) -> Planned:
        """Plan each; one bad schedule never stops the others."""
        planned = Planned()
        for one in due:
            try:
                planned.good.append((one, self._plan(one, now_ms)))
            except Exception as error:  # whatever a stored rule can make Python raise is that schedule's problem
                reason = f"cannot be planned: {type(error).__name__}: {error}"[:300].replace("\n", " ")
                planned.bad.append((one, reason.encode(errors="backslashreplace")))
        return planned

    def _plan(self, due: DueRecurring, now_ms: int) -> Plan:
        key = (due.trigger, due.nominal_ms)
        known = self._known.get(key)
        if known is not None and (known.next_ms is None or known.next_ms > now_ms):
            return known
        spec = _spec(due.trigger)
        made = plan(build(spec, int(due.anchor_ms)), int(due.nominal_ms), now_ms)
        if made.coalesced is None and spec.kind is TriggerKind.CRON and spec.count is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = made
        return made


@lru_cache(maxsize=50_000)
def _spec(trigger: bytes) -> TriggerSpec:
    return TriggerSpec.from_text(trigger.decode())
