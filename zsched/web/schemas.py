"""
The API for OpenAPI 3.1: schemas of bodies from the table of options, of answers from the results, and what every route
answers.

A result's schema comes from a sample: a sample has the members, and its attributes have the types. Names of times
(``…_at``) and of durations (``…_s``) have types of their own. A member that is another result, or a list of them,
refers to that one's schema.

Bodies are checked by the client, whose errors name option, value and remedy. So the schemas here describe, and refuse
nothing. A body that they do not allow is refused; a body that they allow may have a mistake that a schema cannot say.
"""

import json
import typing
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final

from zsched.core.known import Known
from zsched.core.listing import LISTED_KINDS
from zsched.core.model import Schedule, Scheduled
from zsched.core.occurrences.backfill import Backfill, Filled
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.counts import Timeline
from zsched.core.occurrences.difference import TimesDifference
from zsched.core.occurrences.forecast import Forecast
from zsched.core.occurrences.future import Spans
from zsched.core.occurrences.outcomes import What
from zsched.core.options.arguments import ScheduleFilters
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import TEXT, Option, ValueType
from zsched.core.options.table import FOR_UPDATE, OPTIONS
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
from zsched.web.answers import MEDIA_TYPE, TITLES

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
    "KnownFailure": Known("a", "a", "a", 0, "", "", 0),
    "Calendar": Calendar("a", json.dumps({part: ["a"] for part in PARTS}), ()),
    "Daemon": DaemonSeen("a", DaemonRole.LEADS, *(None,) * 4, 0, *(None,) * 7, _REPORT, None, {}),
    "Queue": QueueSeen("a", 0, None, (), None, dict.fromkeys(("1m", "10m", "60m"), 0)),
}
_NAMES: Final = {type(sample): name for name, sample in _SAMPLES.items()}
_OPEN: Final = (What, Word)  # a client must not refuse a word that a later version adds
_TYPE_NAMES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null", list: "array"}
_FORMS: Final = {option.json_name: option.form for option in OPTIONS.values()}
_JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
_TYPES: Final[dict[type, Json]] = {str: TEXT, bool: {"type": "boolean"}, int: {"type": "integer", "minimum": 1}}
_HEADERS: Final[dict[str, Json]] = {
    "If-Match": {**TEXT, "pattern": r'^("[!-~]{1,64}"|\*)$', "description": "Only if the schedule has this ETag."},
    "If-None-Match": {**TEXT, "description": "An ETag: 304 if the schedule still has it."},
    "If-None-Match: *": {"enum": ["*"], "description": "Only if there is no schedule of this id."},
    "Idempotency-Key": {**TEXT, "pattern": "^[!-~]{1,128}$", "description": "The same request has the same key."},
    "Last-Event-ID": {**TEXT, "pattern": r"^\d{1,18}-\d{1,18}-\d{1,18}$", "description": "Only what came after it."},
}
_FAILED_READS: Final = (400, 401, 403, 404, 422, 503)
FAILED_WRITES: Final = (*_FAILED_READS, 408, 409, 412, 413)
_PROBLEM: Final[Json] = {
    "type": {**TEXT, "format": "uri", "examples": ["urn:zsched:error:invalid-schedule"]},
    "title": TEXT,
    "status": {"type": "integer"},
    "detail": TEXT,
    "option": {**TEXT, "description": "The option that is refused."},
    "value": {"description": "Its value."},
    "remedy": {**TEXT, "description": "What to do."},
}
_EXAMPLE: Final = {"func": "app.tasks.remind", "after": "1h", "args": [42], "queue": "mail", "tags": ["shop"]}
_RULE_EXAMPLE: Final = {"func": "app.tasks.digest", "cron": "0 9 * * *", "tz": "Asia/Seoul"}


def problems() -> Json:
    """Return the named responses: a problem of each status."""
    content = {MEDIA_TYPE: {"schema": ref("Problem")}}
    return {f"Problem{status}": {"description": title, "content": content} for status, title in TITLES.items()}


