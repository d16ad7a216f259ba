"""
The values of zsched: definitions, schedules, results of calls.

Life of a schedule: a put makes it *active* (it is in a lane, with its due time). ``pause`` and
``resume`` move it out and back. A schedule that cannot be planned or pushed is *quarantined* until it
is put again or cancelled. A one-shot that fired leaves only its run. A recurring schedule with an
exhausted rule is *ended*, and stays readable until it is cancelled or put again.

Instants are integer epoch milliseconds (``…_ms``); durations name their unit.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, Final

from zsched.core.clock import clamped_ms, from_ms, to_ms
from zsched.core.options.allowed import LimitedBy
from zsched.core.options.checked import POLICIES, CheckedOptions, options_for_json
from zsched.core.options.choices import IfExists, ScheduleState
from zsched.core.record import Place, Record
from zsched.core.runs.run_id import RunId
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.wording import plural
from zsched.errors import ZschedError

MEND: Final = "schedule it again by its id, or cancel it"  # the remedy for a schedule that is unreadable
_NAMED_ROWS = 3  # refused rows whose errors are in the message of RowsRefused


@dataclass(frozen=True, slots=True)
class At:
    """
    One-shot at an instant. ``offset_s``: if it was given as local time, the offset of the zone then; a change of the
    zone's rules moves it. None: it was given as an instant.
    """

    due_ms: int
    offset_s: int | None = None


@dataclass(frozen=True, slots=True)
class After:
    """One-shot at a delay after the server's present time."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class Now:
    """Immediate push to the queue."""


When = At | After | Now | TriggerSpec


@dataclass(frozen=True, slots=True)
class Definition(CheckedOptions):
    """
    All arguments of a caller for one schedule, checked and normalized; but the function, its arguments and RQ's options
    are unchanged, as ``storage.rqjob`` checks and encodes them. ``data``: the stored payload, for an update that does
    not change it.
    """

    id: str
    when: When
    func: Any
    args: Any = ()
    kwargs: Any = None
    timeout: Any = None
    retry: Any = None
    result_ttl: Any = None
    failure_ttl: Any = None
    meta: Any = None
    on_success: Any = None
    on_failure: Any = None
    description: str | None = None
    data: bytes | None = None
    if_exists: IfExists = IfExists.REPLACE
    enabled: bool | None = None  # False: paused; True: not paused; None: as it is, and a new one is not paused
    allow_past: bool = False
    if_version: str | None = None  # put it only if the schedule has this version
    durable: bool = False  # the call returns only when an archive has it on its disk
    unique_ms: int = 0  # of a run at once: for so long after its push the id keeps it; 0: each call is a run


