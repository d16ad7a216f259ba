"""What a rule will do: its next occurrences, in its own zone."""

from __future__ import annotations

from datetime import datetime

from zsched.core.clock import from_ms
from zsched.core.triggers import TriggerSpec, build, zone


def occurrences(spec: TriggerSpec, anchor_ms: int, start_ms: int, n: int) -> list[datetime]:
    """
    Up to *n* occurrences strictly after *start_ms*, aware, in the rule's zone.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    trigger, place = build(spec, anchor_ms), zone(spec.tz)
    found: list[datetime] = []
    at_ms: int | None = start_ms
    while len(found) < n and at_ms is not None:
        at_ms = trigger.next_after(at_ms)
        if at_ms is not None:
            found.append(from_ms(at_ms).astimezone(place))
    return found
