"""
Runs: the outcome of each pushed occurrence, from the log's ``end`` entries and from RQ's job hashes.

Life of a run: it is *queued* after its push, *running* while a worker has it, and then *succeeded*, *failed* (also by a
timeout), *cancelled* (before its start, or stopped) or *lost* (its worker died, or RQ's job is gone and its end was not
seen). A run that waited in its queue beyond its deadline is *expired*. A run is *refused* by a guarded worker that may
not run it (``zsched.rq``). A run that RQ or zsched retries stays one run; ``attempt`` counts.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from zsched.core.clock import LAST_MS
from zsched.core.model import iso, json_of, seconds
from zsched.core.runs.attempts import Attempt, added, attempts_of, counted, read_attempts, told_traceback
from zsched.core.runs.job import JobFacts, attempt_of_job, ms_of, whole
from zsched.core.runs.run_id import RunId, schedule_of
from zsched.core.wording import LONGEST_NAME


class RunStatus(StrEnum):
    """The state of a run."""

    QUEUED = "queued"  # in its queue, or waits for its next attempt
    RUNNING = "running"  # a worker has it
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # raised, or took too long
    CANCELLED = "cancelled"  # before it ran, or stopped
    EXPIRED = "expired"  # waited in its queue beyond its deadline
    LOST = "lost"  # its worker died, or RQ deleted it before zsched saw its end
    REFUSED = "refused"  # a guarded worker did not run it: it is not signed or not allowed


_OPEN: Final = (RunStatus.QUEUED, RunStatus.RUNNING)  # a tuple: to hash an Enum takes a µs
OPEN: Final = frozenset(_OPEN)
OVER: Final = frozenset(RunStatus) - OPEN
UNSUCCESSFUL: Final = tuple(status for status in RunStatus if status in OVER and status is not RunStatus.SUCCEEDED)
FAILURES: Final = (RunStatus.FAILED, RunStatus.LOST)  # of the task or its worker: pause_after_failures counts them
BAD: Final = (*FAILURES, RunStatus.REFUSED)

EXPIRED: Final = "it had not begun by its deadline (expires_after)"
EXPIRED_OR_ENDED: Final = f"{EXPIRED}, or it ended and was removed before zsched read its end"
_SAME_END_MS: Final = 1000  # two writers of one end may be so far apart
_KEPT_MS: Final = 60_000  # RQ keeps ended jobs at least as long (storage.rqjob)
GONE: Final = "RQ's job is missing: it was deleted, or it ended and was removed before zsched read its end"
_UNREADABLE: Final = "the record of its end cannot be read"
_STATUSES: Final = {
    "created": RunStatus.QUEUED,
    "queued": RunStatus.QUEUED,
    "deferred": RunStatus.QUEUED,
    "ready_to_enqueue": RunStatus.QUEUED,  # RQ 3: its dependencies are over, and it is not in its queue yet
    "rate_limited": RunStatus.QUEUED,  # RQ 3
    "scheduled": RunStatus.QUEUED,  # waits for its next attempt
    "started": RunStatus.RUNNING,
    "finished": RunStatus.SUCCEEDED,
    "failed": RunStatus.FAILED,
    "stopped": RunStatus.CANCELLED,
    "canceled": RunStatus.CANCELLED,
    "expired": RunStatus.EXPIRED,  # not a status of RQ: look.lua returns it for a job that is gone
}
REFUSED: Final = "JobRefused: "  # how the error of a run begins that a guarded worker refused (zsched.rq)
_TIMED_OUT: Final = "rq.timeouts.JobTimeoutException"
_ABANDONED: Final = "AbandonedJobError"  # RQ's error for a job after its worker's heartbeat expired
_LONGEST_NOTE: Final = 4096  # bytes
_NO_NOTE: Final[Mapping[str, Any]] = MappingProxyType({})
_dumps: Final = json.JSONEncoder(separators=(",", ":")).encode
_strict_dumps: Final = json.JSONEncoder(allow_nan=False).encode


class Run(NamedTuple):  # to make a frozen dataclass takes seven times as long (measured)
    """
    One run. ``fired_us``: its push, in µs. Other instants are in ms, of the last attempt, by the worker's clock.
    ``attempts``: the recorded ones (``zsched.rq``); ``every_attempt`` adds the last one.

    ``worker``: its name in RQ. ``error``: class and first line of its exception, or the reason of a loss. ``note``: the
    counters of ``current_run().note``. ``is_uncertain``: a lost Redis may have pushed it already. ``queue`` and
    ``timeout_s`` are '' and None if RQ deleted the job. ``heartbeat_ms``: the last heartbeat of a lost run's worker;
    ``ended_ms`` is then the time when the loss was found. ``limit``: RQ's rate limit that it waits for, such as
    ``mail (3)``, or ''. ``was``: its end before, if somebody requeued it after it was over. ``func``: of a run that RQ
    calls failed, else ''. ``name``: its schedule's.
    """

    id: str
    status: RunStatus
    fired_us: int | None = None
    queued_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    attempt: int = 1
    worker: str = ""
    error: str = ""
    note: Mapping[str, Any] = _NO_NOTE
    attempts: tuple[Attempt, ...] = ()
    is_uncertain: bool = False
    queue: str = ""
    timeout_s: int | None = None
    heartbeat_ms: int | None = None
    was: RunStatus | None = None
    limit: str = ""
    func: str = ""
    name: str = ""

    @property
    def schedule_id(self) -> str:
        """The id of its schedule."""
        return schedule_of(self.id)

    @property
    def is_over(self) -> bool:
        """True if its status is final."""
        return self.status not in _OPEN

    @property
    def is_timed_out(self) -> bool:
        """True if RQ stopped it at its time limit."""
        return self.status is RunStatus.FAILED and self.error.startswith(_TIMED_OUT)

    @property
    def nominal_ms(self) -> int | None:
        """The nominal time of its occurrence."""
        parts = RunId.parse(self.id)
        return None if parts is None else parts.nominal_ms

    @property
    def lateness_ms(self) -> float | None:
        """Milliseconds from its nominal time to its push; None for an extra run, which has no nominal time."""
        parts = RunId.parse(self.id)
        if parts is None or parts.rerun or self.fired_us is None or self.fired_us < parts.nominal_ms * 1000:
            return None
        return (self.fired_us - parts.nominal_ms * 1000) / 1000

    @property
    def first(self) -> Attempt | None:
        """Its first attempt; None if it was not recorded."""
        if self.attempts and self.attempts[0].number == 1:
            return self.attempts[0]
        return self._last if self.attempt == 1 else None

    @property
    def every_attempt(self) -> list[Attempt]:
        """The known attempts, the last one included; other workers than ``zsched.rq``'s record none before the last."""
        known = [one for one in self.attempts if one.number <= self.attempt]
        return known if known and known[-1].number == self.attempt else [*known, self._last]

    @property
    def _last(self) -> Attempt:
        return Attempt(self.attempt, self.worker, self.queued_ms, self.started_ms, self.ended_ms, self.error)

    @property
    def since_ms(self) -> int | None:
        """The time since when it is running, or else since when it is queued; None if it is not known."""
        return self.started_ms if self.status is RunStatus.RUNNING else self.queued_ms

    @property
    def queue_wait_ms(self) -> int | None:
        """Milliseconds that the first attempt waited in its queue; None if it was not recorded."""
        first = self.first
        return None if first is None else first.wait_ms

    @property
    def duration_ms(self) -> int | None:
        """
        Milliseconds of the last attempt. For a lost run the time to the last heartbeat of its worker; None if that was
        the heartbeat at its start.
        """
        until_ms = self.heartbeat_ms if self.status is RunStatus.LOST else self.ended_ms
        if self.started_ms is None or until_ms is None:
            return None
        took_ms = max(until_ms - self.started_ms, 0)
        return None if self.status is RunStatus.LOST and took_ms == 0 else took_ms

    @property
    def timeout_share(self) -> float | None:
        """The duration as a share of the timeout; above 1: RQ stopped it, or should have. None: one is not known."""
        return self.duration_ms / 1000 / self.timeout_s if self.duration_ms is not None and self.timeout_s else None

    def to_dict(self) -> dict[str, Any]:
        """Return the run for JSON, by ``json_of``. Every key is always present."""
        fired_ms, first = None if self.fired_us is None else self.fired_us // 1000, self.first
        first_ms, late_s = None if first is None else first.started_ms, seconds(self.lateness_ms)
        others = {"fired_at": iso(fired_ms), "first_started_at": iso(first_ms), "late_s": late_s}
        return json_of(self, *_KEYS, **others, uncertain=self.is_uncertain)


