"""
The occurrences of a rule without some of them: those at excluded times (``OpenTrigger``), and those that somebody skips
by hand (``SkippingTrigger``, always the outermost). ``Extended`` is a rule with times of its RDATE added.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from zsched.core.triggers.bounded import Trigger
from zsched.core.triggers.exclusions import Closed, Exclusions
from zsched.core.triggers.spec import stepwise
from zsched.errors import TriggerError

_MOST_CLOSED: Final = 5000  # of excluded times, one after another: more than thirteen years of nights


class NeverOpen(TriggerError):
    """All times of a rule are excluded."""


@dataclass(frozen=True, slots=True)
class OpenTrigger(Trigger):
    """
    The occurrences of a trigger that are at no excluded time. With ``moves``, one at an excluded time happens when that
    ends; those that move to one instant are one occurrence. ``count`` and the bounds are of the occurrences before.
    """

    closed: Exclusions
    moves: bool

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""
        at_ms = after_ms
        if self.moves and (closed := self.closed.at(after_ms)) is not None:
            at_ms = closed.start_ms - 1  # earlier ones of this time happen at its end
        for _ in range(_MOST_CLOSED):
            found = Trigger.next_after(self, at_ms)
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
        while (found := Trigger.last_until(self, at_ms)) is not None:
            closed = self.closed.at(found)
            if closed is None:
                return found
            if self.moves and closed.end_ms <= until_ms:
                return closed.end_ms
            at_ms = closed.start_ms - 1
        return None

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]. The cost grows with the excluded times between them."""
        count = Trigger.count_between(self, after_ms, until_ms)
        for one in self.closed.between(after_ms + 1, until_ms + 1) if count else ():
            first_ms, last_ms = max(one.start_ms - 1, after_ms), min(one.end_ms - 1, until_ms)
            count -= Trigger.count_between(self, first_ms, last_ms)
        if self.moves:
            count += sum(after_ms < self._moved_to(one) <= until_ms for one in self.closed.between(after_ms, until_ms))
        return count

    def _moved_to(self, closed: Closed) -> int:
        """Return the end of *closed* if occurrences move there, and none of the rule is there anyway; else -1."""
        end_ms = closed.end_ms
        is_there = Trigger.count_between(self, end_ms - 1, end_ms)
        return end_ms if not is_there and Trigger.count_between(self, closed.start_ms - 1, end_ms - 1) else -1

    def between(self, after_ms: int, until_ms: int) -> Iterable[int]:
        """Yield the occurrences in (after_ms, until_ms]."""
        return stepwise(self, after_ms, until_ms)

    def newest_excluded(self, until_ms: int) -> tuple[int, str] | None:
        """Return the newest occurrence until *until_ms* if it is excluded, and why; else None."""
        at_ms = Trigger.last_until(self, until_ms)
        closed = None if at_ms is None or at_ms <= (self.last_until(until_ms) or 0) else self.closed.at(at_ms)
        return None if at_ms is None or closed is None else (at_ms, closed.why)

    def excluded(self, after_ms: int, until_ms: int | None) -> Iterator[tuple[int, int, int, str]]:
        """
        Yield the excluded occurrences in (after_ms, until_ms) by excluded time: first, last, number, why. None: up to
        the last one, if no other occurrence follows *after_ms*.
        """
        times = self._rest(after_ms) if until_ms is None else self.closed.between(after_ms + 1, until_ms)
        for closed in times:
            start_ms = max(closed.start_ms - 1, after_ms)
            end_ms = (closed.end_ms if until_ms is None else min(closed.end_ms, until_ms)) - 1
            if number := Trigger.count_between(self, start_ms, end_ms):
                first_ms, last_ms = Trigger.next_after(self, start_ms), Trigger.last_until(self, end_ms)
                assert first_ms is not None
                assert last_ms is not None
                yield first_ms, last_ms, number, closed.why

    def _rest(self, after_ms: int) -> Iterator[Closed]:
        """Yield the excluded times that follow *after_ms* with the last occurrences in them."""
        while (found := Trigger.next_after(self, after_ms)) is not None and (
            closed := self.closed.at(found)
        ) is not None:
            yield closed
            after_ms = closed.end_ms - 1


class Extended(NamedTuple):
    """The occurrences of *rule* within its bounds, and the *added* ones: ascending, each once."""

    rule: Trigger
    added: tuple[int, ...]

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""
        found, added = self.rule.next_after(after_ms), self.added[bisect_right(self.added, after_ms) :][:1]
        return min((*added, *(() if found is None else (found,))), default=None)

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*; None if there is none yet."""
        found, added = self.rule.last_until(until_ms), self.added[: bisect_right(self.added, until_ms)][-1:]
        return max((*added, *(() if found is None else (found,))), default=None)

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]."""
        added = self.added[bisect_right(self.added, after_ms) : bisect_right(self.added, until_ms)]
        return self.rule.count_between(after_ms, until_ms) + sum(
            not self.rule.count_between(ms - 1, ms) for ms in added
        )

    def between(self, after_ms: int, until_ms: int) -> Iterable[int]:
        """Yield the occurrences in (after_ms, until_ms]."""
        return stepwise(self, after_ms, until_ms)


@dataclass(frozen=True, slots=True)
class SkippingTrigger(Trigger):
    """The occurrences of the trigger ``rest`` without those in ``spec.skipped``."""

    rest: Trigger

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""
        found = self.rest.next_after(after_ms)
        while found is not None and found in self.spec.skipped:
            found = self.rest.next_after(found)
        return found

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*; None if there is none yet."""
        found = self.rest.last_until(until_ms)
        while found is not None and found in self.spec.skipped:
            found = self.rest.last_until(found - 1)
        return found

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]."""
        skipped = sum(self.rest.has(at_ms) for at_ms in self.spec.skipped if after_ms < at_ms <= until_ms)
        return self.rest.count_between(after_ms, until_ms) - skipped

    def between(self, after_ms: int, until_ms: int) -> Iterable[int]:
        """Yield the occurrences in (after_ms, until_ms]."""
        return (at_ms for at_ms in self.rest.between(after_ms, until_ms) if at_ms not in self.spec.skipped)


def unskipped(trigger: Trigger) -> Trigger:
    """Return the trigger of the same rule with the occurrences that somebody skips by hand."""
    return trigger.rest if isinstance(trigger, SkippingTrigger) else trigger
