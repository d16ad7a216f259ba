"""
The records of schedules in Redis, read by get.lua, as many as there are at one moment of the log; each record read as a
``Schedule``; and the whole content of a namespace, read in pages, each with the log's end at its time.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from zsched.core.clock import LAST_MS, to_ms
from zsched.core.entry import BEFORE_BY, Position, Texts, any_milliseconds, text
from zsched.core.model import Schedule
from zsched.core.occurrences.policy import USUAL
from zsched.core.options.arguments import VERSION
from zsched.core.options.checked import read_letters, read_options, read_policy
from zsched.core.options.choices import Priority, ScheduleState
from zsched.core.options.forms import LONGEST_PATH, UNREADABLE, Stored, whole_number
from zsched.core.pages import pages_of
from zsched.core.record import PROGRESS, STATE, Place, Record, skipped_in
from zsched.core.runs.job import CALLBACKS, OFFSET_FIELD
from zsched.core.runs.run_id import RunId, nominal_ms_of, run_id_of, run_key
from zsched.core.triggers.spec import NO_CALENDARS, Calendars, TriggerSpec
from zsched.core.triggers.trigger import build, delay_of, read_spec, with_calendars, with_skipped
from zsched.core.wording import LONGEST_NAME
from zsched.errors import InvalidSchedule, RedisRefused, TriggerError, UnknownCalendar, UnknownZone
from zsched.storage.connection import Wire
from zsched.storage.jobs import queue_keys
from zsched.storage.keys import Keys
from zsched.storage.meta import throttled_sets
from zsched.storage.rqjob import Encoder
from zsched.storage.scripts import Scripts
from zsched.storage.unpickling import NotPlain, excess, inflated

T = TypeVar("T")
PAGE: Final = 200  # schedules read by one script
_SHOWN_BYTES: Final = 2**20  # of arguments, inflated; the default limit of a put is a quarter of that
_LANES: Final = {lane.value: lane for lane in Priority}  # another program may have written another word
_STATES: Final = {
    Place.DUE: ScheduleState.ACTIVE,
    Place.PAUSED: ScheduleState.PAUSED,
    Place.QUARANTINE: ScheduleState.QUARANTINED,
    Place.ENDED: ScheduleState.ENDED,
}
Page = tuple[Position | None, list[Record]]


class RecordPage(NamedTuple):
    """Records of schedules at *now_ms* of the server, when the log ended with *at* (None: it is empty)."""

    now_ms: int
    at: Position | None
    records: list[Record]


def read_records(scripts: Scripts, keys: Keys, ids: Iterable[str], at_first: int | None = None) -> Iterator[RecordPage]:
    """Yield the existing schedules of *ids*, in their order, in pages. *at_first*: the most in the first page."""
    return (read_page(scripts, keys, page) for page in pages_of(ids, PAGE, at_first))


def read_page(scripts: Scripts, keys: Keys, ids: Sequence[str]) -> RecordPage:
    """Return the existing schedules of *ids*, at most ``PAGE``."""
    now_ms, last, last_t, *rows = scripts.call("get", rows=ids)
    found = [_record(id, row, keys.run_suffix) for id, row in zip(ids, rows, strict=True) if row]
    return RecordPage(int(now_ms), Position.of(last, last_t), found)


def _record(id: str, row: list[Any], run_suffix: str) -> Record:
    """Return the record in a row of the reply. Another program may have written any value."""
    place, lane, due, since_ms, note, is_recurring, own, job, places = row
    fields = dict(zip(own[::2], own[1::2], strict=True))
    progress = PROGRESS.fullmatch(text(fields.pop(b"progress", b"")))
    nominal, last, state, version = progress.groups() if progress else ("-", "-", "-", "")
    if fields:
        fields[b"version"] = version.encode()  # empty: the progress is broken
    return Record(
        id=id,
        run="" if is_recurring else f"{text(due)}{run_suffix}",
        place=Place(text(place)),
        lane=_LANES.get(text(lane or fields.get(b"lane", b"")), Priority.NORMAL).value,  # an ended schedule has no lane
        due_ms=None if due in (b"", b"-") else due_from_score(due),
        job=job,
        own=[each for field in fields.items() for each in field],
        nominal_ms=None if (at_ms := any_milliseconds(nominal)) is None or at_ms > LAST_MS else at_ms,
        last=None if last == "-" else run_id_of(id, last),
        state=state if STATE.fullmatch(state) else "",
        note=f"{text(since_ms)} {text(note)}" if since_ms else None,
        places=text(places).split(),
    )


def rq_fields(record: Record) -> dict[str, bytes]:
    """Return RQ's fields of *record* by name; data and meta are bytes that no text is made of."""
    return {text(name): value for name, value in zip(record.job[::2], record.job[1::2], strict=True)}


