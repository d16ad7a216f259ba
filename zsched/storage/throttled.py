"""
Throttled schedules: their queue has no room by its limit, so fire.lua moved them out of their lane. Nothing here
writes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from zsched.core.entry import text
from zsched.core.model import iso, json_of
from zsched.storage.meta import Throttled, zone_in


class HeldBack(NamedTuple):
    """
    The number of schedules that wait for room in a queue. ``per_second`` is None when its limit has just ended.
    ``since_ms``: the oldest due time among them, or the put or resume of a one-shot, if it was later. ``blocked_by``:
    the queue's key if it is of a wrong type, so that nothing can be pushed.
    """

    queue: str
    per_second: float | None
    waiting: int
    since_ms: int
    blocked_by: str | None = None

    @property
    def zone(self) -> str | None:
        """The zone that the leader's machine lacks, if that is the cause."""
        return zone_in(self.queue)

    @property
    def cause(self) -> str:
        """The setting, ``[queues.mail] max_per_second = 0.05``, or what else is in the way."""
        if self.zone is not None:
            return f"time zone {self.zone}, which the data of the leader's machine lacks"
        if self.blocked_by is not None:
            return f"{self.blocked_by}, which is not a list"
        if self.per_second is None:
            return f"a removed limit of queue {self.queue}: they are released now"
        return f"[queues.{self.queue}] max_per_second = {self.per_second:g}"

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON; the keys are stable."""
        others = {"queue": None if self.zone else self.queue, "since": iso(self.since_ms)}
        names = "queue", "zone", "max_per_second", "blocked_by", "waiting", "since"
        return json_of(self, *names, max_per_second=self.per_second, **others)


def held_back(
    found: Iterable[tuple[Throttled, int, int | None]], limits: Sequence[bytes], blocked: Mapping[str, str]
) -> list[HeldBack]:
    """
    Sum up the throttled schedules by queue. *found*: the sets, each with its size and the time since when its oldest
    waits, None if it is empty. *limits* is the hash of limits; *blocked*: queues whose keys have a wrong type.
    """
    rates = {text(queue): _per_second(row) for queue, row in zip(limits[::2], limits[1::2], strict=True)}
    waiting, since_ms = Counter[str](), dict[str, int]()
    for throttled, count, oldest_ms in found:
        if oldest_ms is not None:
            waiting[throttled.queue] += count
            since_ms[throttled.queue] = min(since_ms.get(throttled.queue, oldest_ms), oldest_ms)
    return [HeldBack(one, rates.get(one), waiting[one], since_ms[one], blocked.get(one)) for one in sorted(waiting)]


def _per_second(row: bytes) -> float | None:
    try:
        return float(row.split(b" ")[0])
    except ValueError:
        return None
