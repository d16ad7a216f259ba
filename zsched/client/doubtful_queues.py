"""
Doubtful queues: shared by urgent and bulk schedules, or misspelt. ``zsched add`` and ``zsched apply`` note them.

Priority decides the order of pushes. In the queue a run waits behind all that was pushed before, so an urgent one waits
behind a campaign. A run in a misspelt queue waits until somebody corrects it.

Not guaranteed: only the next ``_LOOKED_AT`` schedules of a lane are compared, so that the look stays cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from zsched.core.model import Definition, Schedule
from zsched.core.options.choices import Priority
from zsched.storage.queues import similar
from zsched.storage.reader import Reader

_LOOKED_AT: Final = 200
_OPPOSITE: Final = {Priority.HIGH: Priority.LOW, Priority.LOW: Priority.HIGH}


class SharedQueue(NamedTuple):
    """A queue with the id of an urgent schedule and of a bulk one."""

    queue: str
    high: str
    low: str

    def __str__(self) -> str:
        return (
            f"queue {self.queue!r} has urgent schedules (high: {self.high}) and bulk ones (low: {self.low}). Priority "
            "ends at the push: an urgent run waits behind the bulk runs in the queue. Give it a queue and workers of "
            "its own, or at_front"
        )


class MisspeltQueue(NamedTuple):
    """A queue without a worker, and one with workers that has a similar name."""

    queue: str
    meant: str

    def __str__(self) -> str:
        return f"nobody listens to queue {self.queue!r}; did you mean {self.meant!r}?"


def misspelt_queues(heard: set[str], put: Iterable[Schedule | Definition]) -> list[MisspeltQueue]:
    """Return the queues of *put* that may be misspelt; *heard*: those with workers."""
    queues = sorted({one.queue for one in put} - heard)
    return [MisspeltQueue(queue, meant) for queue in queues if (meant := similar(queue, heard)) is not None]


def shared_queues(reader: Reader, put: Iterable[Schedule | Definition]) -> list[SharedQueue]:
    """Return the queues in which schedules of *put* share with each other, or with what Redis has, by name."""
    found: dict[str, dict[Priority, str]] = {}
    for one in put:
        if one.priority in _OPPOSITE:
            found.setdefault(one.queue, {}).setdefault(one.priority, one.id)
    for lane, opposite in _OPPOSITE.items():
        lacking = {queue for queue, ids in found.items() if lane not in ids and opposite in ids}
        for one in reader.head_of(lane, _LOOKED_AT) if lacking else ():
            if one.queue in lacking:
                found[one.queue].setdefault(lane, one.id)
    both = {queue: ids for queue, ids in found.items() if len(ids) == len(_OPPOSITE)}
    return [SharedQueue(queue, ids[Priority.HIGH], ids[Priority.LOW]) for queue, ids in sorted(both.items())]
