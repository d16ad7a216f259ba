"""
Chaining: when a task returns a ``Next``, its worker schedules it once.

The worker schedules it before it reports the run as done to RQ. If the worker dies in between, the run is executed
again, and nothing is missing. To avoid a second schedule, a Next is identified by the run's id and its place in the
list:

- It is put under an operation id made of both. A put of the same operation within ten minutes does nothing.
- If neither the Next nor its task gives an id, the schedule's id is made of both, too.
- After the put, a marker is written: ``zs_next`` in the run's job, ``<run id> some|all <schedule id> …``. A later
  execution of the run skips the schedules in it. After ``all`` it schedules nothing more, whatever it returns.

So the marker protects for as long as RQ has the run, and the operation id in the moment between put and marker. The
payloads, ids and urgencies of a list are checked before the first Next is put, other options before each put. A refused
Next fails the run, visibly. When the run is tried again, the list continues where it stopped. A run made by
``client.retry`` is another run, with its own Nexts.

Not guaranteed: if a worker is killed between a put and its marker, and the run is executed again more than ten minutes
later, that Next is put again. It replaces the waiting schedule, or runs a second time. The same happens when a recovery
pushes a run again because Redis had lost its end.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import Any, Final, Self

from rq.job import Job

from zsched.client import Client
from zsched.client.calls import Typed
from zsched.client.client import ClientOptions
from zsched.config.settings import load_settings
from zsched.core.options.arguments import check_id
from zsched.core.options.define import PRESETS, TRIGGERS
from zsched.core.options.forms import DurationValue
from zsched.core.runs.run_id import RunId
from zsched.current import current_job, keys_of_run
from zsched.errors import NOT_GIVEN, InvalidSchedule
from zsched.storage.connection import Link
from zsched.storage.jobs import Notes
from zsched.storage.rqjob import Encoder, function_path

MOST: Final = 100  # Nexts of one run: their ids are in its job's hash; schedule_many is for more

_FIELD: Final = "zs_next"
_ROOT: Final = 100  # characters of a schedule's id at the start of its Nexts' ids
_DIGEST: Final = 10  # bytes

_REMEDY: Final = "give zsched.Next(at=… or after=…, …)"

_RUNNING: ContextVar[str | None] = ContextVar("zsched_running", default=None)  # the run that is executed here


@dataclass(init=False)
class Next:
    """
    The step after this run: returned by a task, alone or in a list, and scheduled when the run succeeded.

    *func* is a task, a function or its dotted path; without it, it is the same task, with this run's payload, changed
    by the *given* parameters. Parameters of a task are given by name, like the options of ``client.schedule``. Give
    either *at* or *after* (counted from the end of the run): it runs once. The worker signs it if it has ``[signing]``
    keys. A refused Next fails the run.

    Raises:
        InvalidSchedule: no time, two times, or a rule.
        NotImportable: a worker cannot find *func*.
    """

    func: str | Callable[..., Any] | None
    given: dict[str, Any]

    def __init__(
        self,
        func: str | Callable[..., Any] | None = None,
        /,
        *,
        at: datetime | None = None,
        after: DurationValue | None = None,
        **given: Any,
    ) -> None:
        times = {name: value for name, value in (("at", at), ("after", after)) if value is not None}
        self.func, self.given = func, {**times, **given}
        if func is not None and not isinstance(func, Typed):
            function_path(func)
        for name in TRIGGERS:
            if given.get(name) is not None:
                raise InvalidSchedule(name, given[name], "a Next runs once", _REMEDY)
        if len(times) != 1:
            problem = "a Next with more than one time" if times else "a Next without a time"
            raise InvalidSchedule(" and ".join(times) or "at", NOT_GIVEN, problem, _REMEDY)


Call = tuple[str | Callable[..., Any], dict[str, Any]]  # a Next in the form for ``client.schedule``: func, options


class Turn:
    """One execution of a run by a worker."""

    def __init__(self, job: Job, parts: RunId) -> None:
        self._job, self._parts, self._keys = job, parts, keys_of_run(job, parts)
        self._notes = Notes(job.connection, self._keys, job.id)

    @classmethod
    def of(cls, path: str, func: Callable[..., Any]) -> Self | None:
        """Return the turn if a worker calls *func* for a run; None for any other call, also of a task by itself."""
        found = current_job()
        if found is None or _RUNNING.get() == found[0].id:
            return None
        job, parts = found
        return cls(job, parts) if job.func_name == path or job.func is func else None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Mark that the function runs: its calls inside the block are not the run."""
        token = _RUNNING.set(self._job.id)
        try:
            yield
        finally:
            _RUNNING.reset(token)

    def payload(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the run's args and kwargs as they were scheduled, whatever the function did to its own."""
        _, args, kwargs = Encoder(self._serializer).open(self._job.data, runs=True)
        return args, kwargs

    def schedule(self, calls: Iterable[Call]) -> dict[str, Any]:
        """
        Schedule *calls* that no earlier execution of the run has scheduled. If nothing is left to do, they are not
        checked. Return the value that RQ keeps as the result.

        Raises:
            InvalidSchedule: a call is refused, or two calls have the same id.
            RedisUnavailable, RedisRefused: Redis was not reached, or refused.
        """
        done, is_all = self._read(self._notes.read(_FIELD))
        if is_all:
            return {"next": done}
        named = self._named(calls)
        link = Link.adopt(self._job.connection)
        try:
            named_by = {"serializer": self._serializer, "rq_prefix": self._keys.rq.prefix, "by": self._job.id}
            client = Client(link, self._parts.namespace, **named_by, **_signing())
            for place, (func, options) in enumerate(named[len(done) :], len(done)):
                done.append(client._schedule_as(f"next:{self._job.id}:{place}", func, **options).id)
                self._mark(done, is_all=len(done) == len(named))
        finally:
            link.pool.disconnect()
        return {"next": done}

    def _named(self, calls: Iterable[Call]) -> list[Call]:
        """Return *calls*, each with a different id. Raises InvalidSchedule."""
        named: dict[str, Call] = {}
        for place, (func, options) in enumerate(calls):
            given = options.get("id")
            id = self._id(place) if given is None else check_id(given)
            if id in named:
                raise InvalidSchedule("id", id, "two Nexts of one run have it", "give each an id= of its own")
            if id == self._parts.schedule_id and self._recurs():
                problem = "the Next would replace the recurring schedule of this run"
                raise InvalidSchedule("id", id, problem, "give the Next an id= of its own")
            _check_urgency(options.get("urgency"))
            named[id] = func, {**options, "id": id}
        return list(named.values())

    def _id(self, place: int) -> str:
        """Make an id for the Next at *place*: ``poll-next-<digest>``, also after many Nexts in a row."""
        root = self._parts.schedule_id.rpartition("-next-")
        stem = root[0] if root[0] and len(root[2]) == 2 * _DIGEST else self._parts.schedule_id
        digest = hashlib.blake2b(f"{self._job.id} {place}".encode(), digest_size=_DIGEST)
        return f"{stem[:_ROOT]}-next-{digest.hexdigest()}"

    def _recurs(self) -> bool:
        return bool(self._notes.execute("SISMEMBER", self._keys.recurring(), self._parts.schedule_id))

    @cached_property
    def _serializer(self) -> str:
        """Return the namespace's serializer, which the worker used to read this run."""
        return bytes(self._notes.execute("HGET", self._keys.meta(), "serializer") or b"pickle").decode()

    def _read(self, text: str) -> tuple[list[str], bool]:
        """Return the schedule ids in a marker, and whether they are all. A marker of another run counts as empty."""
        run_id, word, *ids = text.split(" ") if text.count(" ") >= 2 else ("", "")
        return (ids, word == "all") if run_id == self._job.id else ([], False)

    def _mark(self, done: Sequence[str], is_all: bool) -> None:
        """Write the marker, unless a simultaneous execution is further."""
        mark = " ".join([self._job.id, "all" if is_all else "some", *done])

        def changed(there: str) -> str:
            ids, was_all = self._read(there)
            return there if (was_all, len(ids)) > (is_all, len(done)) else mark

        self._notes.change(_FIELD, changed)


def nexts_of(result: object) -> list[Next] | None:
    """
    Return the Nexts that a task returned; None if it returned something else.

    Raises:
        InvalidSchedule: a list of Nexts and other values, or too many Nexts.
    """
    found = [result] if isinstance(result, Next) else result
    if not isinstance(found, list | tuple) or not any(isinstance(one, Next) for one in found):
        return None
    nexts = [one for one in found if isinstance(one, Next)]
    if len(nexts) < len(found):
        other = next(one for one in found if not isinstance(one, Next))
        problem = "a task returned it in a list with Nexts, so its result is ambiguous"
        raise InvalidSchedule("return", other, problem, "return either Nexts or something else")
    if len(nexts) > MOST:
        remedy = "return one that calls client.schedule_many"
        raise InvalidSchedule("return", len(nexts), f"a run can have {MOST} Nexts", remedy)
    return nexts


@cache
def _signing() -> ClientOptions:
    """Return the keys of this worker, by its settings, for a client. Raises ConfigError."""
    settings = load_settings().signing
    return {"signing_keys_file": settings.keys_file, "signing_valid_days": settings.valid_days}


def _check_urgency(given: Any) -> None:
    """Refuse a client's own urgency, before the first Next is put. Raises InvalidSchedule, with a remedy."""
    if isinstance(given, str) and given not in PRESETS:
        problem = f"a worker knows {', '.join(PRESETS)}, and nothing of a client's urgencies="
        remedy = "give the task the options of that urgency: priority=, expires_after=, …"
        raise InvalidSchedule("urgency", given, problem, remedy)


def is_once(options: Mapping[str, Any]) -> bool:
    """Return True if *options* name one time."""
    return options.get("at") is not None or options.get("after") is not None
