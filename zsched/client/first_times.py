"""
The first time of a recurring schedule: its rule is checked, and planned by the server's clock if that is known.

A script takes a plan only if it is right at the server's time. Otherwise it answers AGAIN with that time. From then on
plans are made by the server's clock, so a client with a wrong clock is refused once, and not for every schedule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zsched.core.clock import Clock
from zsched.core.occurrences import planning
from zsched.core.occurrences.planning import Bracket, PlannedRule
from zsched.core.triggers import TriggerSpec, build, check, has_zone, lag_of, room_of
from zsched.errors import InvalidSchedule, RedisUnavailable
from zsched.storage.store import Store

REPLANS: Final = 5  # plans that are outdated on arrival, before the call gives up
_KEPT: Final = Bracket("0", 0, 0)  # for a stored rule: its time stays, or the script answers AGAIN


class FirstTimes:
    """Plans the first times of rules."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock, self._store = clock, store
        self._ahead_ms = 0  # by which the server's clock is ahead of ours

    def tell(self, server_ms: int) -> None:
        """Note the server's time."""
        self._ahead_ms = server_ms - self._clock.now_ms()

    def plan(self, rule: PlannedRule, id: str) -> Bracket:
        """
        Return the plan of the first time of schedule *id*.

        Raises:
            InvalidSchedule: the rule never fires, or no occurrence is left. TriggerError. RedisUnavailable.
        """
        spec, planned = rule.spec, rule.planned
        if rule.is_stored:  # if it is not as it was, the script answers AGAIN
            rule.is_stored = False
            return _KEPT
        now_ms = self._clock.now_ms() + self._ahead_ms
        if not has_zone(spec.tz):
            return _KEPT
        if planned is None or not planned[0].from_ms <= now_ms < planned[0].until_ms:
            plan = self._planned(spec, now_ms, id)
            if plan.anchor_ms is not None:  # a rule that is counted from here, by this id
                return plan
            room_ms = room_of(build(spec, now_ms), int(plan.next or 0)) if spec.jitter_ms else 0
            planned = rule.planned = plan, room_ms
        plan, room_ms = planned
        return replace(plan, jitter_ms=lag_of(id, int(plan.next or 0), room_ms)) if room_ms else plan

    def _planned(self, spec: TriggerSpec, now_ms: int, id: str) -> Bracket:
        plan = planning.first(spec, now_ms, id)
        if plan.next is None:  # by our clock, or forever: the server's clock decides
            check(replace(spec, ends_ms=None), now_ms)  # a schedule that never fires is refused without Redis
            now_ms = self._store.server_now_ms()
            self.tell(now_ms)
            check(spec, now_ms)
            plan = planning.first(spec, now_ms, id)
        if plan.next is None:
            raise InvalidSchedule("ends", spec.ends_ms, "no occurrence is left before it", "move it")
        return plan


def outdated() -> RedisUnavailable:
    """Return the error for a schedule with ``REPLANS`` plans that were all outdated on arrival."""
    return RedisUnavailable("the occurrences pass faster than Redis answers", "give a longer interval")
