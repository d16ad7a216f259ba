"""Preview of a rule: its next occurrences, in its own zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from zsched.core.clock import from_ms
from zsched.core.triggers import TriggerSpec, build, due_of, zone


def occurrences(
    spec: TriggerSpec, anchor_ms: int, start_ms: int, n: int, id: str = "", first_ms: int = 0
) -> list[datetime]:
    """
    Return the due times of up to *n* occurrences, strictly after *start_ms*, aware, in the rule's zone.

    By the jitter of schedule *id*; the first may have its nominal time before *start_ms*, but not before *first_ms*:
    a schedule that was put between the two does not have it.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    place = zone(spec.tz)
    return [from_ms(due_ms).astimezone(place) for due_ms in islice(_dues(spec, anchor_ms, start_ms, id, first_ms), n)]


def nominal_of(spec: TriggerSpec, anchor_ms: int, due_ms: int) -> int:
    """The nominal time of the occurrence that is due at *due_ms*: the latest, for jitter ends before the next one."""
    nominal_ms = build(spec, anchor_ms).last_until(due_ms)
    return due_ms if nominal_ms is None else nominal_ms


def _dues(spec: TriggerSpec, anchor_ms: int, start_ms: int, id: str, first_ms: int) -> Iterator[int]:
    trigger = build(spec, anchor_ms)
    at_ms = trigger.last_until(start_ms) if spec.jitter_ms else None
    if at_ms is not None and at_ms >= first_ms and (due_ms := due_of(trigger, id, at_ms)) > start_ms:
        yield due_ms
    at_ms = trigger.next_after(start_ms)
    while at_ms is not None:
        yield due_of(trigger, id, at_ms)
        at_ms = trigger.next_after(at_ms)
