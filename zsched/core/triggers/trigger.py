"""
Triggers as the rest of zsched sees them: a rule between its start, its end and its count.

``build`` makes one of a ``TriggerSpec``, ``check`` is asked at schedule time. Nothing is remembered from one call to
the next. ``count`` counts occurrences from the start, whether they were run or not, and is computed; so a trigger gives
the same answers in every process and after any gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from zsched.core.triggers.spec import Rule, TriggerSpec
from zsched.core.triggers.zones import FLOOR_S, HORIZON_S
from zsched.errors import InvalidSchedule, TriggerError


class Trigger(Protocol):
    """The occurrences of one rule: a strictly ascending sequence of epoch milliseconds."""

    @property
    def spec(self) -> TriggerSpec:
        """The value that the trigger was built from."""

    def next_after(self, after_ms: int) -> int | None:
        """The first occurrence strictly later than *after_ms*; None when there is none any more."""

    def last_until(self, until_ms: int) -> int | None:
        """The last occurrence not later than *until_ms*; None when there is none yet."""

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]. The cost does not grow with their number."""


@dataclass(frozen=True, slots=True)
class BoundedTrigger:
    """
    The occurrences of *rule* in (after_ms, ends_ms], and of these only the first *count*.

    None for ``ends_ms`` or ``count``: no such bound.
    """

    spec: TriggerSpec
    rule: Rule
    after_ms: int
    ends_ms: int | None
    count: int | None

    def next_after(self, after_ms: int) -> int | None:
        """See ``Trigger``."""
        found = self.rule.next_after(max(after_ms, self.after_ms))
        if found is None or (self.ends_ms is not None and found > self.ends_ms):
            return None
        if self.count is not None and self.rule.count_between(self.after_ms, found) > self.count:
            return None
        return found

    def last_until(self, until_ms: int) -> int | None:
        """See ``Trigger``."""
        until_ms = until_ms if self.ends_ms is None else min(until_ms, self.ends_ms)
        if until_ms <= self.after_ms:
            return None
        if self.count is not None and self.rule.count_between(self.after_ms, until_ms) > self.count:
            until_ms = nth_after(self.rule, self.after_ms, self.count, until_ms)
        found = self.rule.last_until(until_ms)
        return found if found is not None and found > self.after_ms else None

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """See ``Trigger``."""
        after_ms = max(after_ms, self.after_ms)
        until_ms = until_ms if self.ends_ms is None else min(until_ms, self.ends_ms)
        number = self.rule.count_between(after_ms, until_ms)
        if self.count is None or not number:
            return number
        return min(number, max(self.count - self.rule.count_between(self.after_ms, after_ms), 0))


def nth_after(rule: Rule, after_ms: int, number: int, until_ms: int) -> int:
    """
    The occurrence of *rule* that comes *number*, from 1, after *after_ms*; by halves, not by steps.

    It has to be one not later than *until_ms*: where there are not so many, that is the answer.
    """
    earlier_ms, later_ms = after_ms, until_ms
    while later_ms - earlier_ms > 1:
        middle_ms = (earlier_ms + later_ms) // 2
        if rule.count_between(after_ms, middle_ms) < number:
            earlier_ms = middle_ms
        else:
            later_ms = middle_ms
    return later_ms


def build(spec: TriggerSpec, anchor_ms: int) -> Trigger:
    """
    The trigger of *spec* for a schedule whose rule was created at *anchor_ms*.

    Cheap: what depends on expression and zone only is parsed once and shared by all schedules.
    Occurrences are later than the anchor, or not earlier than ``spec.starts_ms`` if that is given.

    Raises:
        InvalidSchedule: the zone is unknown on this machine.
        TriggerError: ``spec.expr`` is not what ``spec.kind.parse`` returns.
    """
    after_ms = anchor_ms if spec.starts_ms is None else spec.starts_ms - 1
    try:
        rule, ends_ms = spec.kind.rule(spec, anchor_ms), spec.kind.until_ms(spec.expr)
    except InvalidSchedule:
        raise
    except ValueError as exc:
        raise TriggerError(f"the stored {spec.kind.name} {spec.expr[:80]!r} cannot be read: {exc}") from exc
    if spec.ends_ms is not None:
        ends_ms = spec.ends_ms if ends_ms is None else min(ends_ms, spec.ends_ms)
    return BoundedTrigger(spec, rule, after_ms, ends_ms, spec.count)


def check(spec: TriggerSpec, anchor_ms: int) -> None:
    """
    Make sure that a schedule of this rule, created at *anchor_ms*, fires at least once.

    Raises:
        InvalidSchedule: it never would, and why; or a bound makes no sense.
    """
    if spec.count is not None and (isinstance(spec.count, bool) or spec.count < 1):
        raise InvalidSchedule("count", spec.count, "not a positive number", "give 1 or more, or leave it out")
    if spec.starts_ms is not None and spec.ends_ms is not None and spec.ends_ms < spec.starts_ms:
        raise InvalidSchedule("ends", _shown(spec.ends_ms), "earlier than starts", "swap them, or leave one out")
    for name, value in (("starts", spec.starts_ms), ("ends", spec.ends_ms)):
        if value is not None and not FLOOR_S * 1000 <= value < HORIZON_S * 1000:
            raise InvalidSchedule(name, value, "outside the years 1 to 9999", "give an instant within them")
    try:
        trigger = build(spec, anchor_ms)
    except TriggerError:
        spec.kind.parse(spec.expr)  # which says what is wrong
        raise
    lower_ms = anchor_ms if spec.starts_ms is None else spec.starts_ms - 1
    if trigger.next_after(lower_ms) is not None:
        return
    if spec.kind.rule(spec, anchor_ms).next_after(lower_ms) is None:
        raise InvalidSchedule(spec.kind.name, spec.expr, f"never fires: {spec.kind.cause}", "change it")
    if spec.ends_ms is None:
        raise InvalidSchedule(spec.kind.name, spec.expr, "never fires: UNTIL is before its first time", "move it")
    problem = "the schedule never fires: its first time would be later"
    raise InvalidSchedule("ends", _shown(spec.ends_ms), problem, "move ends=, or leave it out")


def _shown(ms: int) -> str:
    """An instant as an error repeats it."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()