@dataclass(frozen=True, slots=True)
class Schedule(CheckedOptions):
    """
    A schedule in Redis, read from its ``record``. ``args`` are decoded from JSON only: no pickle is loaded for display.
    """

    id: str
    state: ScheduleState
    kind: str  # once | every | cron | rrule
    func: str
    next_ms: int | None
    trigger: TriggerSpec | None = None
    anchor_ms: int | None = None
    nominal_ms: int | None = None
    version: str | None = None
    last_run_id: str | None = None
    offset_s: int | None = None  # of a one-shot that was given as local time, as in ``At``
    args: Any = None
    kwargs: Any = None
    timeout_s: int | None = None
    result_ttl_s: int | None = None
    failure_ttl_s: int | None = None
    retries: int | None = None
    description: str | None = None
    created_ms: int | None = None  # of a one-shot: of its last put
    updated_ms: int | None = None  # of its last put
    note: str | None = None  # why paused or quarantined
    paused_by: str | None = None  # who paused it, as the caller says
    resumes_ms: int | None = None  # paused until then
    since_ms: int | None = None  # paused or quarantined since, or ended at
    unreadable: tuple[str, ...] = ()  # options that another program broke: they are shown as if they were not set
    callbacks: tuple[tuple[str, str], ...] = ()  # options and functions
    read_ms: int = field(default=0, repr=False, compare=False)  # the server's time when it was read
    record: Record = field(default_factory=partial(Record, "", "", Place.DUE, "", None, ()), repr=False, compare=False)

    @property
    def limited_by(self) -> LimitedBy:
        """The parts that limits are about."""
        return LimitedBy({"func": self.func, **dict(self.callbacks)}, self.queue, self.tags)

    @property
    def cursor(self) -> str:
        """Its position in a listing: ``client.list(after=…)`` continues after it."""
        return f"{self.state.value}:{self.next_ms or 0}:{self.id}"

    @property
    def rule_text(self) -> str:
        """The rule in one line: ``every 5m``, ``cron 0 9 * * 1-5``, ``once``."""
        spec = self.trigger
        text = self.kind if spec is None else f"{spec.kind.name} {spec.kind.describe(spec.expr)}"
        return f"unreadable: {', '.join(self.unreadable)} ({text})" if self.unreadable else text

    @property
    def damage(self) -> str:
        """A sentence about what is ``unreadable``; "" if nothing is."""
        names = " and ".join(self.unreadable)
        return f"its {names} cannot be read, because another program changed it in Redis" if names else ""

    @property
    def last_nominal_ms(self) -> int | None:
        """The nominal time of the last run of a recurring schedule; of an extra run, its push."""
        run = RunId.parse(self.last_run_id) if self.last_run_id else None
        return None if run is None else run.nominal_ms

    @property
    def skipped(self) -> tuple[datetime, ...]:
        """The nominal times to come that are skipped by hand, aware, in UTC."""
        times = () if self.trigger is None else self.trigger.skipped
        return tuple(from_ms(at_ms) for at_ms in times if at_ms > self.read_ms)

    @property
    def next_at(self) -> datetime | None:
        """The due time, aware, in UTC."""
        return None if self.next_ms is None else from_ms(self.next_ms)

    def to_dict(self) -> dict[str, Any]:
        """
        Return the schedule for JSON: instants by ``iso``, enums as their values; the keys are stable. Values that only
        recurring schedules have are None for others.
        """
        options = options_for_json(self)
        if self.kind == "once":
            options |= dict.fromkeys(POLICIES)
        elif not self.policy.overlap.waits:
            options["overlap_limit"] = None
        call = {"func": self.func, "args": self.args, "kwargs": self.kwargs}
        trigger = None if self.trigger is None else _trigger_dict(self.trigger)
        names = "id", "state", "kind", "next_at", "tz", "trigger", "anchor_at", "nominal_at"
        lasting = "created_at", "updated_at", "version", "last_run_id", "last_nominal_at"
        of_pause = "note", "paused_by", "resumes_at", "since"
        history = json_of(self, *lasting, *of_pause, "unreadable", since=iso(self.since_ms))
        history["skipped"] = [iso(to_ms(at)) for at in self.skipped]
        return json_of(self, *names, trigger=trigger) | call | options | history


@dataclass(frozen=True, slots=True)
class Scheduled:
    """
    Result of ``client.schedule``. ``outcome`` is created, updated, unchanged, kept or already_fired: RQ has the
    one-shot's run already, and ``next_at`` is None. ``enqueue`` answers kept with the run that it was enqueued as
    before, or without one if a schedule of this id waits. ``version``: of a schedule that was created or updated, for
    ``if_version``; otherwise None.
    """

    id: str
    outcome: str
    next_at: datetime | None
    run_id: str | None  # one-shots and runs at once: a recurring schedule has one per occurrence
    version: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return asdict(self) | {"next_at": None if self.next_at is None else iso(to_ms(self.next_at))}


