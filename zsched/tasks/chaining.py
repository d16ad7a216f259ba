"""
Chaining: a task that returns a ``Next`` has it scheduled by its worker, once.

The worker schedules before it tells RQ that the run is done: what dies in between is run again, and nothing is
missing. For that not to schedule twice, a Next is known by the run's id and its place in the list:

- it is put under an operation id made of these. A put of the same operation within ten minutes does nothing;
- its schedule's id, if it gets none from the Next or from its task, is made of these too;
- when it was put, ``zs_next`` in the run's job says so: ``<run id> some|all <schedule id> …``. A later execution of
  the run skips what is named there, and with ``all`` it schedules nothing more, whatever it returns.

So the marker counts for as long as RQ knows the run, and the operation id for the moment between put and marker. The
payloads, ids and urgencies of a list are checked before the first Next is put, its other options when its turn comes.
One that is refused fails the run, visibly; when that is tried again, the list goes on where it stopped. A run that
``client.retry`` makes is another run, with Nexts of its own.

Not guaranteed: a worker killed between a put and its marker, and the run executed again more than ten minutes later,
puts that Next again: over the one that waits, or a second time if it has run. So does a run that a recovery pushed
again because Redis had lost its end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

from rq.job import Job

from zsched.client import Client
from zsched.client.calls import Typed
from zsched.core.arguments import check_id
from zsched.core.forms import Seconds
from zsched.core.options import PRESETS, TRIGGERS
from zsched.core.run_id import RunId
from zsched.current import current_job, keys_of_run
from zsched.errors import NOT_GIVEN, InvalidSchedule
from zsched.storage.connection import Link
from zsched.storage.jobs import Notes
from zsched.storage.rqjob import Encoder, function_path

MOST: Final = 100  # Nexts of one run: their ids stand in its job's hash; schedule_many is for more

_FIELD: Final = "zs_next"
_ROOT: Final = 100  # characters of a schedule's id that the ids of what follows it begin with
_DIGEST: Final = 10  # bytes

_REMEDY: Final = "give zsched.Next(at=… or after=…, …)"

_RUNNING: ContextVar[str | None] = ContextVar("zsched_running", default=None)  # the run whose task is on here


@dataclass(init=False)
class Next:
    """
    The step after this run: returned by a task, alone or in a list, and scheduled when the run succeeded.

    *func* is a task, a function or its dotted path; without one the same task again, with this run's payload and what
    is *given* over it. Parameters of a task are given by name, like the options of ``client.schedule``. Either *at* or
    *after*, from the end of the run, says when: it runs once.

    The worker schedules it, and has nothing of what a ``Client`` was made with: of urgencies it knows zsched's own,
    unchanged, and its ``payload_limit`` is the default. A Next that needs another fails the run, after the task did its
    work; so give the task's decorator what an urgency of yours stands for.

    Raises:
        InvalidSchedule: no time, both, or a rule.
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
        after: Seconds | None = None,
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


class Call(NamedTuple):
    """A Next as ``client.schedule`` takes it."""

    func: str | Callable[..., Any]
    options: dict[str, Any]


