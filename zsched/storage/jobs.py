"""
Runs as read from RQ's job hashes, and from its registries and queues. Nothing here unpickles; only the last lines of a
traceback are kept.

``Jobs`` reads many. ``Notes`` is for a task inside its worker: it reads and writes the run's own job over the job's own
connection. ``Deadlines`` reports deadlines that passed to the leader: Redis dropped the runs that had not started. A
deadline is removed when the run's end is recorded (track.lua). A deadline that was reported ten minutes ago is removed
here: its run started in time and is still running, or is unknown.

**Registries**, per queue. ``rq:finished:<queue>`` and ``rq:failed:<queue>`` (failed, stopped and abandoned jobs) are
ZSETs of job ids, each with the second at which RQ will delete it. ``rq:wip:<queue>`` is a ZSET of
``<job id>:<execution id>``, each with the second at which its worker's heartbeat expires, by the worker's clock. Keys
may have a wrong type, or be forbidden to this user: ``allowed_replies`` continues with the others.
"""

import binascii
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import redis
from redis.exceptions import NoPermissionError

from zsched.core.entry import text
from zsched.core.pages import grouped, pages_of
from zsched.core.runs.attempts import attempts_of, attempts_text, error_of, without_tracebacks
from zsched.core.runs.job import JOB_FIELDS, JobFacts, ms_of
from zsched.core.wording import LONGEST_NAME
from zsched.errors import Contended, RedisRefused, RedisUnavailable
from zsched.storage.connection import Channel, Command, Wire
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms
from zsched.storage.rqkeys import Registry, RqKeys
from zsched.storage.scripts import Scripts, load

_FIELDS: Final = " ".join(JOB_FIELDS.values())
_PAGE: Final = 200  # runs per script: Redis does nothing else meanwhile
_LONGEST_TRACEBACK: Final = 4_194_304  # bytes, unpacked
_OF_ATTEMPTS: Final = ("status", "retries_left", "zs_retries", "number_of_retries")  # as in look.lua
_TRIES: Final = 100  # if other threads of the task write notes at the same time
_MEMBERS: Final = 5000
_SPANS: Final = 20  # per call; the tracker finds further ones in its rounds
_KEPT_MS: Final = 600_000
_IDS_AT_ONCE: Final = 5000  # members in one reply: 0.7 ms of Redis
_SAMPLE: Final = 10  # members of one registry
_NEVER: Final = (b"inf", b"-inf")  # scores of jobs that RQ keeps for ever
Span = tuple[str, int, int]  # a registry's key, first and last score
_LINE: Final = 10_000  # runs of a queue that are read: 300 kB
AnyKey = TypeVar("AnyKey", bound=str | bytes)
_LOOKED_FOR: Final = 500  # keys in one command: 0.1 ms of Redis


class Jobs:
    """
    The reading side of RQ's jobs of one namespace. *tracebacks*: read them, too, not only the errors. Raises
    RedisUnavailable, RedisRefused.
    """

    def __init__(self, channel: Channel, keys: Keys, *, tracebacks: bool = True) -> None:
        self._scripts, self._job = Scripts(channel, keys), _job if tracebacks else _job_without_tracebacks

    def read(self, run_ids: Sequence[str]) -> list[JobFacts | None]:
        """Read RQ's hash of each of *run_ids*; None if there is none."""
        return [
            None if reply == b"-" else self._job(reply)
            for page in pages_of(run_ids, _PAGE)
            for reply in self._scripts.call("look", fields=_FIELDS, rows=page)
        ]


def _job(reply: bytes) -> JobFacts:
    job = JobFacts(*text(reply).split("\0", len(JOB_FIELDS) - 1))
    if not job.error and len(job.worker) <= LONGEST_NAME:
        return job
    packed, _, attempts = job.error.partition(" ")
    traceback = opened_traceback(packed) if packed else ""
    worker, error, traceback = job.worker[:LONGEST_NAME], error_of(traceback), traceback if "\n" in traceback else ""
    return job._replace(worker=worker, error=error, traceback=traceback, attempts=attempts)


def _job_without_tracebacks(reply: bytes) -> JobFacts:
    job = _job(reply)
    if not job.traceback and not job.attempts:
        return job
    return job._replace(traceback="", attempts=attempts_text(without_tracebacks(attempts_of(job.attempts))))


def opened_traceback(packed: str) -> str:
    """Return a traceback of RQ's results: zlib in base64; of a long one its beginning; '' for any other text."""
    try:
        opened = zlib.decompressobj().decompress(b64decode(packed), _LONGEST_TRACEBACK)
    except (binascii.Error, ValueError, zlib.error):
        return ""
    return text(opened).strip()


