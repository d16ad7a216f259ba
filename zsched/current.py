"""
The current run, inside a worker's job: ``zsched.current_run()``. A task asks for its facts, and notes some.

It uses the job that RQ runs and that job's own connection. So it works with either serializer, in forking and simple
workers. Only this module and ``storage.rqjob`` import RQ.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from rq import get_current_job
from rq.job import Job

from zsched.core.clock import from_ms
from zsched.core.runs.run_id import RunId
from zsched.errors import InvalidSchedule
from zsched.storage.jobs import Notes
from zsched.storage.keys import Keys
from zsched.storage.rqkeys import prefix_of

_FIELD: Final = "zs_note"
_LONGEST: Final = 4096  # bytes of a note; a longer one would not be recorded (core/runs/run.py)


@dataclass(frozen=True, slots=True)
class CurrentRun:
    """
    The run that the current task executes, at its current attempt.

    ``id``: the run id, in RQ too. ``nominal_at``: the occurrence's nominal time (aware, UTC); for ``run_now`` and
    ``enqueue``, the time of the request; for a retried run, the occurrence's; for a one-shot with jitter, its due time.
    ``attempt``: counts from 1. ``lateness``: time from ``nominal_at`` to the start of this attempt, by the worker's
    clock, with the wait in the queue and a rule's jitter; never negative.
    """

    id: str
    schedule_id: str
    nominal_at: datetime
    attempt: int
    lateness: timedelta
    _notes: Notes = field(repr=False, compare=False)

    def note(self, **counters: Any) -> None:
        """
        Report what the task did, such as ``note(sent=123)``. Values are JSON values, together at most 4,096 bytes. A
        counter replaces one of the same name; others stay, also over attempts. A run by ``client.retry`` begins without
        counters.

        Raises:
            InvalidSchedule: a value is not a JSON value, or the note is too long; nothing was written.
            Contended: other threads or processes keep writing notes of this run.
        """
        _text_of(counters, counters)
        self._notes.change(_FIELD, lambda there: _text_of(_noted(there) | counters, counters))


def current_job() -> tuple[Job, RunId] | None:
    """Return the job that RQ executes here and its parsed id, if it is a run of zsched. Sends no command to Redis."""
    if (job := get_current_job()) is not None and (parts := RunId.ours(job.id)) is not None:
        return job, parts
    return None


def keys_of_run(job: Job, parts: RunId) -> Keys:
    """Return the keys of the namespace of *job*, with this process's prefix of RQ's keys."""
    return Keys(parts.namespace, prefix_of(job))


def current_run() -> CurrentRun | None:
    """
    Return the run that is executed here; None outside of a worker's job, and in a job that is not a run of zsched.

    Makes one round trip to Redis. Raises RedisUnavailable, RedisRefused.
    """
    if (found := current_job()) is None:
        return None
    job, parts = found
    notes = Notes(job.connection, keys_of_run(job, parts), job.id)
    attempt = notes.attempt()
    nominal_at = from_ms(parts.nominal_ms)
    return CurrentRun(
        id=job.id,
        schedule_id=parts.schedule_id,
        nominal_at=nominal_at,
        attempt=1 + (job.number_of_retries or 0) if attempt is None else attempt,
        lateness=max((job.started_at or nominal_at) - nominal_at, timedelta(0)),
        _notes=notes,
    )


def _noted(there: str) -> dict[str, Any]:
    """Parse the stored note; a value by another writer counts as empty."""
    try:
        stored = json.loads(there) if there else {}
    except (ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _text_of(note: dict[str, Any], given: dict[str, Any]) -> str:
    try:
        text = json.dumps(note, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"JSON refuses it ({error})"
        raise InvalidSchedule("note", given, problem, "give texts, numbers, lists and dicts") from error
    if len(text) > _LONGEST:
        problem = f"the run's note would have {len(text)} bytes, the limit is {_LONGEST}"
        raise InvalidSchedule("note", given, problem, "note numbers, and keep the rest elsewhere")
    return text
