"""
The sequences of a trigger: ``Bounded`` is a rule within its start, end and count, ``Instants`` are given times, and
``Union`` has the occurrences of two rules. ``trigger.build`` makes a ``Trigger`` of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from zsched.core.triggers.spec import Rule, TriggerSpec


class Trigger(Rule):
    """The occurrences of a schedule's rule. ``spec`` is the value that it was built from."""

    __slots__ = ()
    spec: TriggerSpec


@dataclass(frozen=True, slots=True)
class Bounded(Trigger):
    """The first *count* occurrences of *rule* in (after_ms, ends_ms]; None for ``ends_ms`` or ``count``: no bound."""

    spec: TriggerSpec
    rule: Rule
    after_ms: int
    ends_ms: int | None
    count: int | None

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""
        found = self.rule.next_after(max(after_ms, self.after_ms))
        if found is None or (self.ends_ms is not None and found > self.ends_ms):
            return None
        if self.count is not None and self.rule.count_between(self.after_ms, found) > self.count:
            return None
        return found

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*; None if there is none yet."""
        until_ms = until_ms if self.ends_ms is None else min(until_ms, self.ends_ms)
        if until_ms <= self.after_ms:
            return None
        if self.count is not None and self.rule.count_between(self.after_ms, until_ms) > self.count:
            until_ms = nth_after(self.rule, self.after_ms, self.count, until_ms)
        found = self.rule.last_until(until_ms)
        return found if found is not None and found > self.after_ms else None

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]. The cost does not grow with their number."""
        after_ms = max(after_ms, self.after_ms)
        until_ms = until_ms if self.ends_ms is None else min(until_ms, self.ends_ms)
        number = self.rule.count_between(after_ms, until_ms)
        if self.count is None or not number:
            return number
        return min(number, max(self.count - self.rule.count_between(self.after_ms, after_ms), 0))

    def between(self, after_ms: int, until_ms: int) -> Iterable[int]:
        """Return the occurrences in (after_ms, until_ms]; of an interval as a range."""
        last_ms = self.last_until(until_ms)
        return () if last_ms is None else self.rule.between(max(after_ms, self.after_ms), last_ms)


class Instants(Rule):
    """The instants *times*, in order."""

    def __init__(self, times: Iterable[int]) -> None:
        self._times = tuple(times)

    def next_after(self, after_ms: int) -> int | None:
        """Return the first one strictly later than *after_ms*; None if there are no more."""
        place = bisect_right(self._times, after_ms)
        return self._times[place] if place < len(self._times) else None

    def last_until(self, until_ms: int) -> int | None:
        """Return the last one not later than *until_ms*; None if there is none yet."""
        place = bisect_right(self._times, until_ms)
        return self._times[place - 1] if place else None

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count those in (after_ms, until_ms]."""
        return max(bisect_right(self._times, until_ms) - bisect_right(self._times, after_ms), 0)


class Union(Rule):
    """The occurrences of *rule*, and the *added* ones: each once."""

    def __init__(self, rule: Rule, added: Rule) -> None:
        self._rule, self._added = rule, added

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""
        found = self._rule.next_after(after_ms), self._added.next_after(after_ms)
        return min((ms for ms in found if ms is not None), default=None)

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*; None if there is none yet."""
        found = self._rule.last_until(until_ms), self._added.last_until(until_ms)
        return max((ms for ms in found if ms is not None), default=None)

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]; the cost grows with the number of added ones."""
        added = self._added.between(after_ms, until_ms)
        return self._rule.count_between(after_ms, until_ms) + sum(not self._rule.has(ms) for ms in added)


def nth_after(rule: Rule, after_ms: int, number: int, until_ms: int) -> int:
    """
    Return occurrence *number* of *rule* after *after_ms*, counted from 1; found by bisection.

    If there are fewer occurrences up to *until_ms*, return *until_ms*.
    """
    instants = range(after_ms + 1, until_ms)
    place = bisect_left(instants, number, key=lambda at_ms: rule.count_between(after_ms, at_ms))
    return min(after_ms + 1 + place, until_ms)
