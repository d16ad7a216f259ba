"""
The current run, inside a worker's job: ``zsched.current_run()``. A task asks for its facts, and notes some.

It goes through the job that RQ runs and that job's own connection, so it works with either serializer, in forking and
simple workers. Beside ``storage.rqjob`` this is the one module that imports RQ.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from rq import get_current_job
from rq.job import Job

from zsched.core.clock import from_ms
from zsched.core.run_id import RunId
from zsched.errors import InvalidSchedule
from zsched.storage.jobs import Notes
from zsched.storage.keys import Keys
from zsched.storage.rqkeys import prefix_of

_FIELD: Final = "zs_note"
_LONGEST: Final = 4096  # bytes of a note; a longer one would not be recorded (core/runs.py)


@dataclass(frozen=True, slots=True)
class CurrentRun:
    """
    The run that a task is, as of its attempt that is on.

    ``id``: as RQ and zsched's history know it. ``nominal_at``: for which time it is (aware, UTC); of an extra run by
    ``run_now`` or ``enqueue``, when it was asked for; of a retried one, the occurrence's; of a one-shot with jitter,
    when it was due. ``attempt``: from 1. ``lateness``: how long after ``nominal_at`` this attempt began, by the
    worker's clock, so with the wait in the queue and a rule's jitter; never less than zero.
    """

    id: str
    schedule_id: str
    nominal_at: datetime
    attempt: int
    lateness: timedelta
    _notes: Notes = field(repr=False, compare=False)

    def note(self, **counters: Any) -> None:
        """
        Report what the task did, as ``note(sent=123)``: it is recorded with the run's end, and shown with the run.

        Values are JSON's. What was noted before stays, by this attempt or an earlier one, unless it has the same name;
        all of it has at most 4096 bytes. Nothing is written when somebody deleted the job meanwhile. A run that is
        retried by ``client.retry`` is another run, and begins without.

        Raises:
            InvalidSchedule: a value is none of JSON's, or there is too much; nothing was written.
            Contended: other threads or processes note something all the time. RedisUnavailable, RedisRefused.
        """
        _text_of(counters, counters)
        self._notes.change(_FIELD, lambda there: _text_of(_noted(there) | counters, counters))


def current_job() -> tuple[Job, RunId] | None:
    """RQ's job that is being executed here, and what its id says, if it is a run of zsched's. Asks nobody."""
    job = get_current_job()
    parts = None if job is None else RunId.ours(job.id)
    if job is None or parts is None:
        return None
    return job, parts


def keys_of_run(job: Job, parts: RunId) -> Keys:
    """Return the keys of the namespace of *job*, with the prefix that RQ has in this process."""
    return Keys(parts.namespace, prefix_of(job))


def current_run() -> CurrentRun | None:
    """
    The run that is being executed here; None outside of a worker's job, and in a job that is not zsched's.

    Asks Redis once. Raises RedisUnavailable, RedisRefused.
    """
    found = current_job()
    if found is None:
        return None
    job, parts = found
    notes = Notes(job.connection, keys_of_run(job, parts), job.id)
    attempt = notes.attempt()
    nominal_at = from_ms(parts.nominal_ms)
    started_at = job.started_at or nominal_at
    return CurrentRun(
        id=job.id,
        schedule_id=parts.schedule_id,
        nominal_at=nominal_at,
        attempt=1 + (job.number_of_retries or 0) if attempt is None else attempt,
        lateness=max(started_at - nominal_at, timedelta(0)),
        _notes=notes,
    )


def _noted(there: str) -> dict[str, Any]:
    """The note that is there; what another writer wrote counts for nothing."""
    try:
        told = json.loads(there) if there else {}
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _text_of(note: dict[str, Any], given: dict[str, Any]) -> str:
    try:
        told = json.dumps(note, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"JSON refuses it ({error})"
        raise InvalidSchedule("note", given, problem, "give texts, numbers, lists and dicts") from error
    if len(told) > _LONGEST:
        problem = f"the run's note would have {len(told)} bytes, the limit is {_LONGEST}"
        raise InvalidSchedule("note", given, problem, "note numbers, and keep the rest elsewhere")
    return told
