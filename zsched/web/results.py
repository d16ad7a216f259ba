"""
The schemas of answers, from samples of the results: a sample has the members, and its attributes have the types.

Names of times (``…_at``) and of durations (``…_s``) have types of their own. A member that is another result, or a list
of them, refers to that one's schema.
"""

from __future__ import annotations

import json
import typing
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final

from zsched.core.model import Schedule, Scheduled
from zsched.core.occurrences.backfill import Backfill, Filled
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.counts import Timeline
from zsched.core.occurrences.difference import TimesDifference
from zsched.core.occurrences.forecast import Forecast
from zsched.core.occurrences.future import Spans
from zsched.core.occurrences.outcomes import What
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import TEXT, ValueType
from zsched.core.options.table import OPTIONS
from zsched.core.repair import Repaired
from zsched.core.runs.attempts import Attempt
from zsched.core.runs.run import Run, RunStatus
from zsched.core.story.source import Source
from zsched.core.story.story import Story
from zsched.core.story.verdict import StoryVerdict, Word
from zsched.core.triggers.calendar_definition import PARTS, Calendar
from zsched.storage.archivers import ArchiveState, Report
from zsched.storage.overview import DaemonRole, DaemonSeen
from zsched.storage.queues import QueueSeen

Json = dict[str, Any]

TIME: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
MAYBE_TEXT: Final[Json] = {"type": ["string", "null"]}

_SOURCE: Final = Source(None, None, None)
_REPORT: Final = Report("a", None, 0, ArchiveState.FOLLOWING, {})
_CHANGE: Final = Change("a", What.FIRED, 0, "0-1")
_SAMPLES: Final[dict[str, Any]] = {
    "Source": _SOURCE,
    "Schedule": Schedule(id="a", state=ScheduleState.ACTIVE, kind="once", func="app.x", next_ms=0),
    "Scheduled": Scheduled("a", "created", None, None),
    "Attempt": Attempt(1),
    "Run": Run("a-0", RunStatus.QUEUED),
    "Change": _CHANGE,
    "Story": Story("a", "UTC", StoryVerdict(Word.UNKNOWN, "", ""), [(0, "a")], True, _SOURCE, ()),
    "Backfill": Backfill("a", "UTC", 0, 0, (Filled(0, None),), 0, 0, _SOURCE, True),
    "Repaired": Repaired(0, (), refused=[("a", "b")]),
    "TimesDifference": TimesDifference((0,), (0,), (0, 0), ("UTC", "UTC"), 0),
    "Forecast": Forecast(0, 0, 0, 0, {}, {}, quiet=(0, 0)),
    "Timeline": Timeline(Spans(0, 1000, 1), 0, reasons=Counter({("skipped", "missed"): 1}), source=_SOURCE),
    "Calendar": Calendar("a", json.dumps({part: ["a"] for part in PARTS}), ()),
    "Daemon": DaemonSeen("a", DaemonRole.LEADS, *(None,) * 4, 0, *(None,) * 7, _REPORT, None, {}),
    "Queue": QueueSeen("a", 0, None, (), None, dict.fromkeys(("1m", "10m", "60m"), 0)),
}
_NAMES: Final = {type(sample): name for name, sample in _SAMPLES.items()}
_OPEN: Final = (What, Word)  # a client must not refuse a word that a later version adds
_TYPE_NAMES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null", list: "array"}
_FORMS: Final = {option.json_name: option.form for option in OPTIONS.values()}