def as_schedule(
    record: Record, encoder: Encoder, now_ms: int = 0, calendars: Callable[[], Calendars] = lambda: NO_CALENDARS
) -> Schedule:
    """
    Return the schedule of *record*, read at *now_ms* of the server, with *calendars* if its rule names one. What
    another program broke is ``unreadable``.
    """
    try:
        return _schedule(record, encoder, now_ms, calendars)
    except Exception:  # a value that nobody expected must not hide the other schedules
        known: dict[str, Any] = {"state": _STATES[record.place], "next_ms": record.due_ms}
        kind = "once" if record.run else "every"
        return Schedule(id=record.id, kind=kind, func="", unreadable=("definition",), record=record, **known)


def _schedule(record: Record, encoder: Encoder, now_ms: int, calendars: Callable[[], Calendars]) -> Schedule:
    recurring = not record.run
    own, job = _decoded(record.own), _decoded(record.job)
    version = own.get("version") if recurring else job.get("zs_version") or job.get("created_at")
    since_ms, _, note = (record.note or "").partition(" ")
    reason, _, rest = note.partition(BEFORE_BY)
    paused_by, _, until = rest.partition(BEFORE_BY)
    wanted = job | {name.removeprefix("zs_"): text for name, text in job.items() if name.startswith("zs_")}
    labels = own if recurring else wanted
    spec, policy = _read(own.get("trigger"), _spec), _read(own.get("policy", ""), read_policy)
    anchor_ms = _number(own.get("anchor"))
    options = read_options({Stored.JOB: job, Stored.RQ: wanted, Stored.LABEL: labels, Stored.OWN: own})
    options |= read_letters(job.get("zs", ""))
    func, queue = labels.get("func") or job.get("description", ""), job.get("origin", "")
    sound: dict[str, object] = {"rule": spec or not recurring, "progress": version != "", "policy": policy}
    sound["version"] = VERSION.fullmatch(version or "-")
    sound |= {"func": len(func) <= LONGEST_PATH, "queue": len(queue) <= LONGEST_NAME}
    options["unreadable"] = tuple(name for name in sound if not sound[name]) + options.get("unreadable", ())
    if spec:
        spec = with_calendars(spec, calendars) if spec.exclude else spec
        spec = _with_skips(spec, own, record.state) if record.state else spec
        options |= {"tz": spec.tz, "jitter_ms": spec.jitter_ms}
    args, kwargs = _arguments(record.job, encoder)
    next_ms, nominal_ms = record.due_ms, record.nominal_ms
    if not recurring and next_ms is not None:
        nominal_ms = next_ms - delay_of(record.id, options.get("jitter_ms", 0))
    return Schedule(
        **options,
        record=record,
        read_ms=now_ms,
        id=record.id,
        state=_STATES[record.place],
        kind=spec.kind.name if spec else "every" if recurring else "once",
        func=func[:LONGEST_PATH],
        queue=queue[:LONGEST_NAME],
        priority=_LANES.get(record.lane, Priority.NORMAL),
        next_ms=next_ms,
        trigger=spec,
        anchor_ms=anchor_ms,
        nominal_ms=nominal_ms,
        version=version or None,
        last_run_id=record.last,
        offset_s=None if recurring else _number(job.get(OFFSET_FIELD), -86_400, 86_400),
        args=args,
        kwargs=kwargs,
        policy=policy or USUAL,
        created_ms=_number(own.get("created_at")) if recurring else _iso_ms(job.get("created_at")),
        updated_ms=_number(own.get("updated_at")) if recurring else _iso_ms(version),
        note=reason or None,
        paused_by=paused_by or None,
        resumes_ms=_number(until or None),
        since_ms=(_number(since_ms) or None) if since_ms else _number(own.get("ended_at")),
        callbacks=tuple((option, path) for option, name in CALLBACKS.items() if (path := job.get(name))),
    )


