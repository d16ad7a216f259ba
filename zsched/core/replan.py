"""
Re-planning: where an occurrence that waits goes when the rules of its zone have changed. Pure.

When a schedule is due next was computed once, by the rules that its zone had then. By other rules the same occurrence
is at another time: daily at 09:00 is an hour earlier in a country that gave up winter time. All that is known of the
old rules is what came of them: *nominal*, the time of the occurrence that waits, and the last one that fired. So the
one that waits is the occurrence of the new rules that is nearest to it, and later than what fired; what comes after
that follows from the rule. It is moved, not made anew: one that fired at 09:00 as that was then is not repeated when
the new rules make it 10:00, nor is the next one left out. Doing it once more changes nothing, so it may begin again.

A new time that has passed is due at once, and fires late. A time that the new rules do not have (a gap with
``gap="skip"``) gives way to the next one; where no more comes, the one that was promised stays.

Not guaranteed: that occurrences which are nearer to each other than the zone's change is large are told apart. By the
new rules one of them may be at the time at which another one fired: that time does not fire again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from zsched.core.difference import Held
from zsched.core.run_id import RunId
from zsched.core.triggers import Trigger, build, due_of, spec_of

_REACH_MS: Final = 12 * 3_600_000  # back in time; zones change by an hour or two, and what is a day off is another one
_PLACES: Final = ("due", "paused")  # where an occurrence waits


class Move(NamedTuple):
    """A schedule as it was seen, and where its occurrence goes; times in ms."""

    id: str
    version: str
    due_ms: int
    nominal_ms: int
    new_nominal_ms: int
    new_due_ms: int


def move_of(held: Held) -> Move | None:
    """
    Return the move of the occurrence of *held*; None when it stays.

    Raises:
        TriggerError, InvalidSchedule, ValueError, KeyError, TypeError: what is stored of it is broken.
    """
    if held.run or held.place not in _PLACES or held.nominal_ms is None or held.due_ms is None:
        return None
    own = held.split()[1]
    spec = spec_of(own["trigger"])
    if not spec.is_of_zone:
        return None
    trigger = build(spec, int(own["anchor"]))
    last = RunId.parse(held.last) if held.last else None
    fired_ms = last.nominal_ms if last is not None and not last.rerun else None  # an extra run is no occurrence
    new_ms = moved(trigger, held.nominal_ms, fired_ms)
    if new_ms is None:
        return None
    new_due_ms = due_of(trigger, held.id, new_ms)
    return Move(held.id, own["version"].decode(), held.due_ms, held.nominal_ms, new_ms, new_due_ms)


def moved(trigger: Trigger, nominal_ms: int, fired_ms: int | None) -> int | None:
    """
    Return where *trigger* has the occurrence that waited for *nominal_ms*, when the last fired one was of *fired_ms*
    (None: not known); None when it stays. Later than *fired_ms*, and of two that are as near the later one.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    before_ms = trigger.last_until(nominal_ms)
    if before_ms == nominal_ms:
        return None
    after_ms = trigger.next_after(nominal_ms)
    if before_ms is None or nominal_ms - before_ms > _REACH_MS or (fired_ms is not None and before_ms <= fired_ms):
        return after_ms
    is_nearer = after_ms is None or nominal_ms - before_ms < after_ms - nominal_ms
    return before_ms if is_nearer else after_ms
