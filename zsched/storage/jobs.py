"""
Runs as read from RQ's job hashes. Nothing here unpickles; only the last lines of a traceback are kept.

``Jobs`` reads many. ``Notes`` is for a task inside its worker: it reads and writes the run's own job over the job's own
connection. ``Deadlines`` reports deadlines that passed to the leader: Redis dropped the runs that had not started. A
deadline is removed when the run's end is recorded (track.lua). A deadline that was reported ten minutes ago is removed
here: its run started in time and is still running, or is unknown.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any, Final

import redis

from zsched.core.entry import text
from zsched.core.pages import pages_of
from zsched.core.runs.attempts import attempts_of, attempts_text, error_of, without_tracebacks
from zsched.core.runs.job import JOB_FIELDS, JobFacts
from zsched.core.wording import LONGEST_NAME
from zsched.errors import Contended, RedisRefused, RedisUnavailable
from zsched.storage.connection import Channel, Wire
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms
from zsched.storage.scripts import Scripts, load

_FIELDS: Final = " ".join(JOB_FIELDS.values())
_PAGE: Final = 200  # runs per script: Redis does nothing else meanwhile
_LONGEST_TRACEBACK: Final = 4_194_304  # bytes, unpacked


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
    return job._replace(
        worker=job.worker[:LONGEST_NAME],
        error=error_of(traceback),
        traceback=traceback if "\n" in traceback else "",
        attempts=attempts,
    )


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


_OF_ATTEMPTS: Final = ("status", "retries_left", "zs_retries", "number_of_retries")  # as in look.lua
_TRIES: Final = 100  # if other threads of the task write notes at the same time


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


_MEMBERS: Final = 5000
_SPANS: Final = 20  # per call; the tracker finds further ones in its rounds
_KEPT_MS: Final = 600_000


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
