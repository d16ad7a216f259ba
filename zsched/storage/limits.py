"""What stands aside because its queue has no room by its limit: read from Redis, as fire.lua left it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from zsched.core.log import text
from zsched.core.model import Priority
from zsched.storage.keys import Keys
from zsched.storage.meta import asking
from zsched.storage.scripts import Channel


class Aside(NamedTuple):
    """One lane's schedules of one queue, in the ZSET ``Keys.aside``; it may be empty by now."""

    lane: Priority
    queue: str

    def key(self, keys: Keys) -> str:
        """Of the ZSET."""
        return keys.aside(self.lane, self.queue)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """How many schedules stand aside for a queue, by its limit; ``per_second`` is None when that has just ended."""

    queue: str
    per_second: float | None
    waiting: int


def asides(channel: Channel, keys: Keys) -> list[Aside]:
    """
    All that may hold something. A schedule goes there from its lane, unlogged, and back into it only by what is logged:
    who reads the lanes first, then asks here and reads these, misses none but what the log tells of.
    """
    found = []
    with asking(keys.meta()):
        words = channel.execute("HGET", keys.meta(), "aside")
    for word in text(words or b"").split(" "):
        lane, _, queue = word.partition(":")
        with suppress(ValueError):  # another writer's
            found += [Aside(Priority(lane), queue)] if queue else []
    return found


def held_back(counts: Iterable[tuple[Aside, int]], limits: Sequence[bytes]) -> list[HeldBack]:
    """What the numbers of those that stand aside amount to, by queue; *limits* is the hash of them."""
    rates = {text(queue): _per_second(row) for queue, row in zip(limits[::2], limits[1::2], strict=True)}
    waiting: Counter[str] = Counter()
    for aside, count in counts:
        waiting[aside.queue] += count
    return [HeldBack(queue, rates.get(queue), waiting[queue]) for queue in sorted(waiting) if waiting[queue]]


def _per_second(row: bytes) -> float | None:
    try:
        return float(row.split(b" ")[0])
    except ValueError:
        return None