class Turn:
    """One execution of a run by a worker."""

    def __init__(self, job: Job, parts: RunId) -> None:
        self._job, self._parts, self._keys = job, parts, keys_of_run(job, parts)
        self._notes = Notes(job.connection, self._keys, job.id)

    @classmethod
    def of(cls, path: str, func: Callable[..., Any]) -> Turn | None:
        """The turn in which a worker calls *func*; None when somebody else does, so also when a task calls itself."""
        found = current_job()
        if found is None or _RUNNING.get() == found[0].id:
            return None
        job, parts = found
        return cls(job, parts) if job.func_name == path or job.func is func else None

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the function runs: calls of it in here are not the run."""
        token = _RUNNING.set(self._job.id)
        try:
            yield
        finally:
            _RUNNING.reset(token)

    def payload(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The run's args and kwargs as they were scheduled, whatever the function did to its own."""
        _, args, kwargs = Encoder(self._serializer).open(self._job.data, runs=True)
        return args, kwargs

    def schedule(self, calls: Iterable[Call]) -> dict[str, Any]:
        """
        Schedule *calls*, but for those that an earlier execution of the run did; with nothing left to do they are not
        even looked at. Returns what RQ keeps as the result.

        Raises:
            InvalidSchedule: one is refused, or two have one id.
            RedisUnavailable, RedisRefused: Redis was not reached, or refused.
        """
        done, is_all = self._read(self._notes.read(_FIELD))
        if is_all:
            return {"next": done}
        named = self._named(calls)
        link = Link.adopt(self._job.connection)
        try:
            prefix = self._keys.rq.prefix
            client = Client(link, self._parts.namespace, serializer=self._serializer, rq_prefix=prefix)
            for place, (func, options) in enumerate(named[len(done) :], len(done)):
                done.append(client.schedule_as(f"next:{self._job.id}:{place}", func, **options).id)
                self._mark(done, is_all=len(done) == len(named))
        finally:
            link.pool.disconnect()
        return {"next": done}

    def _named(self, calls: Iterable[Call]) -> list[Call]:
        """*calls*, each with an id of its own. Raises InvalidSchedule."""
        named: dict[str, Call] = {}
        for place, (func, options) in enumerate(calls):
            given = options.get("id")
            id = self._id(place) if given is None else check_id(given)
            if id in named:
                raise InvalidSchedule("id", id, "two Nexts of one run have it", "give each an id= of its own")
            if id == self._parts.schedule_id and self._recurs():
                problem = "the Next would take the place of the recurring schedule that this run is of"
                raise InvalidSchedule("id", id, problem, "give the Next an id= of its own")
            _check_urgency(options.get("urgency"))
            own = {"created_by": self._job.id} if options.get("created_by") is None else {}
            named[id] = Call(func, {**options, **own, "id": id})
        return list(named.values())

    def _id(self, place: int) -> str:
        """An id for the Next at *place*: ``poll-next-<digest>``, however many come after each other."""
        root = self._parts.schedule_id.rpartition("-next-")
        stem = root[0] if root[0] and len(root[2]) == 2 * _DIGEST else self._parts.schedule_id
        digest = hashlib.blake2b(f"{self._job.id} {place}".encode(), digest_size=_DIGEST)
        return f"{stem[:_ROOT]}-next-{digest.hexdigest()}"

    def _recurs(self) -> bool:
        return bool(self._notes.execute("SISMEMBER", self._keys.recurring(), self._parts.schedule_id))

    @cached_property
    def _serializer(self) -> str:
        """The namespace's: by it the worker has read this run."""
        return bytes(self._notes.execute("HGET", self._keys.meta(), "serializer") or b"pickle").decode()

    def _read(self, text: str) -> tuple[list[str], bool]:
        """The schedules' ids that a marker names, and whether they are all. That of another run counts for nothing."""
        run_id, word, *ids = text.split(" ") if text.count(" ") >= 2 else ("", "")
        return (ids, word == "all") if run_id == self._job.id else ([], False)

    def _mark(self, done: Sequence[str], is_all: bool) -> None:
        """Write the marker, unless an execution at the same time is further."""
        mark = " ".join([self._job.id, "all" if is_all else "some", *done])

        def changed(there: str) -> str:
            ids, was_all = self._read(there)
            return there if (was_all, len(ids)) > (is_all, len(done)) else mark

        self._notes.change(_FIELD, changed)


def nexts_of(result: object) -> list[Next] | None:
    """
    The Nexts that a task returned; None when it returned something else.

    Raises:
        InvalidSchedule: a list of Nexts and other things, or too many.
    """
    found = [result] if isinstance(result, Next) else result
    if not isinstance(found, list | tuple) or not any(isinstance(one, Next) for one in found):
        return None
    nexts = [one for one in found if isinstance(one, Next)]
    if len(nexts) < len(found):
        other = next(one for one in found if not isinstance(one, Next))
        problem = "a task returned it in a list with Nexts, and what of that is the result?"
        raise InvalidSchedule("return", other, problem, "return either Nexts or something else")
    if len(nexts) > MOST:
        remedy = "return one that calls client.schedule_many"
        raise InvalidSchedule("return", len(nexts), f"a run can have {MOST} Nexts", remedy)
    return nexts


def _check_urgency(given: Any) -> None:
    """Raises InvalidSchedule for one of a client's own: before the first Next is put, and with what to do about it."""
    if isinstance(given, str) and given not in PRESETS:
        problem = f"a worker knows {', '.join(PRESETS)}, and nothing of a client's urgencies="
        remedy = "give the task what it stands for: priority=, expires_after=, …"
        raise InvalidSchedule("urgency", given, problem, remedy)


def is_once(options: Mapping[str, Any]) -> bool:
    """Return True if *options* name one time."""
    return options.get("at") is not None or options.get("after") is not None
