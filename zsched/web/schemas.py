"""
The API for OpenAPI 3.1: schemas of bodies from the table of options, of answers from the results, and what every route
answers.

Bodies are checked by the client, whose errors name option, value and remedy. So the schemas here describe, and refuse
nothing. A body that they do not allow is refused; a body that they allow may have a mistake that a schema cannot say.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final

from zsched.core.model import Schedule, Scheduled
from zsched.core.occurrences.backfill import Backfill
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import TEXT, Option, ValueType
from zsched.core.options.table import FOR_UPDATE, OPTIONS
from zsched.core.repair import Repaired
from zsched.core.runs.run import Run, RunStatus
from zsched.core.story.source import Source
from zsched.core.story.story import Story
from zsched.core.story.verdict import StoryVerdict, Word
from zsched.web.problems import MEDIA_TYPE

Json = dict[str, Any]

_JSON: Final = "application/json"
_TYPES: Final[dict[type, Json]] = {str: TEXT, bool: {"type": "boolean"}, int: {"type": "integer", "minimum": 1}}
_HEADERS: Final[dict[str, Json]] = {
    "If-Match": {**TEXT, "pattern": '^"[!-~]{1,64}"$', "description": "Only if the schedule has this ETag."},
    "If-None-Match": {"const": "*", "description": "Only if there is no schedule of this id."},
    "Idempotency-Key": {**TEXT, "pattern": "^[!-~]{1,128}$", "description": "The same request has the same key."},
}
# Answers that are only named.
_OTHERS: Final = (
    "Entry", "Status", "Daemon", "Queue", "Occurrence", "Timeline", "Forecast", "Calendar", "Calendars",
)  # fmt: skip
_FAILED_READS: Final = {
    "400": "The body is not JSON, or a header is malformed.",
    "401": "No token, or a wrong one.",
    "403": "Not within the token's role or limits.",
    "404": "Not found.",
    "422": "A bad value; nothing was written.",
    "503": "Redis or an archive is not available; the same request may be sent again.",
}
FAILED_WRITES: Final = {
    **_FAILED_READS,
    "408": "The body came too slowly.",
    "409": "A conflict.",
    "412": "Another version.",
    "413": "The body is too large.",
}
_EXAMPLE: Final = {"func": "app.tasks.remind", "after": "1h", "args": [42], "queue": "mail", "tags": ["shop"]}
_RULE_EXAMPLE: Final = {"func": "app.tasks.digest", "cron": "0 9 * * *", "tz": "Asia/Seoul"}


def components() -> Json:
    """Return the named schemas."""
    func = {**TEXT, "maxLength": 512, "description": "Dotted path of the function."}
    problem = {
        "type": {**TEXT, "format": "uri", "examples": ["urn:zsched:error:invalid-schedule"]},
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "option": {**TEXT, "description": "The option that is refused."},
        "value": {"description": "Its value."},
        "remedy": {**TEXT, "description": "What to do."},
    }
    return {
        "Problem": {
            "type": "object",
            "description": "An error (RFC 9457).",
            "required": ["type", "title", "status", "detail"],
            "properties": problem,
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
        "Result": {
            "type": "object",
            "required": ["id"],
            "properties": {"id": TEXT, "run_id": TEXT, "outcome": {"type": ["string", "null"]}},
        },
        "Resumed": {"anyOf": [_ref("Schedule"), _ref("Result")]},
        "Preview": {"type": "object", "required": ["times"], "properties": {"times": {"type": "array"}}},
        **{name: {"type": "object"} for name in _OTHERS},
    }


def route(
    summary: str,
    answer: Json | str,
    headers: Iterable[str] = (),
    body: Json | None = None,
    failures: Mapping[str, str] = _FAILED_READS,
) -> Json:
    """
    Return the arguments of a route. *answer*: the name of its schema, or the response. *headers*: those that it reads;
    one that ends in ! is needed. *body*: the content of its request.
    """
    done = {"description": "Done.", "content": _json(_ref(answer))} if isinstance(answer, str) else answer
    problem = {MEDIA_TYPE: {"schema": _ref("Problem")}}
    failed = {status: {"description": text, "content": problem} for status, text in failures.items()}
    extra: Json = {"responses": {"200": done, **failed}, "parameters": [_header(name) for name in headers]}
    return {"summary": summary, "openapi_extra": extra if body is None else {**extra, "requestBody": {"content": body}}}


def put(summary: str, body: str, *headers: str) -> Json:
    """Return the arguments of a route that puts a schedule."""
    examples = {"reminder": {"value": _EXAMPLE}, "digest": {"value": _RULE_EXAMPLE}}
    content = _json(_ref(body), **({"examples": examples} if body == "ScheduleOptions" else {}))
    failures = {**FAILED_WRITES, "202": "In Redis, but in no archive yet.", "428": "No Idempotency-Key."}
    made = route(summary, "Scheduled", headers, content, failures)
    made["openapi_extra"]["responses"]["201"] = {"description": "Created.", "content": _json(_ref("Scheduled"))}
    return made


def page(summary: str, schema: str, member: str, *others: str) -> Json:
    """Return the arguments of a route that answers a page of *schema* in *member*, with *others* beside it."""
    members = {member: {"type": "array", "items": _ref(schema)}, **{name: {} for name in others}}
    content = {"type": "object", "required": list(members), "properties": members}
    return route(summary, {"description": "Done.", "content": _json(content)})


def action(
    summary: str, answer: str, headers: Iterable[str] = (), options: Collection[str] = (), **members: Any
) -> Json:
    """
    Return the arguments of a custom method with these *members* in its body, each a type, an enum or a schema, and
    these *options* of the table.
    """
    body = _closed({**_options(options), **{name: _of_member(kind) for name, kind in members.items()}})
    return route(summary, answer, headers, _json(body), {**FAILED_WRITES, "410": "The arguments are no longer stored."})


def bulk(summary: str, **members: Any) -> Json:
    """Return the arguments of a change of the schedules that a filter finds."""
    made = action(summary, "Repaired", filter={"type": "object"}, dry_run=bool, limit=int, **members)
    made["openapi_extra"]["requestBody"]["content"][_JSON]["schema"]["required"] = ["filter"]
    return made


def streamed(description: str, media_type: str) -> Json:
    """Return a response of many parts."""
    return {"description": description, "content": {media_type: {}}}


def without_validation_errors(document: Json) -> None:
    """Take the form of FastAPI's own errors out of an OpenAPI *document*: all errors are problems."""
    for methods in document["paths"].values():
        for method in methods.values():
            method["responses"]["422"]["content"].pop(_JSON, None)


