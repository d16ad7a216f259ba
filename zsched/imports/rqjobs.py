"""
Translate RQ's job hashes into options of ``client.schedule``: RQ's delayed jobs, and jobs of the package rq-scheduler.

With the serializer pickle this opens the jobs' arguments, as RQ's workers do. So run it only with a trusted Redis, and
where the modules of the arguments' classes can be imported.

If zsched has no option for a property of a job, the job is refused, and the property is named. A job that ran already
(a retry that waits, a job of a Repeat) and zsched's own jobs are not moved.

RQ's own delayed jobs are made by ``enqueue_at`` and ``enqueue_in``; they wait in ``rq:scheduled:<queue>``. They are
moved. A daemon pushes such jobs at their time anyway, if no scheduler of RQ does (``daemon/releases``). After the move
they have the log, the archive, ``zsched why``, and recovery of a lost Redis.

Some jobs stay where they are: jobs that are due within ``SOON_S``, or nearly due when their turn comes; and runs that
wait for another attempt, RQ's or zsched's. RQ's scheduler takes no job before its time, so it never takes a job that is
just being moved.

The package rq-scheduler has one ZSET of RQ's job ids. ``meta`` of a job says how it recurs:

    interval    every so many seconds, counted from the job's next time, so its rhythm stays
    cron_string by the rules of the package crontab, in the zone of the machine where rq-scheduler runs, whatever
                ``use_local_timezone`` is (rq-scheduler 0.14, ``utils.get_next_scheduled_time``); *tz* is that zone
    repeat      number of remaining runs
    none        a one-shot; an overdue one runs at once, as after a start of rq-scheduler

If both day fields of a cron_string are restricted, that package runs on days that match both. cron and zsched run on
days that match either, so such a job is refused. ``result_ttl`` -1 of a recurring job is ignored: rq-scheduler sets it
because all runs share one job. Here each run has its own job, and nobody wants to keep all of them forever.

Not guaranteed: a scheduler that is started after the check for running schedulers is not noticed.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from zsched.core.clock import from_ms
from zsched.core.options.forms import RATE_LIMIT
from zsched.core.pages import pages_of
from zsched.core.wording import blanked
from zsched.errors import InvalidSchedule
from zsched.imports.found import ImportSource, Item, OneShot
from zsched.storage.connection import Link
from zsched.storage.jobs import Registries
from zsched.storage.rivals import RQ_SCHEDULED_OWNER, RQ_SCHEDULER_OWNER
from zsched.storage.rqjob import Encoder
from zsched.storage.rqkeys import RQ_SCHEDULER_JOBS, RqKeys

_PAGE: Final = 200  # hashes read in one round trip
_SHOWN: Final = 200  # characters of a description, the most that one takes
_UNSAID: Final = {  # RQ's fields without an option, and the remedies
    "dependency_ids": "it depends on other jobs; let their tasks return zsched.Next (docs/how-to/chain-runs.md)",
    "dependency_id": "it depends on another job; let its task return zsched.Next (docs/how-to/chain-runs.md)",
    "stopped_callback_name": "it has a callback for being stopped; leave that out",
    "repeats_left": "it repeats itself (rq.Repeat); give it a rule: zsched add … --every … --count …",
    "webhooks": "it has webhooks; call them in its callbacks",
    "group_id": "it is one of a group; let RQ finish the group",
}


class RQJobs:
    """RQ's jobs of one Redis, at the keys *rq*, written by the serializer of *encoder*."""

    def __init__(self, link: Link, rq: RqKeys, encoder: Encoder) -> None:
        self.link, self.rq, self._encoder = link, rq, encoder

    def waiting(self, key: str) -> dict[str, float]:
        """Return the ids of the jobs in the ZSET at *key*, each with its time in seconds."""
        flat = self.link.execute("ZRANGE", key, 0, -1, "WITHSCORES")
        return {id.decode(errors="replace"): float(score) for id, score in zip(flat[::2], flat[1::2], strict=True)}

    def read(self, ids: Iterable[str]) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Yield each of *ids* with the fields that are not empty, in order; a missing job has no fields."""
        for page in pages_of(ids, _PAGE):
            with self.link.wire() as wire:
                replies = wire.execute_all(("HGETALL", self.rq.job(id)) for id in page)
            for id, flat in zip(page, replies, strict=True):
                pairs = zip(flat[::2], flat[1::2], strict=True)
                yield id, {bytes(name).decode(errors="replace"): value for name, value in pairs if value != b""}

    def options(self, fields: Mapping[str, bytes]) -> tuple[str, dict[str, Any]]:
        """
        Return the function of the job with *fields*, and its options without a time.

        Raises:
            ValueError: zsched has no option for it; the message has the reason and the remedy.
        """
        if "data" not in fields:
            raise ValueError("its job is missing, so its function is unknown; remove it from its set, or leave it")
        if problem := next((_UNSAID[field] for field in _UNSAID if field in fields), ""):
            raise ValueError(problem)
        try:
            func, args, kwargs = self._encoder.open(fields["data"], runs=True)
            options = self._encoder.options(fields, runs=True)
        except InvalidSchedule as error:
            cause = f" ({error.__cause__})" if error.__cause__ else ""
            remedy = "run this where its modules are, with the workers' [rq] serializer"
            raise ValueError(f"its arguments cannot be read here{cause}; {remedy}") from error
        except Exception as error:  # fields of another writer, or a pickle of a missing class
            problem = f"its fields cannot be read ({type(error).__name__}: {error})"
            raise ValueError(f"{problem}; schedule it again by hand") from error
        if not isinstance(func, str) or "." not in func:
            raise ValueError(f"it calls {func!r}, the method of an object; give it a function of a module")
        options |= {"args": list(args), "kwargs": dict(kwargs)}
        if fields.get("enqueue_at_front") == b"1":
            options["at_front"] = True
        if int(fields.get("ttl", 0)) > 0:  # -1: forever
            options["expires_after"] = int(fields["ttl"])
        if fields.keys() >= {"rate_limit_key", "rate_limit_concurrency"}:  # RQ ignores one without the other
            options["rate_limit"] = _limit(fields["rate_limit_key"], fields["rate_limit_concurrency"])
        described = fields.get("description", b"").decode(errors="replace")
        if described and not described.startswith(f"{func}("):  # RQ's default has the arguments: ours is shorter
            options["description"] = blanked(described)[:_SHOWN]
        return func, options


def _limit(key: bytes, most: bytes) -> str:
    """Return the option rate_limit for these fields. Raises ValueError."""
    try:
        return str(RATE_LIMIT.from_text(f"{key.decode()}:{most.decode()}"))
    except ValueError as error:  # also InvalidSchedule
        problem = f"zsched does not support its rate limit ({error})"
        raise ValueError(f"{problem}; give it another, or let RQ keep it") from error


def instant_of_score(score_s: float) -> datetime:
    """
    Return the time of a job's score, in seconds.

    Raises:
        ValueError: the calendar does not have that time; the score may be in milliseconds.
    """
    try:
        return from_ms(round(score_s * 1000))
    except (ValueError, OverflowError) as error:
        problem = f"its time, {score_s:.16g} s after 1970, is not valid"
        raise ValueError(f"{problem}; set its score to seconds (ZADD), or take it out of its set") from error


def not_before(score_s: float) -> datetime:
    """
    Return the first time at which a one-shot is not early. RQ and rq-scheduler cut due times to whole seconds, so it
    is the end of that second. A score with a fraction is from ``score_of`` or lua/native.lua: it has the millisecond.

    Raises:
        ValueError: as ``instant_of_score``.
    """
    if score_s % 1 > 0:
        return instant_of_score(math.ceil(score_s * 1000) / 1000)
    return instant_of_score(score_s) + timedelta(seconds=1)


def score_of(due_ms: int) -> float:
    """Return the score from which ``not_before`` reads *due_ms*: a bit earlier, so that it always has a fraction."""
    return due_ms / 1000 - 0.0001


@contextmanager
def _refusing(source: ImportSource, id: str, fields: Mapping[str, bytes]) -> Iterator[None]:
    """Refuse job *id* of *source* if the block raises ValueError."""
    try:
        yield
    except ValueError as error:
        source.refuse(id, fields.get("description", b"").decode(errors="replace"), str(error))


# -- RQ's own delayed jobs --------------------------------------------------------------------------


SOON_S: Final = 30  # after the reading; jobs that are due so soon are not moved
_MARGIN_MS: Final = 5000  # left when a job is moved; even without RQ's second far longer than the move takes


def read_rq_scheduled(jobs: RQJobs, now_ms: int, queues: Collection[str] = ()) -> ImportSource:
    """Read the jobs that wait in *queues*, or in all queues that RQ knows, by the server's time *now_ms*."""
    source, soon, retries = ImportSource(RQ_SCHEDULED_OWNER, RQ_SCHEDULED_OWNER), 0, 0
    with jobs.link.wire() as wire:
        names = sorted(queues) or Registries(wire, jobs.rq).queues()
    for queue in names:
        waiting_key = jobs.rq.registry("scheduled", queue)
        due_s = jobs.waiting(waiting_key)
        later = {id: at_s for id, at_s in due_s.items() if at_s * 1000 > now_ms + SOON_S * 1000}
        soon += len(due_s) - len(later)
        for id, fields in jobs.read(later):
            if "started_at" in fields or any(name.startswith("zs") for name in fields):  # begun, or pushed by zsched
                retries += 1
                continue
            with _refusing(source, id, fields):
                status = fields.get("status", b"").decode(errors="replace")
                if fields and status != "scheduled":  # RQ would not push it as waiting
                    problem = f"its status in RQ is {status or 'unknown'}, not scheduled"
                    raise ValueError(f"{problem}; leave it, or take it out of the registry")
                func, options = jobs.options(fields)
                options |= {"queue": queue, "at": not_before(later[id])}
                source.items.append(OneShot(id, id, func, options, waiting_key, _MARGIN_MS))
    if soon:
        source.remarks.append(f"left to RQ, or to the daemon, as they are due within {SOON_S} s: {soon:,}")
    if retries:
        source.remarks.append(f"left in RQ, as runs that wait for another attempt: {retries:,}")
    return source


