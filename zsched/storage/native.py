"""RQ's own delayed jobs (``enqueue_at``, ``enqueue_in``, ``Retry(interval=…)``): the typed call of native.lua."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from zsched.core.entry import text
from zsched.core.pages import pages_of
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.registries import existing
from zsched.storage.scripts import Scripts

LOCK_S = 30  # a queue is RQ's again this long after the last daemon was killed


class MovedJobs(NamedTuple):
    """
    Result of one call. ``next_ms``: the time of the next job: ``now_ms`` if it is due, None if no job waits.
    ``others``: queue → holder of its lock, for queues that another scheduler serves. ``broken``: queue → key of a wrong
    type, for queues that cannot be served. ``odd``: queue and id of jobs that were not pushed, with the reason:
    ``gone``, ``no status``, WRONGTYPE, or the status in RQ.
    """

    now_ms: int
    next_ms: int | None
    looked: int
    pushed: int
    others: dict[bytes, str]
    broken: dict[bytes, str]
    odd: list[tuple[bytes, bytes, str]]

    @property
    def has_more(self) -> bool:
        """True if due jobs were left for another call."""
        return self.next_ms is not None and self.next_ms <= self.now_ms


class NativeJobs:
    """
    The leader's operations over its wire. A queue is served only while its ``rq:scheduler-lock`` is free or the
    namespace's. So a worker --with-scheduler leaves it alone, and a new leader need not wait.
    """

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys, self._scripts = wire, keys, Scripts(wire, keys)
        self._owner = f"zsched:{keys.namespace}"

    def queues(self) -> list[bytes]:
        """The queues that RQ knows, in the order of their names. Raises RedisRefused."""
        rq = self._keys.rq
        members = self._wire.execute("SMEMBERS", rq.queues())
        return sorted(rq.queue_name(member) for member in members if member.startswith(rq.queue(b"")))

    def with_jobs(self, queues: Iterable[bytes]) -> set[bytes]:
        """Return the *queues* that have delayed jobs. Raises RedisRefused."""
        registries = {self._keys.rq.registry("scheduled", queue): queue for queue in queues}
        return {registries[key] for key in existing(self._wire, registries)}

    def move(self, term: Term, queues: Sequence[bytes], limit: int) -> MovedJobs:
        """
        Read the first *limit* jobs of *queues* with a score up to the current second, and push the due ones. Raises
        Stale, ServerChanged, RedisRefused.
        """
        now_ms, next_ms, looked, pushed, others, broken, odd = self._call(term, queues, LOCK_S, limit)
        return MovedJobs(
            now_ms=now_ms,
            next_ms=int(next_ms) if next_ms != b"" else None,
            looked=looked,
            pushed=pushed,
            others={queue: text(holder) for queue, holder in pages_of(others, 2)},
            broken={queue: text(key) for queue, key in pages_of(broken, 2)},
            odd=[(queue, id, text(word)) for queue, id, word in pages_of(odd, 3)],
        )

    def release(self, term: Term, queues: Sequence[bytes]) -> None:
        """Release our locks of *queues*. Raises as ``move``."""
        self._call(term, queues, 0, 0)

    def _call(self, term: Term, queues: Sequence[bytes], lock_s: int, limit: int) -> list[Any]:
        return self._scripts.call("native", owner=self._owner, lock_s=lock_s, limit=limit, rows=queues, **term.fence)