_KEYS: Final = (
    *("id", "schedule_id", "name", "status", "nominal_at", "fired_at", "first_started_at", "started_at", "ended_at"),
    *("attempt", "late_s", "queue_wait_s", "duration_s", "worker", "error", "note", "uncertain"),
)


def pushed(run_id: str, fired_us: int, is_uncertain: bool = False) -> Run:
    """Return a run with only its push known."""
    return Run(run_id, RunStatus.QUEUED, fired_us, fired_us // 1000, is_uncertain=is_uncertain)


def as_seen(run: Run, job: JobFacts | None) -> Run:
    """
    Return *run*, updated by RQ's hash (None: RQ has no job of it). A run that is over stays unchanged, unless somebody
    requeued it since.
    """
    if run.is_over:
        return requeued(run, job) or run
    return of_job(run.id, job, run.fired_us, run.is_uncertain)


def of_job(
    run_id: str,
    job: JobFacts | None,
    fired_us: int | None,
    is_uncertain: bool = False,
    watched_since_ms: int | None = None,
) -> Run:
    """
    Return the run from RQ's hash *job* (None: RQ has no job of it).

    *watched_since_ms*: the time, by Redis' clock, since when the caller sees all ends; None: this is its first look. It
    also sees runs that ended up to a minute before.
    """
    if job is None:
        return Run(run_id, RunStatus.LOST, fired_us, error=GONE, is_uncertain=is_uncertain)
    status, error = _STATUSES.get(job.status), ""
    if status is None:
        status, error = RunStatus.LOST, f"another writer changed its job: status {job.status[:40]!r}"
    elif job.status == "failed":
        is_refused, error = job.error.startswith(REFUSED), job.error.removeprefix(REFUSED)
        status = RunStatus.REFUSED if is_refused else RunStatus.LOST if _ABANDONED in error else RunStatus.FAILED
    elif job.status == "expired":
        since_ms = (ms_of(job.heartbeat_at) or 0) if watched_since_ms is None else watched_since_ms
        error = EXPIRED if (fired_us or 0) / 1000 > since_ms - _KEPT_MS else EXPIRED_OR_ENDED
    is_over = status not in _OPEN
    attempts = _attempts_of(job, status, error) if job.attempts or status is not RunStatus.SUCCEEDED else ()
    return Run(  # by place, in the order of its fields: by name takes twice as long (measured)
        run_id,
        status,
        fired_us,
        ms_of(job.queued_at),
        ms_of(job.started_at) if is_over or status is RunStatus.RUNNING else None,
        ms_of(job.ended_at) if is_over else None,
        job.attempt,
        job.worker[:LONGEST_NAME],
        error,
        _note_of(job.note),
        attempts,
        is_uncertain,
        job.queue[:LONGEST_NAME],
        whole(job.timeout) or None,
        ms_of(job.heartbeat_at) if status is RunStatus.LOST else None,
        None,
        job.limit if job.status == "rate_limited" else "",
        job.func,
    )


def _attempts_of(job: JobFacts, status: RunStatus, error: str) -> tuple[Attempt, ...]:
    """Return the recorded attempts, and the one that RQ's hash itself has: the last one, or the one before."""
    attempts = attempts_of(job.attempts)
    newest = attempts[-1].number if attempts else 0
    if job.traceback and newest < job.attempt:  # a plain worker: RQ keeps that of the last attempt
        return added(attempts, attempt_of_job(job, error)._replace(traceback=told_traceback(job.traceback)))
    if status is RunStatus.QUEUED and job.started_at and newest < job.attempt - 1:  # it waits for its next attempt
        before = attempt_of_job(job, "")._replace(number=job.attempt - 1)
        return added(attempts, before if job.status == "scheduled" else before._replace(queued_ms=None))
    return attempts


def requeued(before: Run, job: JobFacts | None) -> Run | None:
    """
    Return the run by RQ's hash *job*, as one more attempt, if somebody requeued it in RQ after its end *before*; else
    None.
    """
    if job is None or job.status == "expired":  # its hash is gone
        return None
    run, over_ms = of_job(before.id, job, before.fired_us, before.is_uncertain), before.ended_ms
    has_ended_later = over_ms is not None and run.is_over and (run.ended_ms or 0) > over_ms + _SAME_END_MS
    if over_ms is None:  # it was stopped, or its job was deleted
        over_ms = max(before.queued_ms or 0, (before.fired_us or 0) // 1000)
    if (run.queued_ms or 0) <= over_ms and not has_ended_later:
        return None
    number, attempts = before.attempt + 1, before.attempts
    for last in (one for one in run.attempts if run.ended_ms is not None and one.ended_ms == run.ended_ms):
        attempts = added(attempts, last._replace(number=number))
    return run._replace(attempt=number, attempts=attempts, was=before.status)


ANOTHER_END: Final = '"again":"'  # in the recorded facts of a run that was over before; a note may look the same


# The recorded fields of a run: the name of each fact, its field, and how it is read. A default is not recorded.
_FACTS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "fired": ("fired_us", lambda value: counted(value, LAST_MS * 1000)),
    "queued": ("queued_ms", counted),
    "started": ("started_ms", counted),
    "ended": ("ended_ms", counted),
    "attempt": ("attempt", lambda value: counted(value) or 1),
    "worker": ("worker", str),
    "error": ("error", str),
    "note": ("note", dict),
    "attempts": ("attempts", read_attempts),
    "uncertain": ("is_uncertain", bool),
    "queue": ("queue", str),
    "timeout": ("timeout_s", counted),
    "heartbeat": ("heartbeat_ms", counted),
    "again": ("was", RunStatus),
    "func": ("func", str),
}
_DEFAULTS: Final = [Run._field_defaults[field] for field, _ in _FACTS.values()]
_values: Final = attrgetter(*(field for field, _ in _FACTS.values()))


def facts_of(run: Run) -> dict[str, Any]:
    """Return the recorded facts of a run besides its id and status, for JSON; ``of_facts`` is the inverse."""
    named = zip(_FACTS, _values(run), _DEFAULTS, strict=True)
    return {name: value for name, value, default in named if value != default}


def of_facts(run_id: str, status: str, facts: object) -> Run:
    """Return the run from its recorded facts. Raises ValueError, TypeError."""
    if not isinstance(facts, dict):
        raise TypeError(f"not the facts of a run: {facts!r}")
    values: dict[str, Any] = {}
    for name, value in facts.items():
        if name in _FACTS:
            field, read = _FACTS[name]
            values[field] = read(value)
    return Run(run_id, RunStatus(status), **values)


def facts_text(run: Run) -> str:
    """
    Return the JSON of ``facts_of`` for a row of an ``end`` entry; ``ended_run`` reads it. Quick for a run with all
    instants and without note and attempts: its other facts are those of many runs.
    """
    _, _, fired, queued, started, ended, attempt, worker, error, note, attempts, *others, _ = run
    if note or attempts or None in (fired, queued, started, ended):
        return _dumps(facts_of(run))
    shared = _shared_text(attempt, worker, error, *others)
    return f'{{"fired":{fired},"queued":{queued},"started":{started},"ended":{ended}{shared}'


@lru_cache(maxsize=4096)  # workers, times queues: a quarter of the time (measured)
def _shared_text(attempt: int, worker: str, error: str, *others: Any) -> str:
    """Return the end of a run's facts in JSON, after its instants."""
    nothing = (None, None, None, None)  # its instants
    facts = facts_of(Run("", RunStatus.SUCCEEDED, *nothing, attempt, worker, error, _NO_NOTE, (), *others))
    return f",{_dumps(facts)[1:]}" if facts else "}"


def ended_run(run_id: str, status: str, facts: str, told_ms: int) -> Run:
    """Return the run in a row of an ``end`` entry of *told_ms*; unreadable facts are left out."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        run = of_facts(run_id, status, json.loads(facts))
        if run.is_over:
            return run
    return Run(run_id, ended_as(status), ended_ms=told_ms, error=_UNREADABLE)


def ended_as(word: str) -> RunStatus:
    """Return the status of an ended run from its word in the log; *lost* for an unknown word."""
    return next((status for status in OVER if status.value == word), RunStatus.LOST)


def _note_of(text: str) -> Mapping[str, Any]:
    if not text or len(text) > _LONGEST_NOTE:
        return _NO_NOTE
    with suppress(ValueError, RecursionError):
        note = json.loads(text)
        _strict_dumps(note)  # refuses NaN, which other readers of JSON do not accept
        return note if isinstance(note, dict) else _NO_NOTE
    return _NO_NOTE