def _arguments(job: Texts, encoder: Encoder) -> tuple[Any, Any]:
    """
    Return args and kwargs for display, for JSON only: loading a pickle would run it. None: they are too large, as a
    listing has many.
    """
    data = dict(zip(job[::2], job[1::2], strict=True)).get(b"data")
    if encoder.serializer != "json" or data is None:
        return None, None
    try:
        if len(inflated(data)) > _SHOWN_BYTES:
            return None, None
        _, args, kwargs = encoder.open(data)
    except (InvalidSchedule, NotPlain):
        return None, None
    return (None, None) if excess([args, kwargs], sys.getrecursionlimit()) else (list(args), kwargs)


def due_from_score(score: bytes | float) -> int:
    """Return a due time in ms; values of another writer (1.5, 1e300, inf) are limited to the range of time."""
    return int(min(max(float(score), 0.0), float(LAST_MS)))


def _decoded(pairs: Texts) -> dict[str, str]:
    """Return the texts of a hash, without data and meta, which are bytes."""
    fields = zip(pairs[::2], pairs[1::2], strict=True)
    return {text(name): value.decode("utf-8", "replace") for name, value in fields if name not in (b"data", b"meta")}


def _read(text: Any, read: Callable[[Any], T]) -> T | None:
    """Return what *read* makes of *text*; None if there is none, or another program broke it."""
    try:
        return None if text is None else read(text)
    except (*UNREADABLE, TriggerError):
        return None


def _number(text: str | bytes | None, least: int = 0, most: int = LAST_MS) -> int | None:
    return _read(text, lambda given: whole_number(given, least, most))


def _iso_ms(text: str | None) -> int | None:
    """Return the instant of a time of RQ's."""
    return _read(text, lambda given: to_ms(datetime.fromisoformat(given).replace(tzinfo=UTC)))


def _with_skips(spec: TriggerSpec, own: dict[str, str], state: str) -> TriggerSpec:
    """Return *spec* without what is skipped by hand, but for times that an earlier rule of the schedule had."""
    skipped = skipped_in(state)
    with suppress(InvalidSchedule, TriggerError):  # not on this machine, or not without the calendars
        skipped = tuple(filter(build(spec, _number(own.get("anchor")) or 0).has, skipped))
    return with_skipped(spec, skipped)


def _spec(text: str) -> TriggerSpec:
    """Return the rule of *text*. Raises UNREADABLE, TriggerError: there is none that can be built."""
    spec = read_spec(text)
    with suppress(UnknownZone, UnknownCalendar):  # another machine has it, or it comes
        build(spec, 0)
    return spec


