"""The whole content of a namespace, read in pages, each with the log's end at its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from zsched.core.entry import Position, text
from zsched.core.options.choices import Priority
from zsched.core.pages import pages_of
from zsched.core.record import Place, Record
from zsched.core.runs.run_id import RunId, nominal_ms_of, run_key
from zsched.errors import RedisRefused
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.meta import throttled_sets
from zsched.storage.records import PAGE, read_records
from zsched.storage.registries import queue_keys
from zsched.storage.scripts import Scripts

Page = tuple[Position | None, list[Record]]


class Scanner:
    """Reads one namespace over one wire."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys, self._scripts = wire, keys, Scripts(wire, keys)

    def ids(self) -> Iterator[str]:
        """Yield the ids of all schedules, some twice."""
        yield from chain.from_iterable(self.ids_in_places())
        yield from chain.from_iterable(self.ids_of_rules())

    def ids_of_rules(self) -> Iterator[list[str]]:
        """Yield the ids of recurring schedules, one reply of Redis after the other; some twice."""
        yield from self._scan("SSCAN", self._keys.recurring(), 1)

    def ids_in_places(self) -> Iterator[list[str]]:
        """
        Yield the ids in lanes, throttled, paused or in quarantine, one reply of Redis after the other; some come twice.
        An id that moves meanwhile may be missing: its move is in the log, or it was throttled. Throttled ones are read
        after the lanes.
        """
        keys = self._keys
        for lane in Priority:
            yield from self._scan("ZSCAN", keys.due(lane), 2)
        for throttled in throttled_sets(self._wire, keys):
            yield from self._scan("ZSCAN", throttled.key(keys), 2)
        yield from self._scan("HSCAN", keys.paused(), 2)
        yield from self.ids_in_quarantine()

    def ids_in_quarantine(self) -> Iterator[list[str]]:
        """Yield the ids in quarantine, one reply of Redis after the other; some come twice."""
        yield from self._scan("HSCAN", self._keys.quarantine(), 2)

    def missing(self, schedules: Sequence[tuple[str, str]]) -> list[str]:
        """
        Return the *schedules*, each given with the rest of its waiting run's id ('' for a recurring schedule),
        that have no place, or no hash, template or job.
        """
        return list(map(text, self._scripts.call("audit", rows=list(chain.from_iterable(schedules)))))

    def schedules(self, ids: Iterable[str]) -> Iterator[Page]:
        """Yield the existing schedules of *ids*, in pages."""
        for _, at, found in read_records(self._scripts, self._keys, ids):
            yield at, found

    def run_ids(self) -> Iterator[str]:
        """
        Yield the ids of this namespace's open runs, some twice: in RQ's queues, waiting for another run, for another
        attempt or for a slot of their rate limit, or executed.

        A queue is read from its end: pushes meanwhile are in the log, and workers that take jobs from the front move
        nothing. Runs that wait elsewhere go into a queue from there, so they are read before. Runs that workers took
        are read after, also if a worker died before it started them.
        """
        rq = self._keys.rq
        chains = self._wire.execute("HKEYS", self._keys.chains()) if self._is(self._keys.chains(), b"hash") else []
        for key in (self._keys.waiting(text(id)) for id in chains):
            if self._is(key, b"list"):
                yield from self._ours(map(text, self._wire.execute("LRANGE", key, 0, -1)))
        queues = queue_keys(self._wire, self._keys.rq)
        for queue in queues:
            yield from self._waiting(rq.registry("scheduled", rq.queue_name(queue)))
        if self._is(rq.limits(), b"set"):  # a run may move from a registry to its limit, and then to its queue
            for limit in self._wire.execute("SMEMBERS", rq.limits()):
                yield from self._waiting(rq.limit_waiting(limit))
        for queue in filter(lambda queue: self._is(queue, b"list"), queues):
            last = -1
            while page := self._wire.execute("LRANGE", queue, last - PAGE + 1, last):
                yield from self._ours(map(text, page))
                last -= PAGE
        for queue in queues:
            yield from self._ours(text(member).partition(":")[0] for member in self._taken(rq.queue_name(queue)))

    def runs(self, run_ids: Iterable[str], at: Position | None) -> Iterator[Page]:
        """
        Yield the *run_ids* with existing jobs, in pages, read when the log ended with *at* or later; without
        cancelled runs that are still in a long queue.
        """
        for page in pages_of(run_ids, PAGE):
            found, job = list[Record](), self._keys.rq.job
            records = self._wire.replies(("HGETALL", job(run_id)) for run_id in page)
            for run_id, record in zip(page, records, strict=True):
                if not isinstance(record, RedisRefused):
                    found += self._open(run_id, record)
                elif self._wire.execute("TYPE", job(run_id)) == b"hash":  # a key of another type is another writer's
                    raise record
            yield at, found

    def _open(self, run_id: str, record: list[bytes]) -> Iterator[Record]:
        """Yield the run, if its job exists and was not cancelled."""
        key = run_key(run_id)
        if record and key is not None and b"zs_gone" not in record[::2]:
            note = "uncertain" if b"zs_uncertain" in record[::2] else None
            yield Record(*key, Place.OPEN, "", nominal_ms_of(key[1]), record, note=note)

    def _ours(self, members: Iterable[str]) -> Iterator[str]:
        return (member for member in members if RunId.ours(member, self._keys.namespace))

    def _waiting(self, key: bytes) -> Iterator[str]:
        """Yield the runs in the ZSET at *key*."""
        if self._is(key, b"zset"):
            yield from self._ours(chain.from_iterable(self._scan("ZSCAN", key, 2)))

    def _taken(self, queue: bytes) -> Iterator[bytes]:
        """Yield jobs that workers took from *queue* and have not started, then executions."""
        taken, started = self._keys.rq.intermediate(queue), self._keys.rq.registry("wip", queue)
        if self._is(taken, b"list"):
            yield from self._wire.execute("LRANGE", taken, 0, -1)
        if self._is(started, b"zset"):
            yield from self._wire.execute("ZRANGE", started, 0, -1)

    def _is(self, key: str | bytes, kind: bytes) -> bool:
        """Return True if *key* has the type that RQ gives it. Another type, left by another writer, holds no runs."""
        return bool(self._wire.execute("TYPE", key) == kind)

    def _scan(self, command: str, key: str | bytes, width: int) -> Iterator[list[str]]:
        cursor = b"0"
        while True:
            cursor, flat = self._wire.execute(command, key, cursor, "COUNT", PAGE)
            yield [text(member) for member in flat[::width]]
            if cursor == b"0":
                return
