"""
Which queues are in use, and which RQ workers listen to them. Nothing here writes.

However much there is, some thousand workers and queues are looked at, and some hundred schedules, in a few round trips.

Not guaranteed: that a worker is known which runs. RQ's workers register when they start, and not again when Redis lost
that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from zsched.core.log import text
from zsched.core.model import Priority
from zsched.core.run_id import RunId
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.limits import asides
from zsched.storage.replies import Command, allowed_replies, members

_WORKERS: Final = 2000  # that are looked at
_QUEUES: Final = 2000
_SCHEDULES: Final = 500  # whose queues are looked at: of the recurring, and of each lane's next
_HEAD: Final = 10  # jobs of a queue, among which a run of the namespace is looked for


@dataclass(frozen=True, slots=True)
class Worker:
    """One of RQ's workers, as it registered itself; RQ forgets one that stopped to beat."""

    name: str
    version: str
    queues: frozenset[str]


class Unheard(NamedTuple):
    """
    A queue that no worker listens to. ``waiting``: how many jobs should be taken from it. ``is_ours``: the namespace's
    schedules use it, or one of its runs is among the next.
    """

    queue: str
    waiting: int
    is_ours: bool


def workers_of(wire: Wire) -> list[Worker]:
    """The workers that live, of the first some thousand that are registered. Raises RedisRefused, RedisUnavailable."""
    names = members(wire, "rq:workers", _WORKERS)
    told = allowed_replies(wire, (("HMGET", name, "version", "queues", "death") for name in names))
    return [
        Worker(name.removeprefix("rq:worker:"), text(row[0] or b"?"), frozenset(text(row[1]).split(",")))
        for name, row in zip(names, told, strict=True)
        if row and row[1] and not row[2]
    ]


def used_queues(wire: Wire, keys: Keys) -> set[str]:
    """The queues of recurring schedules, and of those that are due next: some hundred of each. Raises as above."""
    commands: list[Command] = [
        ("HGET", keys.template(id), "origin") for id in members(wire, keys.recurring(), _SCHEDULES)
    ]
    for lane in Priority:
        flat = wire.execute("ZRANGE", keys.due(lane), 0, _SCHEDULES - 1, "WITHSCORES")
        runs = (keys.run_id(text(id), text(due)) for id, due in zip(flat[::2], flat[1::2], strict=True))
        commands += [("HGET", keys.job(run), "origin") for run in runs]  # of a recurring one there is no such job
    found = {text(queue) for queue in allowed_replies(wire, commands) if queue}
    return found | {aside.queue for aside in asides(wire, keys)}


def unheard(wire: Wire, keys: Keys) -> list[Unheard]:
    """The queues that schedules use, or in which something waits, and to which nobody listens. Raises as above."""
    served = frozenset[str]().union(*(worker.queues for worker in workers_of(wire)))
    used = used_queues(wire, keys)
    known = used | {key.removeprefix("rq:queue:") for key in members(wire, keys.rq_queues(), _QUEUES)}
    deaf = sorted(known - served)
    lengths = allowed_replies(wire, (("LLEN", f"rq:queue:{queue}") for queue in deaf))
    waiting = {queue: length for queue, length in zip(deaf, lengths, strict=True) if length}
    heads = allowed_replies(wire, (("LRANGE", f"rq:queue:{queue}", 0, _HEAD - 1) for queue in waiting))
    ours = {queue for queue, head in zip(waiting, heads, strict=True) if _has_run(head or (), keys.namespace)}
    found = (Unheard(queue, waiting.get(queue, 0), queue in used or queue in ours) for queue in deaf)
    return [one for one in found if one.waiting or one.queue in used]


def _has_run(jobs: Iterable[bytes], namespace: str) -> bool:
    return any(RunId.key(text(job), namespace) for job in jobs)
