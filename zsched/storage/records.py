"""
The records of schedules in Redis, read by get.lua, as many as there are at one moment of the log; and each record read
as a ``Schedule``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
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
from zsched.core.runs.run_id import run_id_of
from zsched.core.triggers.calendars import NO_CALENDARS, Calendars
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import build, delay_of, read_spec, with_calendars, with_skipped
from zsched.core.wording import LONGEST_NAME
from zsched.errors import InvalidSchedule, TriggerError, UnknownCalendar, UnknownZone
from zsched.storage.keys import Keys
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
    sound |= {
        "version": VERSION.fullmatch(version or "-"),
        "func": len(func) <= LONGEST_PATH,
        "queue": len(queue) <= LONGEST_NAME,
    }
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