# -- rq-scheduler -----------------------------------------------------------------------------------


_ITS_META: Final = ("cron_string", "interval", "repeat", "use_local_timezone", "queue_class_name")
_KEEPS: Final = -1  # RQ's result_ttl for ever
_AND: Final = (
    "the package crontab runs it on days that match day of month and day of week, cron and zsched on days that match "
    "either; write it as --rrule, such as FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR"
)


def read_rq_scheduler(jobs: RQJobs, tz: str) -> ImportSource:
    """Read all jobs in rq-scheduler's set; cron strings are in the zone *tz*."""
    source, due_s = ImportSource(RQ_SCHEDULER_OWNER, RQ_SCHEDULER_OWNER), jobs.waiting(RQ_SCHEDULER_JOBS)
    for id, fields in jobs.read(due_s):
        with _refusing(source, id, fields):
            source.items.append(_item(id, *jobs.options(fields), due_s[id], tz))
    return source


def _item(id: str, func: str, options: dict[str, Any], due_s: float, tz: str) -> Item:
    """Return the schedule of a job of rq-scheduler. Raises ValueError."""
    meta, at = options.pop("meta", None) or {}, not_before(due_s)
    if not isinstance(meta, dict):
        raise ValueError(f"its meta is {type(meta).__name__}, not a dict; schedule it again by hand")
    meta = dict(meta)
    its = {name: meta.pop(name, None) for name in _ITS_META}
    if meta:
        options["meta"] = meta
    if not its["interval"] and not its["cron_string"]:
        return OneShot(id, id, func, options | {"at": at, "allow_past": True}, RQ_SCHEDULER_JOBS)
    if options.get("result_ttl") == _KEEPS:
        del options["result_ttl"]
    options |= {"overlap": "allow"}  # rq-scheduler ignores previous runs
    if its["repeat"] is not None:
        options["count"] = max(_whole("repeat", its["repeat"]), 1)  # it counts down after a run
    if its["interval"]:
        options |= {"every": _whole("interval", its["interval"]), "starts": instant_of_score(due_s)}
    else:
        options |= {"cron": _cron(str(its["cron_string"])), "tz": tz}
    return Item(id, id, func, options)


def _whole(name: str, given: Any) -> int:
    """Return the number in meta's *name*. Raises ValueError."""
    try:
        return int(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"its meta has {name} = {given!r}, not a number; schedule it again by hand") from error


def _cron(text: str) -> str:
    """Translate the expression of the package crontab into zsched's. Raises ValueError."""
    fields = text.split()
    if len(fields) in (6, 7) and fields.pop() != "*":
        raise ValueError(f"cron_string {text!r} has a year; schedule it with --starts and --ends instead")
    if len(fields) < 5:
        return text
    fields = ["*" if "*" in field.split(",") else field for field in fields]
    if not any(field.startswith(("*", "?")) for field in (fields[-3], fields[-1])):
        raise ValueError(f"cron_string {text!r}: {_AND}")
    return " ".join(fields)
