"""
RQ's registries, per queue, and its queues. Nothing here writes.

``rq:finished:<queue>`` and ``rq:failed:<queue>`` (failed, stopped and abandoned jobs) are ZSETs of job ids, each with
the second at which RQ will delete it. ``rq:wip:<queue>`` is a ZSET of ``<job id>:<execution id>``, each with the second
at which its worker's heartbeat expires, by the worker's clock.

Keys may have a wrong type, or be forbidden to this user: ``allowed_replies`` continues with the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from redis.exceptions import NoPermissionError

from zsched.core.entry import text
from zsched.core.pages import pages_of
from zsched.core.runs.job import ms_of
from zsched.errors import RedisRefused
from zsched.storage.connection import Command, Wire
from zsched.storage.rqkeys import Registry, RqKeys


def allowed_replies(wire: Wire, commands: Iterable[Command]) -> list[Any]:
    """Return the replies to *commands*; None for a key of a wrong type. Raises RedisRefused for a forbidden command."""
    found = wire.replies(commands)
    for reply in found:
        if isinstance(reply, RedisRefused) and is_denied(reply):
            raise reply
    return [None if isinstance(reply, RedisRefused) else reply for reply in found]


def members(wire: Wire, key: str, most: int) -> list[str]:
    """Return at least *most* members of the set *key*, or all, sorted. Raises RedisRefused, RedisUnavailable."""
    if wire.execute("SCARD", key) <= most:  # not every role may scan
        return sorted(map(text, wire.execute("SMEMBERS", key)))
    found, cursor = set[str](), b""
    while cursor != b"0" and len(found) < most:
        cursor, page = wire.execute("SSCAN", key, cursor or b"0", "COUNT", most)
        found.update(map(text, page))
    return sorted(found)


def is_denied(error: RedisRefused) -> bool:
    """Return True if the user lacked a right."""
    return isinstance(error.__cause__, NoPermissionError)


_PAGE: Final = 5000  # members in one reply: 0.7 ms of Redis
_SAMPLE: Final = 10  # members of one registry

_NEVER: Final = (b"inf", b"-inf")  # scores of jobs that RQ keeps for ever

Span = tuple[str, int, int]  # a registry's key, first and last score


_LINE: Final = 10_000  # runs of a queue that are read: 300 kB


class Line(NamedTuple):
    """
    The front of a queue. ``ids``: the next jobs for workers. A run that was pushed before ``since_ms`` and is not among
    them is not in the queue. ``since_ms`` None: unknown.
    """

    ids: frozenset[str]
    since_ms: float | None


def queue_keys(wire: Wire, rq: RqKeys) -> list[bytes]:
    """
    Return the keys of all queues that RQ knows, sorted. Return none if ``rq:queues`` is of a wrong type, which the
    leader reports. Raises RedisRefused.
    """
    try:
        return sorted(wire.execute("SMEMBERS", rq.queues()))
    except RedisRefused:
        if wire.execute("TYPE", rq.queues()) in (b"set", b"none"):
            raise
        return []


AnyKey = TypeVar("AnyKey", bound=str | bytes)
_LOOKED_FOR: Final = 500  # keys in one command: 0.1 ms of Redis


def existing(wire: Wire, keys: Iterable[AnyKey]) -> set[AnyKey]:
    """
    Return the *keys* that exist, and at most three others for each. A command asks for 500 keys, and those with
    some are asked in smaller parts. So hundreds of queues without a registry cost one command. Raises
    RedisRefused, RedisUnavailable.
    """
    found, size = list(keys), _LOOKED_FOR
    while size:
        pages = list(pages_of(found, size))
        counts = wire.execute_all(("EXISTS", *page) for page in pages)
        found = [key for page, count in zip(pages, counts, strict=True) if count for key in page]
        size = 0 if 4 * sum(counts) >= len(found) else size // 5
    return set(found)


class Registries:
    """Reads over one wire. Raises RedisUnavailable, RedisRefused."""

    def __init__(self, wire: Wire, rq: RqKeys) -> None:
        self._wire, self._rq = wire, rq

    def keys(self) -> dict[str, str]:
        """Return the registries of the queues that RQ knows, each with its kind: ``finished`` or ``failed``."""
        kinds: tuple[Registry, ...] = ("finished", "failed")
        queues = self.queues()
        keys = {self._rq.registry(kind, queue): kind for kind in kinds for queue in queues}
        there = existing(self._wire, keys)
        return {key: kind for key, kind in keys.items() if key in there}

    def queues(self) -> list[str]:
        """Return the names of all queues that RQ knows."""
        return sorted(self._rq.queue_name(text(key)) for key in queue_keys(self._wire, self._rq))

    def lapsed(self, until_s: int) -> dict[str, list[str]]:
        """Return, by job, its executions with heartbeats that expired up to second *until_s* of their workers."""
        found: dict[str, list[str]] = {}
        started = existing(self._wire, (self._rq.registry("wip", queue) for queue in self.queues()))
        for members in self.members([(key, 0, until_s) for key in started]):
            for member in members:
                found.setdefault(text(member).partition(":")[0], []).append(text(member))
        return found

    def heads(self, queues: Sequence[str]) -> dict[str, float]:
        """Return, by queue, the time of its first job's push, in ms; infinite for an empty queue or an unknown time."""
        heads = list(self._all(("LINDEX", self._rq.queue(queue), 0) for queue in queues))
        found = dict.fromkeys(queues, float("inf"))
        standing = [(queue, head) for queue, head in zip(queues, heads, strict=True) if head]
        pushed = self._all(("HGET", self._rq.job(head), "enqueued_at") for _, head in standing)
        for (queue, _), at in zip(standing, pushed, strict=True):
            found[queue] = (ms_of(text(at)) if isinstance(at, bytes) else None) or float("inf")
        return found

    def line(self, queue: str) -> Line:
        """
        Return the front of *queue*. Jobs pushed at the back are in the order of their times; jobs pushed at the front
        are before them, the newest first. So after a place with rising times, all jobs are later.
        """
        key = self._rq.queue(queue)
        replies = self._all([("LLEN", key), ("LRANGE", key, 0, _LINE - 1)])
        length, ids = next(replies), next(replies)
        if length == []:  # not a list
            return Line(frozenset(), None)
        known = frozenset(map(text, ids))
        if length <= _LINE:
            return Line(known, float("inf"))
        middle_ms, last_ms = (
            ms_of(text(at)) if isinstance(at, bytes) else None
            for at in self._all(("HGET", self._rq.job(id), "enqueued_at") for id in (ids[len(ids) // 2], ids[-1]))
        )
        rises = middle_ms is not None and last_ms is not None and middle_ms < last_ms
        return Line(known, last_ms if rises else None)

    def on_their_way(self, queue: str, run_ids: Sequence[str]) -> set[str]:
        """Return the runs of *run_ids* that a worker took from *queue* and has not started."""
        started = self._all(("EXISTS", self._rq.executions(run_id)) for run_id in run_ids)
        found = {run_id for run_id, is_there in zip(run_ids, started, strict=True) if is_there}
        taken = next(self._all([("LRANGE", self._rq.intermediate(queue), 0, -1)]))
        return found | (set(map(text, taken)) & set(run_ids))

    def depths(self) -> dict[str, int]:
        """Count the waiting jobs of each queue that RQ knows; a key of a wrong type does not count."""
        queues = self.queues()
        replies = self._all(("LLEN", self._rq.queue(queue)) for queue in queues)
        return {queue: depth for queue, depth in zip(queues, replies, strict=True) if isinstance(depth, int)}

    def now_s(self) -> int:
        """Return the server's time."""
        return int(self._wire.execute("TIME")[0])

    def members(self, spans: Sequence[Span]) -> list[list[bytes]]:
        """Return the members in each of *spans*; a key of a wrong type has none."""
        found: list[list[bytes]] = list(self._all(_range(span, 0) for span in spans))
        for span, members in zip(spans, found, strict=True):
            read = _PAGE
            while len(members) == read:
                members += next(self._all([_range(span, read)]))
                read += _PAGE
        return found

    def lifetimes(self, keys: Sequence[str]) -> dict[str, set[int]]:
        """Return, by registry, for how many seconds RQ keeps ended jobs, from a few random members of each."""
        samples = [_scored(flat) for flat in self._all(("ZRANDMEMBER", key, _SAMPLE, "WITHSCORES") for key in keys)]
        members = [(key, *member) for key, sample in zip(keys, samples, strict=True) for member in sample]
        ended = self._all(("HGET", self._rq.job(id), "ended_at") for _, id, _ in members)
        shown: dict[str, set[int]] = {key: set() for key in keys}
        for (key, _, until_s), ended_at in zip(members, ended, strict=True):
            ended_ms = ms_of(text(ended_at)) if isinstance(ended_at, bytes) else None
            if ended_ms is not None and until_s > ended_ms // 1000:
                shown[key].add(until_s - ended_ms // 1000)
        return shown

    def _all(self, commands: Iterable[Command]) -> Iterator[Any]:
        """Yield the replies to *commands*, pipelined; [] for a refused one, for example at a key of a wrong type."""
        return iter([[] if isinstance(reply, RedisRefused) else reply for reply in self._wire.replies(commands)])


def _range(span: Span, offset: int) -> tuple[Any, ...]:
    return "ZRANGEBYSCORE", *span, "LIMIT", offset, _PAGE


def _scored(flat: Sequence[bytes]) -> list[tuple[bytes, int]]:
    """Return members with their scores, without those that RQ keeps for ever: their scores have no time."""
    return [(id, int(float(score))) for id, score in zip(flat[::2], flat[1::2], strict=True) if score not in _NEVER]