@dataclass(slots=True, repr=False)
class Many:
    """Result of ``client.schedule_many``; ``errors`` are (index, error) of the rows that were refused."""

    ids: list[str | None] = field(default_factory=list)  # by row; None for a refused row
    outcomes: list[str | None] = field(default_factory=list)  # by row, as in ``Scheduled``; None for a refused row
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    kept: int = 0
    already_fired: int = 0  # RQ has their runs already: no schedule waits
    errors: list[tuple[int, Exception]] = field(default_factory=list)
    done: int = 0  # answered rows, accepted or refused

    def __repr__(self) -> str:
        """Return the counts in a line, without the ids."""
        counts = {"created": self.created, "updated": self.updated, "unchanged": self.unchanged}
        counts |= {name: count for name in ("kept", "already_fired") if (count := getattr(self, name))}
        return f"Many({', '.join(f'{name}={count}' for name, count in counts.items())}, errors={len(self.errors)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON; an error is {index, error, type}."""
        errors = [{"index": n, "error": str(e), "type": type(e).__name__} for n, e in self.errors]
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"errors": errors}


class RowsRefused(ZschedError):
    """
    Rows of ``schedule_many`` were refused, and all others were written.

    ``many`` is the result of the call: its ``errors`` have the index and the error of each refused row.
    """

    def __init__(self, many: Many) -> None:
        self.many = many
        written, refused = many.done - len(many.errors), len(many.errors)
        first = "; ".join(f"row {number}: {error}" for number, error in many.errors[:_NAMED_ROWS])
        rest = f"; and {refused - _NAMED_ROWS:,} more in .many.errors" if refused > _NAMED_ROWS else ""
        count = f"{refused:,} of {plural(many.done, 'row')}"
        super().__init__(f"{count} {'was' if refused == 1 else 'were'} refused, {written:,} written: {first}{rest}")


def iso(ms: int | None) -> str | None:
    """
    Return the instant *ms* for JSON: ISO 8601, UTC with Z, milliseconds; None stays None. Values out of range, which
    only another writer leaves, are limited to the years 1970 to 9999.
    """
    return None if ms is None else from_ms(clamped_ms(ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(ms: float | None) -> float | None:
    """Return a duration in ms for JSON: seconds, to the µs; None stays None."""
    return None if ms is None else round(ms / 1000, 6)


def json_of(value: object, *names: str, **given: Any) -> dict[str, Any]:
    """
    Return the attributes *names* of *value* for JSON, in this order, or what is *given* for them. ``started_at`` is the
    instant ``started_ms`` by ``iso``, ``duration_s`` the duration ``duration_ms`` by ``seconds``; a member of an enum
    is its value, a mapping a dict, what has ``to_dict`` its result, a named tuple a dict with its times by ``iso``,
    another tuple a list, '' None.
    """
    return {name: given[name] if name in given else _attribute(value, name) for name in names}


def _attribute(value: object, name: str) -> Any:
    if name.endswith("_at"):
        return iso(getattr(value, f"{name[:-3]}_ms"))
    if name.endswith("_s"):
        return seconds(getattr(value, f"{name[:-2]}_ms"))
    found = getattr(value, name)
    return None if found == "" else for_json(found)


def for_json(found: Any) -> Any:
    """Return *found*, and what it holds, for JSON: as ``json_of`` describes."""
    if isinstance(found, Enum):
        return found.value
    if hasattr(found, "to_dict"):
        return found.to_dict()
    if hasattr(found, "_fields"):
        return json_of(found, *(re.sub("_ms$", "_at", name) for name in found._fields))
    if isinstance(found, tuple | list):
        return [*map(for_json, found)]
    return dict(found) if isinstance(found, Mapping) else found


def _trigger_dict(spec: TriggerSpec) -> dict[str, Any]:
    times = {"starts": iso(spec.starts_ms), "ends": iso(spec.ends_ms)}
    rule = {"kind": spec.kind.name, "expr": spec.kind.describe(spec.expr), "tz": spec.tz}
    return rule | times | json_of(spec, "count", "gap", "fold", "jitter_s", "exclude", "on_excluded")
