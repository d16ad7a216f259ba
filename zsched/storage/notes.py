"""What a worker's job says of its run, over the job's own connection; zsched's client is not in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import redis

from zsched.core.runs import Job
from zsched.errors import Contended, RedisRefused, RedisUnavailable
from zsched.storage.keys import Keys
from zsched.storage.scripts import load

_NOTHING: Final = Job(*[""] * len(Job._fields))
_OF_ATTEMPTS: Final = ("status", "retries_left", "zs_retries", "number_of_retries")  # as look.lua has them
_TRIES: Final = 100  # when other threads of the task note something at the same time


class Notes:
    """
    What is noted in the job of one run, field by field; *client* is a ``redis.Redis``.

    Raises:
        RedisUnavailable: not reached. RedisRefused: an error reply. Contended: of ``change``.
    """

    def __init__(self, client: redis.Redis, keys: Keys, run_id: str) -> None:
        self._client, self._keys, self._run_id = client, keys, run_id

    def attempt(self) -> int | None:
        """
        Which attempt is on, from 1; None when the job is gone.

        Read from RQ's hash alone: look.lua reads keys of zsched's too, to which a worker needs no right.
        """
        told = self.execute("HMGET", self._keys.rq.job(self._run_id), *_OF_ATTEMPTS)
        status, left, most, returned = (bytes(value or b"").decode(errors="replace") for value in told)
        return _NOTHING._replace(retries_left=left, retries=most, returned=returned).attempt if status else None

    def read(self, field: str) -> str:
        """The text in *field* of the job's hash; '' when there is none."""
        return bytes(self.execute("HGET", self._keys.rq.job(self._run_id), field) or b"").decode(errors="replace")

    def change(self, field: str, change: Callable[[str], str]) -> None:
        """Write what *change* makes of the text that is in *field*; nothing when the job is gone."""
        job_key, script = self._keys.rq.job(self._run_id), load("note").text
        for _ in range(_TRIES):
            seen = self.execute("HGET", job_key, field) or b""
            text = change(seen.decode(errors="replace"))
            _, word = self.execute("EVAL", script, 1, job_key, field, seen, text)
            if word != b"AGAIN":
                return
        raise Contended(f"{field} of run {self._run_id!r} was changed by others at every attempt; call again")

    def execute(self, *command: Any) -> Any:
        """The reply to *command*."""
        with self._converted():
            return self._client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py's

    @contextmanager
    def _converted(self) -> Iterator[None]:
        try:
            yield
        except redis.exceptions.NoScriptError:  # the script loader's
            raise
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            message = f"run {self._run_id!r}: its worker's Redis cannot be reached: {error}"
            raise RedisUnavailable(message, may_have_been_applied=True) from error
        except redis.RedisError as error:
            raise RedisRefused(f"run {self._run_id!r}: its worker's Redis refused: {error}") from error
