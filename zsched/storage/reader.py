"""Schedules in Redis, read back as values. Nothing here writes."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

from zsched.core.clock import LAST_MS, Clock, to_ms
from zsched.core.entry import BEFORE_BY, Texts
from zsched.core.entry import text as shown
from zsched.core.listing import IdTest
from zsched.core.model import Schedule
from zsched.core.occurrences.policy import USUAL
from zsched.core.options.arguments import VERSION
from zsched.core.options.checked import read_letters, read_options, read_policy
from zsched.core.options.choices import Priority, ScheduleState
from zsched.core.options.forms import LONGEST_PATH, UNREADABLE, Stored, whole_number
from zsched.core.record import Place, Record
from zsched.core.runs.job import CALLBACKS, OFFSET_FIELD
from zsched.core.runs.signature import SIGNATURE_FIELD, job_pairs
from zsched.core.triggers import TriggerSpec, build, delay_of, read_spec
from zsched.core.wording import LONGEST_NAME
from zsched.errors import InvalidSchedule, TriggerError, UnknownZone
from zsched.storage.connection import Link
from zsched.storage.guards import warned_jobs
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.meta import asking, due_from_score, server_now_ms
from zsched.storage.queues import HeldBack, QueueSeen, StalledQueues, queues_seen, stalled_queues, throttled_sets
from zsched.storage.records import PAGE, read_records
from zsched.storage.refusals import not_found
from zsched.storage.registries import Registries
from zsched.storage.rqjob import Encoder
from zsched.storage.scripts import Scripts
from zsched.storage.unpickling import NotPlain, excess, inflated

if TYPE_CHECKING:
    from zsched.core.occurrences.recent import Ahead, Recent
    from zsched.storage.last_minutes import LastMinutes
    from zsched.storage.overview import Overview
    from zsched.storage.puts import Put
    from zsched.storage.slots import SlotWaits

T = TypeVar("T")
_SHOWN_BYTES = 2**20  # of arguments, inflated; the default limit of a put is a quarter of that
# Ids and due times per command, if a listing needs more than a page: 1 to 2 ms of the server (measured).
_LONG_PAGE = 2000
# Bounds of `has_fired` in the newest part of the log: entries, bytes, time.
_LOOKED_AT, _BYTES, _LOOKED_FOR_MS = 2000, 4 * 1_048_576, 250.0
_STATES: Final = {
    Place.DUE: ScheduleState.ACTIVE,
    Place.PAUSED: ScheduleState.PAUSED,
    Place.QUARANTINE: ScheduleState.QUARANTINED,
    Place.ENDED: ScheduleState.ENDED,
}


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule with its record, as it was at *now_ms* of the server."""

    schedule: Schedule
    record: Record
    now_ms: int

    @property
    def fields(self) -> dict[str, str | bytes]:
        """The RQ fields by name; data and meta are bytes."""
        return {shown(name): value for name, value in self.record.job_fields().items()}

    @property
    def data(self) -> bytes:
        """The stored call, or b""."""
        return self.record.job_fields().get(b"data", b"")

    @property
    def digest(self) -> str | None:
        """The digest of a recurring schedule's put."""
        digest = self.record.own_fields().get(b"digest")
        return None if digest is None else shown(digest)

    @property
    def signature(self) -> bytes:
        """The signature, or b""."""
        return self.record.job_fields().get(SIGNATURE_FIELD.encode(), b"")