class Scanner:
    """Reads one namespace over one wire."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys, self._scripts = wire, keys, Scripts(wire, keys)

    def ids(self) -> Iterator[str]:
        """Yield the ids of all schedules, some twice."""
        yield from chain.from_iterable(self.ids_in_places())
        yield from chain.from_iterable(self.ids_of_rules())

    def ids_of_rules(self) -> Iterator[list[str]]:
        """Yield the ids of recurring schedules, one reply of Redis after the other; some twice."""
        yield from self._scan("SSCAN", self._keys.recurring(), 1)

    def ids_in_places(self) -> Iterator[list[str]]:
        """
        Yield the ids in lanes, throttled, paused or in quarantine, one reply of Redis after the other; some come twice.
        An id that moves meanwhile may be missing: its move is in the log, or it was throttled. Throttled ones are read
        after the lanes.
        """
        keys = self._keys
        for lane in Priority:
            yield from self._scan("ZSCAN", keys.due(lane), 2)
        for throttled in throttled_sets(self._wire, keys):
            yield from self._scan("ZSCAN", throttled.key(keys), 2)
        yield from self._scan("HSCAN", keys.paused(), 2)
        yield from self.ids_in_quarantine()

    def ids_in_quarantine(self) -> Iterator[list[str]]:
        """Yield the ids in quarantine, one reply of Redis after the other; some come twice."""
        yield from self._scan("HSCAN", self._keys.quarantine(), 2)

    def missing(self, schedules: Sequence[tuple[str, str]]) -> list[str]:
        """
        Return the *schedules*, each given with the rest of its waiting run's id ('' for a recurring schedule),
        that have no place, or no hash, template or job.
        """
        return list(map(text, self._scripts.call("audit", rows=list(chain.from_iterable(schedules)))))

    def schedules(self, ids: Iterable[str]) -> Iterator[Page]:
        """Yield the existing schedules of *ids*, in pages."""
        yield from ((at, found) for _, at, found in read_records(self._scripts, self._keys, ids))

    def run_ids(self) -> Iterator[str]:
        """
        Yield the ids of this namespace's open runs, some twice: in RQ's queues, waiting for another run, for another
        attempt or for a slot of their rate limit, or executed.

        A queue is read from its end: pushes meanwhile are in the log, and workers that take jobs from the front move
        nothing. Runs that wait elsewhere go into a queue from there, so they are read before. Runs that workers took
        are read after, also if a worker died before it started them.
        """
        rq = self._keys.rq
        chains = self._wire.execute("HKEYS", self._keys.chains()) if self._is(self._keys.chains(), b"hash") else []
        for key in (self._keys.waiting(text(id)) for id in chains):
            if self._is(key, b"list"):
                yield from self._ours(map(text, self._wire.execute("LRANGE", key, 0, -1)))
        queues = queue_keys(self._wire, self._keys.rq)
        for queue in queues:
            yield from self._waiting(rq.registry("scheduled", rq.queue_name(queue)))
        if self._is(rq.limits(), b"set"):  # a run may move from a registry to its limit, and then to its queue
            for limit in self._wire.execute("SMEMBERS", rq.limits()):
                yield from self._waiting(rq.limit_waiting(limit))
        for queue in filter(lambda queue: self._is(queue, b"list"), queues):
            last = -1
            while page := self._wire.execute("LRANGE", queue, last - PAGE + 1, last):
                yield from self._ours(map(text, page))
                last -= PAGE
        for queue in queues:
            yield from self._ours(text(member).partition(":")[0] for member in self._taken(rq.queue_name(queue)))

    def runs(self, run_ids: Iterable[str], at: Position | None) -> Iterator[Page]:
        """
        Yield the *run_ids* with existing jobs, in pages, read when the log ended with *at* or later; without
        cancelled runs that are still in a long queue.
        """
        for page in pages_of(run_ids, PAGE):
            found, job = list[Record](), self._keys.rq.job
            records = self._wire.replies(("HGETALL", job(run_id)) for run_id in page)
            for run_id, record in zip(page, records, strict=True):
                key, names = run_key(run_id), () if isinstance(record, RedisRefused) else record[::2]
                if names and key is not None and b"zs_gone" not in names:
                    note = "uncertain" if b"zs_uncertain" in names else None
                    found.append(Record(*key, Place.OPEN, "", nominal_ms_of(key[1]), record, note=note))
                elif isinstance(record, RedisRefused) and self._wire.execute("TYPE", job(run_id)) == b"hash":
                    raise record  # a key of another type is another writer's
            yield at, found

    def _ours(self, members: Iterable[str]) -> Iterator[str]:
        return (member for member in members if RunId.ours(member, self._keys.namespace))

    def _waiting(self, key: bytes) -> Iterator[str]:
        """Yield the runs in the ZSET at *key*."""
        if self._is(key, b"zset"):
            yield from self._ours(chain.from_iterable(self._scan("ZSCAN", key, 2)))

    def _taken(self, queue: bytes) -> Iterator[bytes]:
        """Yield jobs that workers took from *queue* and have not started, then executions."""
        taken, started = self._keys.rq.intermediate(queue), self._keys.rq.registry("wip", queue)
        if self._is(taken, b"list"):
            yield from self._wire.execute("LRANGE", taken, 0, -1)
        if self._is(started, b"zset"):
            yield from self._wire.execute("ZRANGE", started, 0, -1)

    def _is(self, key: str | bytes, kind: bytes) -> bool:
        """Return True if *key* has the type that RQ gives it. Another type, left by another writer, holds no runs."""
        return bool(self._wire.execute("TYPE", key) == kind)

    def _scan(self, command: str, key: str | bytes, width: int) -> Iterator[list[str]]:
        cursor = b"0"
        while True:
            cursor, flat = self._wire.execute(command, key, cursor, "COUNT", PAGE)
            yield [text(member) for member in flat[::width]]
            if cursor == b"0":
                return
