"""
The occurrences of a trigger without some of them: a layer for those of EXDATE, one for those at excluded times, and one
for those that somebody skips by hand, always the outermost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zsched.core.triggers.bounded import Trigger
from zsched.core.triggers.calendars import Closed
from zsched.core.triggers.exclusions import Exclusions
from zsched.core.triggers.spec import TriggerSpec
from zsched.errors import TriggerError

_MOST_CLOSED: Final = 5000  # of excluded times, one after another: more than thirteen years of nights


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
            closed = self.closed.at(found)
            if closed is None:
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