def choice_of(values: Iterable[Any]) -> Json:
    """Return the schema of a parameter with one of these *values*."""
    return {"enum": [value.value if isinstance(value, Enum) else value for value in values]}


def _of_member(kind: Any) -> Json:
    if isinstance(kind, dict):
        return kind
    return choice_of(kind) if issubclass(kind, Enum) else _TYPES[kind]


def _closed(members: Json) -> Json:
    return {"type": "object", "properties": members, "additionalProperties": False}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: Json, **more: Any) -> Json:
    return {_JSON: {"schema": schema, **more}}


def _header(given: str) -> Json:
    name = given.rstrip("!")
    return {"name": name, "in": "header", "required": given.endswith("!"), "schema": _HEADERS[name]}


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


# -- results ------------------------------------------------------------------------------------------
# A sample of each has its members. Their types follow from those of its attributes, and from the names of times
# (``…_at``) and durations (``…_s``).

_SOURCE: Final = Source(None, None, None)
_SAMPLES: Final[tuple[Any, ...]] = (
    Schedule(id="a", state=ScheduleState.ACTIVE, kind="once", func="app.x", next_ms=0),
    Scheduled("a", "created", None, None),
    Run("a-0", RunStatus.QUEUED),
    Story("a", "UTC", StoryVerdict(Word.UNKNOWN, "", ""), [], True, _SOURCE, ()),
    Backfill("a", "UTC", 0, 0, (), 0, 0, _SOURCE, True),
    Repaired(0, ()),
    _SOURCE,
)
_TYPE_NAMES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null", list: "array"}
_FORMS: Final = {option.json_name: option.form for option in OPTIONS.values()}


def results() -> dict[str, Json]:
    """Return the schema of each result, by the name of its class."""
    return {type(sample).__name__: _object(sample.to_dict(), type(sample)) for sample in _SAMPLES}


def _object(shown: Json, of: type | None = None) -> Json:
    hints = {} if of is None else typing.get_type_hints(of, localns={"Source": Source})  # some import it for types only
    members = {name: _member(name, value, hints.get(name)) for name, value in shown.items()}
    return {"type": "object", "required": list(shown), "properties": members}


def _member(name: str, value: Any, hint: Any) -> Json:
    if name.endswith("_at"):
        return {"type": ["string", "null"], "format": "date-time"}
    if name.endswith("_s"):
        return {"type": ["number", "null"]}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [each.value for each in hint]}
    form = _FORMS.get(name)
    if form is not None and form.value_type is ValueType.WORD:
        return {"enum": [*form.words, None]}
    if form is not None and form.value_type is ValueType.BOOLEAN:
        return form.schema
    kinds = set(typing.get_args(hint)) if isinstance(hint, UnionType) else {hint}
    if kinds <= _TYPE_NAMES.keys():
        return {"type": sorted({_TYPE_NAMES[kind] for kind in (*kinds, type(value))})}
    if isinstance(value, dict):
        return _object(value) if value else {"type": "object"}
    return {} if value is None else {"type": _TYPE_NAMES[type(value)]}
