"""
The options in which two schedules differ, as texts for people: of a file and of Redis, or of two puts in the history.

Both sides are expressed as options of ``client.schedule``. Opening a payload runs no code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from itertools import pairwise
from typing import Any, Final, NamedTuple

from zsched.core.facets import limited_by
from zsched.core.log.kinds import LoggedPut
from zsched.core.model import Schedule
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import ValueType
from zsched.core.options.revision import is_same, options_of
from zsched.core.options.table import options_taking
from zsched.core.runs.job import SIGNATURE_FIELD
from zsched.core.story.sentences import shortened
from zsched.core.toml import toml_text
from zsched.core.triggers.trigger import RULES
from zsched.core.triggers.zones import shown_zone
from zsched.core.wording import duration_text
from zsched.errors import InvalidSchedule
from zsched.storage.records import as_schedule, rq_fields
from zsched.storage.rqjob import Encoder
from zsched.storage.rqoptions import plain
from zsched.storage.unpickling import is_pickle

# Options in an order for people; other options follow, by name.
_ORDER: Final = (
    *("func", "at", *RULES, "tz", "starts", "ends", "count"),
    *("args", "kwargs", "queue", "priority", "name", "description", "tags"),
)
_SHOWN: Final = 100  # characters of a value in a difference
_DURATIONS: Final = frozenset(options_taking(ValueType.DURATION))
_SIGNATURE: Final = SIGNATURE_FIELD.encode()
_PRIVATE: Final = {"args": "arguments", "kwargs": "arguments", "meta": "meta"}  # values that a history never shows


@dataclass(frozen=True, slots=True)
class ScheduleWithOptions:
    """
    A schedule with its options, including func, args and kwargs. ``unreadable`` is the reason why some are missing, or
    "".
    """

    schedule: Schedule
    options: Mapping[str, Any]
    unreadable: str = ""

    @property
    def data(self) -> bytes:
        """The stored call, or b""."""
        return self.schedule.record.job_fields().get(b"data", b"")

    def is_same_put(self, other: ScheduleWithOptions) -> bool:
        """Return True if a put of *other*, a recurring schedule, would change nothing: as put_recurring.lua decides."""
        mine, theirs = self.schedule.record, other.schedule.record
        return (
            self.schedule.state is not ScheduleState.QUARANTINED
            and mine.own_fields().get(b"digest") == theirs.own_fields().get(b"digest")
            and mine.job_fields().get(_SIGNATURE) == theirs.job_fields().get(_SIGNATURE)
        )


def with_options(schedule: Schedule, encoder: Encoder) -> ScheduleWithOptions:
    """Return *schedule* with its options."""
    fields, unreadable, stored = rq_fields(schedule.record), "", dict[str, Any](func=schedule.func)
    try:
        stored |= encoder.options(fields)
        stored["func"], args, stored["kwargs"] = encoder.open(fields.get("data", b""))
        stored["args"] = list(args)
    except InvalidSchedule as error:
        unreadable = f"{error.problem} ({error.__cause__})" if error.__cause__ else error.problem
    return ScheduleWithOptions(schedule, options_of(schedule, stored), unreadable)


def with_definitions(
    changes: Sequence[Change], records: Callable[[Collection[str]], Sequence[LoggedPut]], *, has_first: bool
) -> list[Change]:
    """
    Return the *changes* of one schedule with what each put changed, and what limits are about. *records*: returns, in
    order, the records of the schedule in the entries with these ids and in the one before them. *has_first*: also that
    of the first change, which may be far back.
    """
    puts = {change.entry for change in changes[0 if has_first else 1 :] if change.what is What.PUT}
    known = records(puts) if puts else []
    limited = {one.entry: limited_by(one.record) for one in known if one.entry in puts}
    found = {
        new.entry: changed_options(old, new)
        for old, new in pairwise(known)
        if new.entry in puts and new.entry != changes[0].entry and _goes_on(old, new)  # the first one created it
    }
    return [
        replace(one, changed=found.get(one.entry, ()), limited_by=limited[one.entry]) if one.entry in limited else one
        for one in changes
    ]


def net_difference(known: Sequence[LoggedPut], puts: Collection[str]) -> str:
    """
    Return what the puts of a schedule in the entries with the ids *puts* changed together: of its *known* puts, in
    order, the last one beside the one before them.
    """
    is_known = known and known[0].entry not in puts
    return f"changed {'; '.join(changed_options(known[0], known[-1]) if is_known else ())}".rstrip()


def _goes_on(old: LoggedPut, new: LoggedPut) -> bool:
    """
    Return True if *new* changed the schedule of *old*, and is no other schedule with its id. A recurring schedule keeps
    the time of its creation, which may also be that of the change.
    """
    created, before = (one.record.own_fields().get(b"created_at") for one in (new, old))
    return new.replaces or (created is not None and created == before)


def changed_options(old: LoggedPut, new: LoggedPut) -> tuple[str, ...]:
    """
    Return the options in which two puts of the history differ: ``cron: 0 9 * * * → 0 10 * * *``. Of
    its arguments and meta only the fact is shown.
    """
    try:
        before, after = _recorded(old), _recorded(new)
        texts = (
            f"{_PRIVATE[change.option]} changed" if change.option in _PRIVATE else change.text()
            for change in option_changes(before, after)
            if change.option not in ("args", "kwargs") or (before.data and after.data and before.data != after.data)
        )
        return tuple(dict.fromkeys(texts))
    except Exception as error:  # texts of another writer, which must not hide the rest of the story
        return (f"its options cannot be compared ({type(error).__name__})",)


def _recorded(put: LoggedPut) -> ScheduleWithOptions:
    """Return the schedule of a put in the history, with its options."""
    payloads = put.record.job_fields()
    encoder = Encoder("pickle" if is_pickle(payloads.get(b"data") or payloads.get(b"meta", b"")) else "json")
    found = with_options(as_schedule(put.record.whole(), encoder), encoder)
    return found if found.data else replace(found, unreadable="")  # an archive may keep no arguments


class OptionChange(NamedTuple):
    """An option that differs: the old and the new value as texts, None if it is not set."""

    option: str
    old: str | None
    new: str | None

    def text(self) -> str:
        """Return a line for people: ``cron: 0 9 * * * → 0 10 * * *``."""
        old, new = ("-" if one is None else shortened(one, _SHOWN) for one in (self.old, self.new))
        return f"{self.option}: {old} → {new}"


def plain_options(held: ScheduleWithOptions) -> dict[str, Any]:
    """
    Return the options of *held* that are set, as plain values in a file's form and order. The id and empty args and
    kwargs are left out.
    """
    tz, options = str(held.options.get("tz") or "UTC"), held.options
    if not held.schedule.record.run and held.schedule.trigger is None:  # a broken rule: the rest looks like a one-shot
        options = {name: value for name, value in options.items() if name != "at"}
    said = {name: _plain(name, value, tz) for name, value in options.items() if name != "id" and value is not None}
    names = [name for name in _ORDER if name in said] + sorted(set(said) - set(_ORDER))
    return {name: said[name] for name in names if name not in ("args", "kwargs", "tags") or said[name]}


def option_changes(old: ScheduleWithOptions, new: ScheduleWithOptions) -> Iterator[OptionChange]:
    """Yield the options that a put of *new* changes in *old*."""
    before, after = plain_options(old), plain_options(new)
    for name in dict.fromkeys((*after, *before)):
        one, other = before.get(name), after.get(name)
        if old.unreadable and name not in old.options:
            yield OptionChange(name, f"? ({old.unreadable})", _shown(other))
        elif new.unreadable and name not in new.options:
            yield OptionChange(name, _shown(one), f"? ({new.unreadable})")
        elif not (is_same(one, other) or (isinstance(one, datetime) and one == other)):  # an instant, whatever the zone
            yield OptionChange(name, _shown(one), _shown(other))
    if old.unreadable and new.unreadable and old.data != new.data:
        yield OptionChange("args", f"? ({old.unreadable})", f"? ({new.unreadable})")


def _plain(name: str, value: Any, tz: str) -> Any:
    """Return a value of ``options_of`` in a file's form."""
    value = plain(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        value = value / timedelta(seconds=1)
    if name in _DURATIONS and isinstance(value, int | float) and value >= 0:
        return duration_text(round(value * 1000))
    if isinstance(value, datetime) and name in ("at", "starts", "ends"):
        local = value.astimezone(shown_zone(tz))
        offset = local.utcoffset() or timedelta()
        said = value if offset % timedelta(minutes=1) else local  # TOML has no seconds in an offset
        return datetime.fromisoformat(said.isoformat())  # TOML keeps only the offset of a zone
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str | None:
    """Return a value for people: a text without quotes, else TOML, else JSON, else Python's own form."""
    if value is None or (isinstance(value, str) and value.isprintable()):
        return value
    with suppress(ValueError):
        return toml_text(value)
    with suppress(TypeError, ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
