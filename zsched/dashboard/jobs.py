"""
RQ's own classes as rq-dashboard is to use them: they only read, and a run says of which schedule and time it is.

rq-dashboard has no setting for them: it takes them from its module's names, and not everywhere with the serializer that
it was given (a worker that runs a JSON job makes its page of workers fail). So these names are set, once for the
process.

Anybody who writes RQ's jobs may have made up what is in one. Nothing of it is inflated that no page shows, and what
RQ cannot restore is a job that says so, and no page that fails.

Values in jobs are read without running anything, whichever serializer wrote them. An object of a class that is not
plain is shown by its class's name (``storage.unpickling``). That also shows results of a product whose code is not
installed here. What is too much to be shown says so, as it may be made up.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from contextlib import suppress
from typing import Any, Final

import redis
import rq
import rq.job
from rq.exceptions import NoSuchJobError
from rq.executions import Execution
from rq.results import Result
from rq.utils import as_text

from zsched.core.run_id import RunId
from zsched.core.sentences import local_text
from zsched.storage.unpickling import MOST_BYTES, NotPlain, excess, inflated, read_shown

_LONGEST_TRACEBACK: Final = 100_000  # characters; a page may have two hundred
_PICKLE = b"\x80"  # the first byte of every pickle that RQ writes, and of no JSON


class Readable:
    """A serializer, as RQ has them, that reads pickle and JSON and writes nothing."""

    @staticmethod
    def dumps(value: object) -> bytes:
        """Raises TypeError: what this package shows it must never write back."""
        raise TypeError(f"the dashboard writes nothing into Redis, so no {type(value).__name__} either")

    @staticmethod
    def loads(data: bytes) -> Any:
        """Open *data*; return a text that says why if it cannot be shown. Raises nothing."""
        try:
            return read_shown(data) if data.startswith(_PICKLE) else _json(data)
        except NotPlain as error:
            reason = str(error)
        except Exception as error:  # of broken JSON that is deep, or no text, more than one kind may come
            reason = f"neither pickle nor JSON ({type(error).__name__})"
        return f"({len(data):,} bytes that cannot be shown: {reason})"


def presentable(value: Any) -> Any:
    """*value*, or as text what JSON has no form for, or what is too large or too deep. Raises nothing."""
    if problem := excess(value):
        return f"({type(value).__name__} with {problem})"
    try:
        try:
            json.dumps(value, default=str)
        except (TypeError, ValueError):  # keys that are no texts, a value inside of itself
            return str(value)
    except Exception as error:  # a number of more digits than Python writes
        return f"({type(value).__name__} that cannot be shown: {type(error).__name__})"
    return value


def traceback(packed: bytes) -> str:
    """A traceback as RQ's results keep it, its end if it is long; a text that says why it cannot be shown."""
    try:
        told = inflated(b64decode(packed)).decode(errors="replace")
    except (NotPlain, binascii.Error) as error:
        return f"(a traceback that cannot be shown: {error})"
    cut = len(told) - _LONGEST_TRACEBACK
    return told if cut <= 0 else f"({cut:,} characters are left out)\n{told[-_LONGEST_TRACEBACK:]}"


def _json(data: bytes) -> Any:
    if len(data) > MOST_BYTES:
        raise NotPlain(f"more than {MOST_BYTES:,} are not opened")
    return json.loads(data)


# -- RQ's classes -----------------------------------------------------------------------------------


_NEVER_SHOWN = (b"data", b"exc_info")  # fields that RQ would inflate, to whatever they inflate to


def described(job_id: str, description: str | None) -> str | None:
    """
    ``reminder-42 · 2026-12-24 09:00:00+00:00 · app.tasks.remind``: schedule, nominal time, and the job's *description*;
    that alone of a job that is no run of ours.
    """
    parts = RunId.ours(job_id)
    if parts is None:
        return description
    told = [parts.schedule_id, local_text(parts.nominal_ms, "UTC")]
    told += [f"namespace {parts.namespace}"] if parts.namespace != "default" else []
    told += [f"extra run {parts.rerun}"] if parts.rerun else []
    return " · ".join([*told, description or ""]).removesuffix(" · ")


