"""
Jitter: how much later than its nominal time an occurrence is due, so that not all of one rule come at once.

The same for the same id and nominal time, in every process and after any restart, and spread evenly over
``[0, jitter]``. A one-shot has one time of its own, so there its id alone decides: ``at`` moved by an hour is due an
hour later.
"""

from __future__ import annotations

from hashlib import blake2b

from zsched.core.triggers import Trigger


def due_of(trigger: Trigger, id: str, nominal_ms: int) -> int:
    """
    Return when the occurrence *nominal_ms* of schedule *id* is due: within its jitter, and before the next occurrence.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    most_ms = trigger.spec.jitter_ms
    if not most_ms:
        return nominal_ms
    next_ms = trigger.next_after(nominal_ms)
    room_ms = most_ms if next_ms is None else min(most_ms, next_ms - nominal_ms - 1)
    return nominal_ms + _spread(f"{id} {nominal_ms}", room_ms)


def delay_of(id: str, most_ms: int) -> int:
    """Return by how much a one-shot of jitter *most_ms* is delayed."""
    return _spread(id, most_ms)


def _spread(text: str, most_ms: int) -> int:
    """A number from 0 to *most_ms* that only *text* decides."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") % (most_ms + 1)