class Reader:
    """The reading side of one namespace over one link."""

    def __init__(self, link: Link, keys: Keys, encoder: Encoder) -> None:
        self._link, self._keys = link, keys
        self._scripts = Scripts(link, keys)
        self._decoder = Decoder(encoder)

    def now_ms(self) -> int:
        """Return the server's time, as scripts see it."""
        return server_now_ms(self._link, self._keys)

    def find(self, id: str) -> StoredSchedule | None:
        """Return one schedule, or None."""
        return next(iter(self.find_many([id])), None)

    def get(self, id: str) -> StoredSchedule:
        """Return one schedule. Raises ScheduleNotFound."""
        found = self.find(id)
        if found is None:
            raise not_found(id, self._keys)
        return found

    def find_many(
        self, ids: Iterable[str], at_first: int | None = None, texts: Iterable[str] = ()
    ) -> Iterator[StoredSchedule]:
        """
        Yield the existing schedules of *ids*, in their order, with the data for an update; read page by page.
        *at_first*: the largest number in the first page. Those without *texts* in their stored form are left out.
        """
        sought = [text.encode(errors="replace") for text in texts]
        for now_ms, _, records in read_records(self._scripts, self._keys, ids, at_first):
            for record in records:
                if _has(record, sought):
                    yield StoredSchedule(self._decoder.schedule(record), record, now_ms)

    def schedules(
        self, ids: Iterable[str], at_first: int | None = None, texts: Iterable[str] = ()
    ) -> Iterator[Schedule]:
        """Yield the existing schedules of *ids*, as ``find_many``."""
        return (found.schedule for found in self.find_many(ids, at_first, texts))

    def expected(self, put: Put) -> StoredSchedule:
        """Return the result of ``find`` after *put* of a recurring schedule, without its place and times."""
        shape, rule = put.shape, put.rule
        assert rule is not None
        job = _encoded([*shape.job, *job_pairs(put.name, put.data)])
        own = _encoded([*shape.own, "trigger", rule.text, "digest", put.digest])
        expected = Record(put.id, "", Place.DUE, shape.lane.value, None, job, own)
        return StoredSchedule(self._decoder.schedule(expected), expected, 0)

    def active(
        self, from_ms: int | None, until_ms: int | None, after: tuple[int, str] | None, is_wanted: IdTest
    ) -> Iterator[tuple[int, str]]:
        """
        Yield (due ms, id) of wanted schedules in lanes or throttled, with from_ms <= due <= until_ms, by due time and
        id, after *after*. A schedule that is throttled meanwhile may be missing, or come twice.
        """
        keys = [self._keys.due(lane) for lane in Priority]
        keys += [throttled.key(self._keys) for throttled in throttled_sets(self._link, self._keys)]
        return heapq.merge(*(self._lane(key, from_ms, until_ms, after, is_wanted) for key in keys))

    def head_of(self, lane: Priority, most: int) -> Iterator[Schedule]:
        """Yield the schedules of *lane* that are due next, *most* at most."""
        ids = self._link.execute("ZRANGE", self._keys.due(lane), 0, most - 1)
        return self.schedules(id.decode(errors="backslashreplace") for id in ids)

    def due_in(self, bounds: Sequence[int]) -> list[int]:
        """Count the schedules of the lanes that are due in [a, b), for each two neighbours in *bounds*, in ms."""
        commands = [("ZCOUNT", self._keys.due(lane), a, f"({b}") for a, b in pairwise(bounds) for lane in Priority]
        with self._link.wire() as wire:
            counts = wire.execute_all(commands)
        return [
            sum(some) for some in zip(*(counts[place :: len(Priority)] for place in range(len(Priority))), strict=True)
        ]

    def paused(self) -> list[str]:
        """Return the ids of paused schedules, sorted."""
        return sorted(shown(id) for id in self._link.execute("HKEYS", self._keys.paused()))

    def quarantined(self) -> list[str]:
        """Return the ids of quarantined schedules, sorted."""
        return sorted(shown(id) for id in self._link.execute("HKEYS", self._keys.quarantine()))

    def recurring(self) -> list[str]:
        """Return the ids of recurring schedules in any state, sorted."""
        return sorted(shown(id) for id in self._link.execute("SMEMBERS", self._keys.recurring()))

    def has_fired(self, id: str) -> str | None:
        """
        Return the id of the run by which one-shot *id* fired. None: the newest entries of the log have no change of
        that schedule, or the last one is another, such as cancelled or expired. Bounded in entries, bytes and time: an
        older run is not found.
        """
        from zsched.core.log import UnknownEntry, changes, narrowed  # for `cancel` of an id that does not wait

        name = id.encode()
        for entry in Log(self._link, self._keys).back(_LOOKED_AT, most_bytes=_BYTES, for_ms=_LOOKED_FOR_MS):
            if not any(name in each for each in entry.body):
                continue
            try:
                found = [one for one in changes(narrowed(entry, id), self._keys.run_suffix) if one.id == id]
            except UnknownEntry:  # of a newer version
                continue
            for change in reversed(found):
                if change.is_of_schedule:
                    return change.run_id if change.is_firing else None
        return None

    def overview(self) -> Overview:
        """Return counts, leader and backlog. Raises as ``storage.overview.look``."""
        from zsched.storage.overview import look  # for `zsched status`

        return look(self._link, self._keys)

    def stalled_queues(self) -> StalledQueues:
        """Return the queues from which no worker takes jobs. Raises as ``storage.queues.stalled_queues``."""
        with self._link.wire() as wire:
            return stalled_queues(wire, self._keys)

    def slot_waits(self) -> SlotWaits:
        """Return the waits for slots of RQ's rate limits. Raises as ``storage.slots.slot_waits``."""
        from zsched.storage.slots import slot_waits  # for `zsched status`

        with self._link.wire() as wire:
            return slot_waits(wire, self._keys)

    def queues_seen(self, held: Iterable[HeldBack]) -> list[QueueSeen]:
        """Return the queues in use. *held* and errors: as ``storage.queues.queues_seen``."""
        with self._link.wire() as wire:
            return queues_seen(wire, self._keys, held)

    def queue_depths(self) -> dict[str, int]:
        """Count the jobs that wait in each queue that RQ knows."""
        with self._link.wire() as wire:
            return Registries(wire, self._keys.rq).depths()

    def warned_jobs(self) -> dict[str, int]:
        """Count the jobs of each queue that a guard only warned of. Raises as ``storage.guards.warned_jobs``."""
        with self._link.wire() as wire:
            return warned_jobs(wire, self._keys.rq)

    def due_soon(self) -> dict[str, dict[str, int]]:
        """Count the schedules that are due soon, by queue. Raises as ``storage.upcoming.due_soon``."""
        from zsched.storage.upcoming import due_soon  # for the metrics

        with self._link.wire() as wire:
            return due_soon(wire, self._keys)

    def recent(self, clock: Clock) -> Recent:
        """
        Count the last minutes, as far as the log can be read quickly; *clock* measures the time of the read. The next
        call of the same reader counts only what is new, and what this one had no time for.
        """
        found = self._last_minutes.read(self.now_ms(), clock)
        return replace(found, ahead=self._still_silent(found.ahead)) if found.ahead is not None else found

    @cached_property
    def _last_minutes(self) -> LastMinutes:
        from zsched.storage.last_minutes import LastMinutes  # imported late: it imports all kinds of entries

        return LastMinutes(Log(self._link, self._keys), self._keys.run_suffix)

    def _still_silent(self, ahead: Ahead) -> Ahead:
        """Return *ahead* with only the unchanged schedules."""
        with self._link.wire() as wire, asking(self._keys.recurring()):
            nominals = wire.execute_all(("HGET", self._keys.schedule(id), "nominal") for id in ahead.times)
        pairs = zip(ahead.times.items(), nominals, strict=True)
        times = {id: nominal_ms for (id, nominal_ms), nominal in pairs if nominal == b"%d" % nominal_ms}
        return replace(ahead, times=times)

    def _lane(
        self, key: str, from_ms: int | None, until_ms: int | None, after: tuple[int, str] | None, is_wanted: IdTest
    ) -> Iterator[tuple[int, str]]:
        """
        Read one ZSET in pages. LIMIT counts members from the first one with the score of the last one that was read,
        and some may leave meanwhile. So a page begins at the last one; if that is not there, at an earlier place, and
        known members are skipped.
        """
        low: float = max(from_ms or 0, after[0] if after else 0)
        high: int | str = "+inf" if until_ms is None else until_ms
        last, offset, size = after, 0, PAGE
        before = (low, b"")
        while True:
            flat = self._link.execute("ZRANGEBYSCORE", key, low, high, "WITHSCORES", "LIMIT", offset, size)
            page = list(zip(map(float, flat[1::2]), flat[::2], strict=True))
            if offset and (not page or page[0] > before):
                offset = max(offset - size, 0)
                continue
            for score, member in page:
                place = due_from_score(score), member.decode(errors="backslashreplace")
                if is_wanted(place[1]) and (last is None or place > last):
                    last = place
                    yield place
            if len(page) < size:
                return
            before = page[-1]
            offset = (offset if before[0] == low else 0) + sum(score == before[0] for score, _ in page) - 1
            low, size = before[0], min(2 * size, _LONG_PAGE)