def results() -> dict[str, Json]:
    """Return the schema of each result by its name, and of those that have more members in a list or for themselves."""
    retried = {"retried": nullable(ref("Run"))}
    found = {name: _object(sample.to_dict(), type(sample)) for name, sample in _SAMPLES.items()}
    found["Change"] = _object(_CHANGE.shown(), Change)
    found["Scheduled"]["properties"]["archived"] = {"type": "boolean"}  # false, of a durable one: not yet
    findings = array_of(object_of(name=TEXT, problem=TEXT, remedy=TEXT))
    status = object_of(healthy={"type": "boolean"}, leader=MAYBE_TEXT, alarms=findings, warnings=findings)
    return {
        **found,
        "Occurrence": with_members(_object(_CHANGE.shown_occurrence(), Change), **retried),
        "ListedRun": with_members(found["Run"], **retried),
        "RunDetails": with_members(found["Run"], **retried, attempts=array_of(ref("Attempt")), source=ref("Source")),
        "NamedCalendar": with_members(found["Calendar"], id=TEXT),
        "Status": with_members(status, daemons=array_of(ref("Daemon"))),  # what a program acts on
        "Entry": object_of(entry=TEXT, at=TIME, kind=TEXT, changes=array_of(ref("Change"))),
    }


def ref(name: str) -> Json:
    """Return a reference to a named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def choice_of(values: Iterable[Any]) -> Json:
    """Return the schema of one of these *values*."""
    return {"enum": [value.value if isinstance(value, Enum) else value for value in values]}


def nullable(schema: Json) -> Json:
    """Return *schema*, or null."""
    kind = schema.get("type")
    return {**schema, "type": [kind, "null"]} if isinstance(kind, str) else {"anyOf": [schema, {"type": "null"}]}


def array_of(schema: Json) -> Json:
    """Return the schema of an array of *schema*."""
    return {"type": "array", "items": schema}


def object_of(**members: Json) -> Json:
    """Return the schema of an object with all of *members*."""
    return {"type": "object", "required": list(members), "properties": members}


def with_members(schema: Json, **members: Json) -> Json:
    """Return the *schema* of an object with more *members*."""
    return object_of(**schema["properties"], **members)


def _object(shown: Json, of: type) -> Json:
    hints = typing.get_type_hints(of, localns={"Source": Source})  # some import it for types only
    return object_of(**{name: _member(name, value, hints.get(name)) for name, value in shown.items()})


def _member(name: str, value: Any, hint: Any = None) -> Json:
    """Return the schema of a member: by its name, else by its value in the sample, else by its attribute's type."""
    if name.endswith("_at"):
        return TIME
    if name.endswith("_s") and not isinstance(value, dict):
        return {"type": ["number", "null"]}
    form, parts = _FORMS.get(name), typing.get_args(hint)
    if form is not None and form.value_type in (ValueType.WORD, ValueType.BOOLEAN):
        return {"enum": [*form.words, None]} if form.words else form.schema
    if value and isinstance(value, dict | list) and not {hint, *parts} & _NAMES.keys():
        return nullable(_of_value(value)) if NoneType in parts else _of_value(value)
    if found := _of_hint(hint):
        return found if value is not None or found.get("type") != "string" else MAYBE_TEXT
    return MAYBE_TEXT if name.endswith("since") else _of_value(value)


def _of_hint(hint: Any) -> Json:
    if hint in _NAMES:
        return ref(_NAMES[hint])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {**TEXT, "examples": [each.value for each in hint]} if hint in _OPEN else choice_of(hint)
    parts, origin = typing.get_args(hint), typing.get_origin(hint)
    if isinstance(hint, UnionType):
        return nullable(found) if NoneType in parts and (found := _of_hint(parts[0])) else {}
    if origin in (list, tuple, Sequence) and (items := _of_hint(parts[0])):
        return array_of(items)
    if origin is Mapping and (values := _of_hint(parts[1])):
        return {"type": "object", "additionalProperties": values}
    return {"type": _TYPE_NAMES[hint]} if hint in _TYPE_NAMES else {}


def _of_value(value: Any) -> Json:
    if isinstance(value, dict):
        members = {name: _member(name, each) for name, each in value.items()}
        return object_of(**members) if value else {"type": "object"}
    if isinstance(value, list):
        return array_of(_of_value(value[0]) if value else {})
    return {} if value is None else {"type": _TYPE_NAMES[type(value)]}