class Notes:
    """
    The notes in the job of one run, field by field; *client* is a ``redis.Redis``.

    Raises:
        RedisUnavailable: not reached. RedisRefused: an error reply. Contended: of ``change``.
    """

    def __init__(self, client: redis.Redis, keys: Keys, run_id: str) -> None:
        self._client, self._keys, self._run_id = client, keys, run_id

    def attempt(self) -> int | None:
        """
        Return the number of the current attempt, from 1; None if the job is gone.

        Only RQ's hash is read: look.lua also reads keys of zsched, and a worker needs no right to them.
        """
        fields = self.execute("HMGET", self._keys.rq.job(self._run_id), *_OF_ATTEMPTS)
        status, left, most, returned = (bytes(value or b"").decode(errors="replace") for value in fields)
        return JobFacts(retries_left=left, retries=most, returned=returned).attempt if status else None

    def read(self, field: str) -> str:
        """Return the text in *field* of the job's hash, or ''."""
        return bytes(self.execute("HGET", self._keys.rq.job(self._run_id), field) or b"").decode(errors="replace")

    def change(self, field: str, change: Callable[[str], str]) -> None:
        """Replace the text in *field* by the result of *change*; write nothing if the job is gone."""
        job_key, script = self._keys.rq.job(self._run_id), load("note").text
        for _ in range(_TRIES):
            seen = self.execute("HGET", job_key, field) or b""
            text = change(seen.decode(errors="replace"))
            _, word = self.execute("EVAL", script, 1, job_key, field, seen, text)
            if word != b"AGAIN":
                return
        raise Contended(f"{field} of run {self._run_id!r} was changed by another writer at every attempt; call again")

    def execute(self, *command: Any) -> Any:
        """The reply to *command*."""
        try:
            return self._client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py's
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            message = f"run {self._run_id!r}: its worker's Redis cannot be reached: {error}"
            raise RedisUnavailable(message, may_have_been_applied=True) from error
        except redis.RedisError as error:
            raise RedisRefused(f"run {self._run_id!r}: its worker's Redis refused: {error}") from error


class Deadlines:
    """
    Deadlines that passed since the last call, over one wire; ``since_ms``: the time of the first call. Raises
    RedisUnavailable, RedisRefused.
    """

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys = wire, keys
        self._reported_ms = self.since_ms = -1

    def passed(self) -> list[str]:
        """
        Return the run ids with deadlines that passed since the last call, the oldest first; at the first call, all.
        """
        key = self._keys.deadlines()
        kind = self._wire.execute("TYPE", key)
        if kind == b"none" and self.since_ms >= 0:  # the next call reports what is written meanwhile
            return []
        now_ms = server_now_ms(self._wire, self._keys)
        if kind not in (b"zset", b"none"):  # another program's key: the leader reports it
            return []
        if self.since_ms < 0:
            self.since_ms = now_ms
        elif now_ms - self.since_ms >= _KEPT_MS:  # such old deadlines were reported long ago
            self._wire.execute("ZREMRANGEBYSCORE", key, "-inf", min(self._reported_ms, now_ms - _KEPT_MS))
        found: list[bytes] = []
        for page in range(_SPANS):
            span = ("ZRANGEBYSCORE", key, f"({self._reported_ms}", now_ms, "LIMIT", page * _MEMBERS, _MEMBERS)
            members = self._wire.execute(*span)
            found += members
            if len(members) < _MEMBERS:
                break
        self._reported_ms = now_ms
        return [text(run_id) for run_id in found]


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
        started = existing(self._wire, (self._rq.registry("wip", queue) for queue in self.queues()))
        pages = self.members([(key, 0, until_s) for key in started])
        return grouped((text(member).partition(":")[0], text(member)) for members in pages for member in members)

    def heads(self, queues: Sequence[str]) -> dict[str, float]:
        """Return, by queue, the time of its first job's push, in ms; infinite for an empty queue or an unknown time."""
        heads = self._all(("LINDEX", self._rq.queue(queue), 0) for queue in queues)
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
        length, ids = self._all([("LLEN", key), ("LRANGE", key, 0, _LINE - 1)])
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
            read = _IDS_AT_ONCE
            while len(members) == read:
                members += next(self._all([_range(span, read)]))
                read += _IDS_AT_ONCE
        return found

    def lifetimes(self, keys: Sequence[str]) -> dict[str, set[int]]:
        """Return, by registry, for how many seconds RQ keeps ended jobs, from a few random members of each."""
        samples = zip(keys, self._all(("ZRANDMEMBER", key, _SAMPLE, "WITHSCORES") for key in keys), strict=True)
        scored = ((key, *member) for key, flat in samples for member in pages_of(flat, 2))
        members = [(key, id, int(float(score))) for key, id, score in scored if score not in _NEVER]
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
    return "ZRANGEBYSCORE", *span, "LIMIT", offset, _IDS_AT_ONCE