class Decoder:
    """Reads records as schedules: of Redis, and of a history."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def schedule(self, record: Record) -> Schedule:
        """Return the schedule of *record*. What another program broke is ``unreadable``."""
        try:
            return self._schedule(record)
        except Exception:  # a value that nobody expected must not hide the other schedules
            known: dict[str, Any] = {"state": _STATES[record.place], "next_ms": record.due_ms}
            kind = "once" if record.run else "every"
            return Schedule(id=record.id, kind=kind, func="", unreadable=("definition",), **known)

    def _schedule(self, record: Record) -> Schedule:
        recurring = not record.run
        own, job = _decoded(record.own), _decoded(record.job)
        version = own.get("version") if recurring else job.get("zs_version") or job.get("created_at")
        since_ms, _, note = (record.note or "").partition(" ")
        reason, _, paused_by = note.partition(BEFORE_BY)
        wanted = job | {name.removeprefix("zs_"): text for name, text in job.items() if name.startswith("zs_")}
        labels = own if recurring else wanted
        spec, policy = _read(own.get("trigger"), _spec), _read(own.get("policy", ""), read_policy)
        flags = own.get("flags", "") if recurring else job.get("zs", "")
        options = read_options({Stored.JOB: job, Stored.RQ: wanted, Stored.LABEL: labels, Stored.OWN: own})
        options |= read_letters(flags)
        func, queue = labels.get("func") or job.get("description", ""), job.get("origin", "")
        sound = {"rule": spec or not recurring, "policy": policy, "version": VERSION.fullmatch(version or "-")}
        sound |= {"func": len(func) <= LONGEST_PATH, "queue": len(queue) <= LONGEST_NAME}
        options["unreadable"] = tuple(name for name in sound if not sound[name]) + options.get("unreadable", ())
        if spec:
            options |= {"tz": spec.tz, "jitter_ms": spec.jitter_ms}
        args, kwargs = self._arguments(record.job)
        next_ms, nominal_ms = record.due_ms, record.nominal_ms
        if not recurring and next_ms is not None:
            nominal_ms = next_ms - delay_of(record.id, options.get("jitter_ms", 0))
        return Schedule(
            **options,
            id=record.id,
            state=_STATES[record.place],
            kind=spec.kind.name if spec else "every" if recurring else "once",
            func=func[:LONGEST_PATH],
            queue=queue[:LONGEST_NAME],
            priority=Priority.named(record.lane),
            next_ms=next_ms,
            trigger=spec,
            anchor_ms=_number(own.get("anchor")),
            nominal_ms=nominal_ms,
            version=version,
            last_run_id=record.last,
            offset_s=None if recurring else _number(job.get(OFFSET_FIELD), -86_400, 86_400),
            args=args,
            kwargs=kwargs,
            policy=policy or USUAL,
            created_ms=_number(own.get("created_at")) if recurring else _iso_ms(job.get("created_at")),
            updated_ms=_number(own.get("updated_at")) if recurring else _iso_ms(version),
            note=reason or None,
            paused_by=paused_by or None,
            since_ms=(_number(since_ms) or None) if since_ms else _number(own.get("ended_at")),
            callbacks=tuple((option, path) for option, name in CALLBACKS.items() if (path := job.get(name))),
        )

    def _arguments(self, job: Texts) -> tuple[Any, Any]:
        """
        Return args and kwargs for display, for JSON only: loading a pickle would run it. None: they are too large, as a
        listing has many.
        """
        data = dict(zip(job[::2], job[1::2], strict=True)).get(b"data")
        if self._encoder.serializer != "json" or data is None:
            return None, None
        try:
            if len(inflated(data)) > _SHOWN_BYTES:
                return None, None
            _, args, kwargs = self._encoder.open(data)
        except (InvalidSchedule, NotPlain):
            return None, None
        return (None, None) if excess([args, kwargs], sys.getrecursionlimit()) else (list(args), kwargs)


def _has(record: Record, texts: list[bytes]) -> bool:
    """Return True if all *texts* are in the stored form: a quarter of the time to read it (measured)."""
    stored = b" ".join((*record.own, *record.job)) if texts else b""
    return all(text in stored for text in texts)


def _encoded(texts: Iterable[str | bytes]) -> list[bytes]:
    """Return names and texts of a hash, flat, as Redis returns them."""
    return [text if isinstance(text, bytes) else text.encode() for text in texts]


def _decoded(pairs: Texts) -> dict[str, str]:
    """Return the texts of a hash, without data and meta, which are bytes."""
    fields = zip(pairs[::2], pairs[1::2], strict=True)
    return {shown(name): text.decode("utf-8", "replace") for name, text in fields if name not in (b"data", b"meta")}


def _read(text: Any, read: Callable[[Any], T]) -> T | None:
    """Return what *read* makes of *text*; None if there is none, or another program broke it."""
    try:
        return None if text is None else read(text)
    except (*UNREADABLE, TriggerError):
        return None


def _number(text: str | bytes | None, least: int = 0, most: int = LAST_MS) -> int | None:
    return _read(text, lambda text: whole_number(text, least, most))


def _iso_ms(text: str | None) -> int | None:
    """Return the instant of a time of RQ's."""
    return _read(text, lambda text: to_ms(datetime.fromisoformat(text).replace(tzinfo=UTC)))


def _spec(text: str) -> TriggerSpec:
    """Return the rule of *text*. Raises UNREADABLE, TriggerError: there is none that can be built."""
    spec = read_spec(text)
    with suppress(UnknownZone):  # another machine has it
        build(spec, 0)
    return spec