def components() -> Json:
    """Return the named schemas."""
    func = {**TEXT, "maxLength": 512, "description": "Dotted path of the function."}
    error = {"type": "object", "required": ["type", "detail"], "properties": _PROBLEM}
    return {
        "Problem": {
            "type": "object",
            "description": "An error (RFC 9457).",
            "required": ["type", "title", "status", "detail"],
            "properties": _PROBLEM,
        },
        "ScheduleOptions": {
            "description": "Options of a schedule, as the Python client has them.",
            "required": ["func"],
            **_closed({"func": func, **_options(OPTIONS)}),
        },
        "ScheduleChanges": {
            "description": "Options to change (RFC 7396); null sets one back to its default.",
            **_closed({"func": func, **_options(FOR_UPDATE, is_patch=True)}),
        },
        **results(),
        "Result": object_of(id=TEXT, run_id=TEXT, outcome=MAYBE_TEXT) | {"required": ["id"]},
        "RowResult": {
            "type": "object",
            "properties": {"row": {"type": "integer"}, "id": TEXT, "outcome": TEXT, "error": error},
        },
        "Preview": object_of(times=array_of(TEXT)),
        "Resumed": {"anyOf": [ref("Schedule"), ref("Result")]},
        "Updated": {"anyOf": [ref("Scheduled"), ref("TimesDifference")]},
    }


def route(
    summary: str,
    answer: Json | str,
    headers: Iterable[str] = (),
    body: Json | None = None,
    failures: Iterable[int] = _FAILED_READS,
) -> Json:
    """
    Return the arguments of a route. *answer*: the name of its schema, or the response. *headers*: those that it reads;
    one that ends in ! is needed. *body*: the content of its request.
    """
    done = {"description": "Done.", "content": _json(ref(answer))} if isinstance(answer, str) else answer
    failed = {
        status: {"$ref": f"#/components/responses/Problem{status}", "description": TITLES[status]}
        for status in failures
    }  # fmt: skip
    extra: Json = {"responses": {"200": done}, "parameters": [_header(name) for name in headers]}
    if "If-None-Match" in headers:
        extra["responses"]["304"] = {"description": "It is still that of If-None-Match."}
    if body is not None:
        extra["requestBody"] = {"content": body}
    return {"summary": summary, "responses": failed, "openapi_extra": extra}


def put(summary: str, *headers: str) -> Json:
    """Return the arguments of a route that puts a schedule."""
    examples = {"reminder": {"value": _EXAMPLE}, "digest": {"value": _RULE_EXAMPLE}}
    content = _json(ref("ScheduleOptions"), examples=examples)
    made = route(summary, "Scheduled", headers, content, (*FAILED_WRITES, 428))
    for status, text in ("201", "Created."), ("202", "In Redis, but in no archive yet."):
        made["openapi_extra"]["responses"][status] = {"description": text, "content": _json(ref("Scheduled"))}
    return _with_body(made)


def change(summary: str, *headers: str) -> Json:
    """Return the arguments of a route that changes options of a schedule."""
    return route(summary, "Updated", headers, _json(ref("ScheduleChanges")), FAILED_WRITES)


def answering(summary: str, **members: Json | str) -> Json:
    """Return the arguments of a route that answers an object with these *members*."""
    return route(summary, {"description": "Done.", "content": _json(object_of(**members))})


def page(summary: str, schema: str, member: str, **others: Json | str) -> Json:
    """Return the arguments of a route that answers a page of *schema* in *member*, with *others* beside it."""
    return answering(summary, **{member: array_of(schema)}, next_page_token=MAYBE_TEXT, **others)


def action(
    summary: str, answer: str, headers: Iterable[str] = (), options: Collection[str] = (), **members: Any
) -> Json:
    """
    Return the arguments of a custom method with these *members* in its body, each a type, an enum or a schema, and
    these *options* of the table.
    """
    body = _closed({**_options(options), **{name: _of_member(kind) for name, kind in members.items()}})
    return route(summary, answer, headers, _json(body), (*FAILED_WRITES, 410))


def bulk(summary: str, **members: Any) -> Json:
    """Return the arguments of a change of the schedules that a filter finds."""
    words = {"state": choice_of([*ScheduleState, None]), "kind": choice_of([*LISTED_KINDS, None])}
    filters = _closed(dict.fromkeys(ScheduleFilters.__annotations__, MAYBE_TEXT) | words)
    made = action(summary, "Repaired", filter=filters, dry_run=bool, limit=int, **members)
    made["openapi_extra"]["requestBody"]["content"][_JSON]["schema"]["required"] = ["filter"]
    return _with_body(made)