class DashboardJob(rq.job.Job):
    """A job, whose values are read by ``Readable`` whatever serializer was asked for."""

    def __init__(self, id: str | None = None, connection: Any = None, serializer: Any = None) -> None:
        super().__init__(id, connection, Readable)

    def restore(self, raw_data: Any) -> Any:
        """Restore the job as RQ does, and describe it: by what is wrong with it, if RQ cannot read it."""
        try:
            super().restore({name: b"" if name in _NEVER_SHOWN else value for name, value in raw_data.items()})
        except (NoSuchJobError, redis.RedisError):
            raise
        except Exception as error:  # fields that somebody made up: whatever RQ's parsers raise
            self.origin = raw_data.get(b"origin", b"").decode(errors="replace")
            self.description = f"(fields that RQ cannot read: {type(error).__name__})"
        self.description = described(self.id, self.description)

    def latest_result(self, timeout: int = 0) -> Result | None:
        """Return the result as RQ does; a failure that says so if it cannot be read."""
        try:
            return _ReadableResult.fetch_latest(self, Readable, timeout)
        except redis.RedisError:
            raise
        except Exception as error:  # as above
            problem = f"(a result that RQ cannot read: {type(error).__name__})"
            return Result(
                self.id, Result.Type.FAILED, self.connection, id="0-0", exc_string=problem
            )  # without id: none

    def return_value(self, refresh: bool = False) -> Any:
        """Return the value as RQ does, in a form that a page can show."""
        return presentable(super().return_value(refresh))

    def get_meta(self, refresh: bool = True) -> Any:
        """Return the value as RQ does, in a form that a page can show."""
        return presentable(super().get_meta(refresh))

    def get_call_string(self) -> str | None:
        """The description: RQ's own has the arguments in it, which are nobody's business on a page of workers."""
        return self.description


class _ReadableResult(Result):
    @classmethod
    def restore(cls, job_id: str, result_id: str, payload: Any, connection: Any, serializer: Any = None) -> Result:
        packed = payload.get(b"exc_string")
        read = super().restore(job_id, result_id, {**payload, b"exc_string": b""}, connection, serializer)
        read.exc_string = traceback(packed) if packed else None
        return read


class Queue(rq.Queue):
    """A queue that stays as it is when it is looked at."""

    job_class = DashboardJob

    def fetch_job(self, job_id: str) -> DashboardJob | None:
        """The job, if it is of this queue. RQ's own takes the id of one that is gone out of the queue."""
        with suppress(NoSuchJobError, ValueError):  # RQ's for an id that none can have
            job = DashboardJob.fetch(job_id, connection=self.connection)
            if isinstance(job, DashboardJob) and job.origin == self.name:
                return job
        return None


class DashboardWorker(rq.Worker):
    """A worker that somebody else runs."""

    job_class = DashboardJob
    queue_class = Queue

    def get_current_job(self) -> rq.job.Job | None:
        """Return the job as RQ does; None if the job is gone, where RQ raises."""
        with suppress(NoSuchJobError):
            return super().get_current_job()
        return None

    def get_current_executions(self, refresh: bool = False) -> list[Execution]:
        """Return what it executes, as RQ 3 asks. RQ's own forgets what lapsed, which a mere reader cannot."""
        found, members = [], self.connection.smembers(f"{self.key}:executions")
        for member in sorted(map(as_text, members)):
            execution = Execution.from_composite_key(member, self.connection)
            with suppress(KeyError, ValueError):  # it lapsed, or another program wrote it
                execution.refresh()  # type: ignore[no-untyped-call]  # RQ's
                found.append(execution)
        return found

    @classmethod
    def find_by_key(cls, worker_key: str, connection: Any, *classes: Any, **more: Any) -> rq.worker.BaseWorker | None:
        """The worker, None if it is gone. RQ's own forgets it then, which a user who may only read cannot."""
        if not connection.exists(worker_key):
            return None
        return super().find_by_key(worker_key, connection, *classes, **more)
