"""
Triggers as the rest of zsched sees them: a rule between its start, its end and its count.

Nothing is remembered from one call to the next. ``count`` counts occurrences from the start, whether they
were run or not, and is computed; so a trigger gives the same answers in every process and after any gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from zsched.core.triggers.spec import TriggerSpec


class Rule(Protocol):
    """A set of instants without bounds of its own. Methods as in ``Trigger``."""

    def next_after(self, after_ms: int) -> int | None: ...
    def last_until(self, until_ms: int) -> int | None: ...
    def count_between(self, after_ms: int, until_ms: int) -> int: ...


class Trigger(Protocol):
    """The occurrences of one rule: a strictly ascending sequence of epoch milliseconds."""

    @property
    def spec(self) -> TriggerSpec:
        """What the trigger was built from."""

    def next_after(self, after_ms: int) -> int | None:
        """The first occurrence strictly later than *after_ms*; None when there is none any more."""

    def last_until(self, until_ms: int) -> int | None:
        """The last occurrence not later than *until_ms*; None when there is none yet."""

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """How many occurrences lie in (after_ms, until_ms]. The cost does not grow with their number."""


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