def streamed(summary: str, media_type: str, schema: str, headers: Iterable[str] = ()) -> Json:
    """Return the arguments of a route that answers a stream, each part of which has *schema*."""
    answer = {"description": "A stream; each part is one of these.", "content": {media_type: {"schema": ref(schema)}}}
    return route(summary, answer, headers)


def batch(summary: str) -> Json:
    """Return the arguments of a route that puts rows, as lines or as an array."""
    row, told = ref("ScheduleOptions"), ref("RowResult")
    answer = {"description": "A result for each row.", "content": _rows(told)}
    return route(summary, answer, (), _rows(row), FAILED_WRITES)


def _with_body(made: Json) -> Json:
    """Return the arguments of a route that needs a body."""
    made["openapi_extra"]["requestBody"]["required"] = True
    return made


def _rows(schema: Json) -> Json:
    """Return the content of many *schema*: a JSON array, or a line for each."""
    return {**_json(array_of(schema)), LINES: {"schema": {**schema, "description": "Each line is one of these."}}}


def _of_member(kind: Any) -> Json:
    if isinstance(kind, dict):
        return kind
    return choice_of(kind) if issubclass(kind, Enum) else _TYPES[kind]


def _closed(members: Json) -> Json:
    return {"type": "object", "properties": members, "additionalProperties": False}


def _json(schema: Json, **more: Any) -> Json:
    return {_JSON: {"schema": schema, **more}}


def _header(given: str) -> Json:
    label = given.rstrip("!")
    name = label.partition(":")[0]
    return {"name": name, "in": "header", "required": given.endswith("!"), "schema": _HEADERS[label]}


def _options(names: Collection[str], is_patch: bool = False) -> Json:
    return {
        name: _option(option, is_patch or option.is_optional)
        for name, option in OPTIONS.items()
        if name in names
    }  # fmt: skip


def _option(option: Option, is_nullable: bool) -> Json:
    """Return the JSON schema of an option's values."""
    schema = {"description": option.help_with(str), **option.form.schema}
    if not is_nullable:
        return schema
    if option.form.value_type is ValueType.WORD:
        return schema | {"enum": [*schema["enum"], None]}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return schema | {"type": [*kinds, "null"]}


# -- schemas of results ------------------------------------------------------------------------------


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
        "RunDetails": with_members(found["Run"], **retried, attempts=array_of("Attempt"), source="Source"),
        "NamedCalendar": with_members(found["Calendar"], id=TEXT),
        "Status": with_members(status, daemons=array_of("Daemon")),  # what a program acts on
        "Entry": object_of(entry=TEXT, at=TIME, kind=TEXT, changes=array_of("Change")),
    }


def ref(schema: Json | str) -> Json:
    """Return *schema*, or a reference to the one with that name."""
    return {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema


def choice_of(values: Iterable[Any]) -> Json:
    """Return the schema of one of these *values*."""
    return {"enum": [value.value if isinstance(value, Enum) else value for value in values]}


def nullable(schema: Json) -> Json:
    """Return *schema*, or null."""
    kind = schema.get("type")
    return {**schema, "type": [kind, "null"]} if isinstance(kind, str) else {"anyOf": [schema, {"type": "null"}]}


def array_of(schema: Json | str) -> Json:
    """Return the schema of an array of *schema*, or of the schema with that name."""
    return {"type": "array", "items": ref(schema)}


def by_name(schema: Json | str) -> Json:
    """Return the schema of an object that has a *schema* for each name."""
    return {"type": "object", "additionalProperties": ref(schema)}


def object_of(**members: Json | str) -> Json:
    """Return the schema of an object with all of *members*, each a schema or the name of one."""
    properties = {name: ref(schema) for name, schema in members.items()}
    return {"type": "object", "required": list(members), "properties": properties}


def with_members(schema: Json, **members: Json | str) -> Json:
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
        return by_name(values)
    return {"type": _TYPE_NAMES[hint]} if hint in _TYPE_NAMES else {}


def _of_value(value: Any) -> Json:
    if isinstance(value, dict):
        members = {name: _member(name, each) for name, each in value.items()}
        return object_of(**members) if value else {"type": "object"}
    if isinstance(value, list):
        return array_of(_of_value(value[0]) if value else {})
    return {} if value is None else {"type": _TYPE_NAMES[type(value)]}
