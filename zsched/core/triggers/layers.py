"""
Triggers, and rules made of other rules, in layers: ``Bounded`` is a rule within its start, end and count, ``Instants``
are given times, and ``Union`` has the occurrences of two rules. ``OpenTrigger`` is a trigger without some of its
occurrences: a layer for those of EXDATE, one for those at excluded times, and one for those that somebody skips by
hand, always the outermost. ``trigger.build`` puts the layers together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zsched.core.triggers.spec import Rule, TriggerSpec
from zsched.errors import TriggerError

if TYPE_CHECKING:
    from zsched.core.triggers.exclusions import Exclusions
    from zsched.core.triggers.spec import Closed

_FIRST_MS: Final = 2**36  # two years: looked at for an occurrence by its number, before twice as much
_MOST_CLOSED: Final = 5000  # of excluded times, one after another: more than thirteen years of nights


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
        if self.count is not None:
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


class NeverOpen(TriggerError):
    """All times of a rule are excluded."""


@dataclass(frozen=True, slots=True)
class OpenTrigger(Trigger):
    """
    The occurrences of the trigger ``rest`` that are at no excluded time. With ``moves``, one at an excluded time
    happens when that ends; those that move to one instant are one occurrence.
    """

    spec: TriggerSpec
    rest: Trigger
    closed: Exclusions
    moves: bool = False

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""
        at_ms = after_ms
        if self.moves and (closed := self.closed.at(after_ms)) is not None:
            at_ms = closed.start_ms - 1  # earlier ones of this time happen at its end
        for _ in range(_MOST_CLOSED):
            found = self.rest.next_after(at_ms)
            closed = None if found is None else self.closed.at(found)
            if closed is None:
                return found
            if self.moves:
                return closed.end_ms
            at_ms = closed.end_ms - 1
        raise NeverOpen("all its next occurrences, as far as one looks, are at excluded times")

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*; None if there is none yet."""
        at_ms = until_ms
        while (found := self.rest.last_until(at_ms)) is not None:
            if (closed := self.closed.at(found)) is None:
                return found
            if self.moves and closed.end_ms <= until_ms:
                return closed.end_ms
            at_ms = closed.start_ms - 1
        return None

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]. The cost grows with the excluded times between them."""
        count = self.rest.count_between(after_ms, until_ms)
        for one in self.closed.between(after_ms + 1, until_ms + 1) if count else ():
            first_ms, last_ms = max(one.start_ms - 1, after_ms), min(one.end_ms - 1, until_ms)
            count -= self.rest.count_between(first_ms, last_ms)
        if self.moves:
            count += sum(after_ms < self._moved_to(one) <= until_ms for one in self.closed.between(after_ms, until_ms))
        return count

    def _moved_to(self, closed: Closed) -> int:
        """Return the end of *closed* if occurrences move there, and none of the rule is there anyway; else -1."""
        end_ms = closed.end_ms
        is_moved = not self.rest.has(end_ms) and self.rest.count_between(closed.start_ms - 1, end_ms - 1)
        return end_ms if is_moved else -1

    def newest_excluded(self, until_ms: int) -> tuple[int, str] | None:
        """Return the newest occurrence until *until_ms* if it is excluded, and why; else None."""
        at_ms = self.rest.last_until(until_ms)
        closed = None if at_ms is None or at_ms <= (self.last_until(until_ms) or 0) else self.closed.at(at_ms)
        return None if at_ms is None or closed is None else (at_ms, closed.why)

    def excluded(self, after_ms: int, until_ms: int | None) -> Iterator[tuple[int, int, int, str]]:
        """
        Yield the excluded occurrences in (after_ms, until_ms) by excluded time: first, last, number, why. None: up to
        the last one, if no other occurrence follows *after_ms*.
        """
        times = self._closed_after(after_ms) if until_ms is None else self.closed.between(after_ms + 1, until_ms)
        for closed in times:
            start_ms = max(closed.start_ms - 1, after_ms)
            end_ms = (closed.end_ms if until_ms is None else min(closed.end_ms, until_ms)) - 1
            if number := self.rest.count_between(start_ms, end_ms):
                first_ms, last_ms = self.rest.next_after(start_ms), self.rest.last_until(end_ms)
                assert first_ms is not None
                assert last_ms is not None
                yield first_ms, last_ms, number, closed.why

    def _closed_after(self, after_ms: int) -> Iterator[Closed]:
        """Yield the excluded times that follow *after_ms* with the last occurrences in them."""
        while (found := self.rest.next_after(after_ms)) is not None and (closed := self.closed.at(found)) is not None:
            yield closed
            after_ms = closed.end_ms - 1


def unskipped(trigger: Trigger) -> Trigger:
    """Return the trigger of the same rule with the occurrences that somebody skips by hand."""
    return trigger.rest if trigger.spec.skipped and isinstance(trigger, OpenTrigger) else trigger


def excluding(trigger: Trigger) -> OpenTrigger | None:
    """Return the layer of *trigger* that leaves out excluded times; None: its rule excludes none."""
    rest = unskipped(trigger) if trigger.spec.exclude else None
    return rest if isinstance(rest, OpenTrigger) else None


def nth_after(rule: Rule, after_ms: int, number: int, until_ms: int) -> int:
    """
    Return occurrence *number* of *rule* after *after_ms*, counted from 1; found by bisection.

    If there are fewer occurrences up to *until_ms*, return *until_ms*. The cost grows with the years up to the result.
    """
    end_ms = min(after_ms + _FIRST_MS, until_ms)
    while rule.count_between(after_ms, end_ms) < number:
        if end_ms == until_ms:
            return until_ms
        end_ms = min(end_ms + (end_ms - after_ms), until_ms)
    instants = range(after_ms + 1, end_ms)
    return after_ms + 1 + bisect_left(instants, number, key=lambda at_ms: rule.count_between(after_ms, at_ms))
