"""
The API for OpenAPI 3.1: schemas of bodies from the table of options, and what every route answers.

Bodies are checked by the client, whose errors name option, value and remedy. So the schemas here describe, and refuse
nothing. A body that they do not allow is refused; a body that they allow may have a mistake that a schema cannot say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Any, Final

from zsched.core.forms import (
    Duration,
    Form,
    Instant,
    Interval,
    Json,
    Number,
    Option,
    QueueName,
    RqSeconds,
    ScheduleId,
    ShortText,
    Slots,
    Stored,
    Tags,
    Version,
    Whole,
    Words,
    YesNo,
)
from zsched.core.option_table import FOR_UPDATE, OPTIONS
from zsched.core.run_id import ID
from zsched.web.problems import MEDIA_TYPE
from zsched.web.shapes import results

ID_SCHEMA: Final[dict[str, Any]] = {"type": "string", "pattern": f"^{ID.pattern}$", "examples": ["reminder-42"]}
_JSON: Final = "application/json"
_PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}
_TEXT: Final = {"type": "string"}
_LINE: Final = {"type": "string", "maxLength": 200}
_TYPES: Final[dict[type, dict[str, Any]]] = {
    str: _TEXT,
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 1},
}
_FORMS: Final[dict[type[Form], dict[str, Any]]] = {
    YesNo: {"type": "boolean"},
    Tags: {"type": "array", "items": _LINE, "maxItems": 32},
    Instant: {**_TEXT, "description": "RFC 3339; without an offset local in tz"},
    Duration: {"type": ["number", "string"]},
    Interval: {"type": ["number", "string"]},
    RqSeconds: {"type": ["number", "string"]},
    Slots: {"type": ["string", "object", "array"]},
    QueueName: {**_TEXT, "minLength": 1, "maxLength": 128},
    ShortText: _LINE,
    ScheduleId: ID_SCHEMA,
    Version: {**_TEXT, "pattern": "^[!-~]{1,64}$"},
}
_HEADERS: Final[dict[str, dict[str, Any]]] = {
    "If-Match": {**_TEXT, "pattern": '^"[!-~]{1,64}"$', "description": "Only if the schedule has this ETag."},
    "If-None-Match": {"const": "*", "description": "Only if there is no schedule of this id."},
    "Idempotency-Key": {**_TEXT, "pattern": "^[!-~]{1,128}$", "description": "The same request has the same key."},
}
_OTHERS: Final = ("Entry", "Status", "Daemon", "Queue", "Occurrence", "Timeline")
_FAILURES: Final = {
    "400": "The body is not JSON, or a header is malformed.",
    "401": "No token, or a wrong one.",
    "403": "Not within the token's role or limits.",
    "404": "Not found.",
    "422": "A bad value; nothing was written.",
    "503": "Redis or an archive is not available; the same request may be sent again.",
}
_FAILED_WRITES: Final = {
    "408": "The body came too slowly.",
    "409": "A conflict.",
    "412": "Another version.",
    "413": "The body is too large.",
}
_EXAMPLE: Final = {"func": "app.tasks.remind", "after": "1h", "args": [42], "queue": "mail", "tags": ["shop"]}
_RULE_EXAMPLE: Final = {"func": "app.tasks.digest", "cron": "0 9 * * *", "tz": "Asia/Seoul"}


def components() -> dict[str, Any]:
    """Return the named schemas."""
    func = {**_TEXT, "maxLength": 512, "description": "Dotted path of the function."}
    problem = {
        "type": {**_TEXT, "format": "uri", "examples": ["urn:zsched:error:invalid-schedule"]},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "option": {**_TEXT, "description": "The option that is refused."},
        "value": {"description": "Its value."},
        "remedy": {**_TEXT, "description": "What to do."},
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
            "properties": {"id": _TEXT, "run_id": _TEXT, "outcome": {"type": ["string", "null"]}},
        },
        "Resumed": {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("Schedule", "Result")]},
        "Preview": {"type": "object", "required": ["times"], "properties": {"times": {"type": "array"}}},
        **{name: {"type": "object"} for name in _OTHERS},
    }


def put(summary: str, body: str = "ScheduleOptions", *headers: str) -> dict[str, Any]:
    """
    Return the arguments of a route that puts a schedule. *headers*: those that it reads; one that ends in ! is needed.
    """
    more = {"201": "Created.", "202": "In Redis, but in no archive yet.", "428": "No Idempotency-Key."}
    made = _route(summary, "Scheduled", {"$ref": f"#/components/schemas/{body}"}, **more, **_FAILED_WRITES)
    made["openapi_extra"]["responses"]["202"]["content"] = {MEDIA_TYPE: {"schema": _PROBLEM}}
    if body == "ScheduleOptions":
        examples = {"reminder": {"value": _EXAMPLE}, "digest": {"value": _RULE_EXAMPLE}}
        made["openapi_extra"]["requestBody"]["content"][_JSON]["examples"] = examples
    made["openapi_extra"]["parameters"] = list(_headers(headers))
    return made


def answer(schema: str, summary: str, headers: Collection[str] = (), is_write: bool = False) -> dict[str, Any]:
    """Return the arguments of a route that answers a *schema*."""
    made = _route(summary, schema, None, **(_FAILED_WRITES if is_write else {}))
    made["openapi_extra"]["parameters"] = list(_headers(headers))
    return made


def page(schema: str, summary: str, member: str = "", *others: str) -> dict[str, Any]:
    """Return the arguments of a route that answers a page of *schema* in *member*, with *others* beside it."""
    made = _route(summary, schema)
    if member:
        items = {member: {"type": "array", "items": {"$ref": f"#/components/schemas/{schema}"}}}
        members = items | {name: {} for name in others}
        content = {"type": "object", "required": list(members), "properties": members}
        made["openapi_extra"]["responses"]["200"]["content"] = {_JSON: {"schema": content}}
    return made


def bulk(summary: str, **members: Any) -> dict[str, Any]:
    """Return the arguments of a change of the schedules that a filter finds."""
    made = action("Repaired", summary, dry_run=bool, limit=int, **members)
    body = made["openapi_extra"]["requestBody"]["content"][_JSON]["schema"]
    body["properties"]["filter"] = {"type": "object"}
    body["required"] = ["filter"]
    return made


def batch(summary: str) -> dict[str, Any]:
    """Return the arguments of the route of batches."""
    made = _route(summary, "Result")
    lines, extra = "application/x-ndjson", made["openapi_extra"]
    extra["requestBody"] = {"content": {lines: {"schema": {"type": "string"}}}}
    extra["responses"]["200"] = {"description": "A line for each row.", "content": {lines: {}}}
    return made


def event_stream(summary: str) -> dict[str, Any]:
    """Return the arguments of a route that answers server-sent events."""
    made = _route(summary, "Entry")
    made["openapi_extra"]["responses"]["200"] = {"description": "Events.", "content": {"text/event-stream": {}}}
    return made


def action(
    schema: str, summary: str, options: Collection[str] = (), /, headers: Collection[str] = (), **members: Any
) -> dict[str, Any]:
    """
    Return the arguments of a custom method with these *members* in its body, each a type, an enum or a schema, and
    these *options* of the table.
    """
    body = _closed({**_options(options), **{name: _of_member(kind) for name, kind in members.items()}})
    made = _route(summary, schema, body, **_FAILED_WRITES, **{"410": "The arguments are kept nowhere."})
    made["openapi_extra"]["parameters"] = list(_headers(headers))
    return made


def without_validation_errors(document: dict[str, Any]) -> None:
    """Take the form of FastAPI's own errors out of an OpenAPI *document*: all errors are problems."""
    for methods in document["paths"].values():
        for method in methods.values():
            method["responses"]["422"]["content"].pop(_JSON, None)


def choice_of(values: Iterable[Any]) -> dict[str, Any]:
    """Return the schema of a parameter with one of these *values*."""
    return {"enum": [value.value if isinstance(value, Enum) else value for value in values]}


def _of_member(kind: Any) -> dict[str, Any]:
    if isinstance(kind, dict):
        return kind
    return choice_of(kind) if issubclass(kind, Enum) else _TYPES[kind]


def _closed(members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": members, "additionalProperties": False}


def _headers(names: Iterable[str]) -> Iterable[dict[str, Any]]:
    for name in names:
        schema = _HEADERS[name.rstrip("!")]
        yield {"name": name.rstrip("!"), "in": "header", "required": name.endswith("!"), "schema": schema}


def _route(summary: str, schema: str, body: dict[str, Any] | None = None, **more: str) -> dict[str, Any]:
    answered = {"content": {_JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}
    failed = {MEDIA_TYPE: {"schema": _PROBLEM}}
    responses: dict[str, Any] = {"200": {"description": "Done.", **answered}}
    for status, description in {**_FAILURES, **more}.items():
        is_done = status.startswith("2")
        responses[status] = {"description": description, **(answered if is_done else {"content": failed})}
    extra: dict[str, Any] = {"responses": responses}
    if body is not None:
        extra["requestBody"] = {"content": {_JSON: {"schema": body}}}
    return {"summary": summary, "openapi_extra": extra}


def _options(names: Collection[str], is_patch: bool = False) -> dict[str, Any]:
    return {
        name: _option(option, is_patch or option.is_optional)
        for name, option in OPTIONS.items()
        if name in names
    }  # fmt: skip


def _option(option: Option, is_nullable: bool) -> dict[str, Any]:
    """Return the JSON schema of an option's values."""
    form = option.form
    schema = {"description": option.help_with(str), **_values(option)}
    if not is_nullable:
        return schema
    if isinstance(form, Words):
        return schema | {"enum": [*schema["enum"], None]}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return schema | {"type": [*kinds, "null"]}


def _values(option: Option) -> dict[str, Any]:
    form = option.form
    if isinstance(form, Words):
        return choice_of(form.enum)
    if isinstance(form, Json):
        return {"type": "array"} if form.is_array else {"type": "object"}
    if isinstance(form, Whole):
        return {"type": "integer", "minimum": 1, "maximum": form.most}
    if isinstance(form, Number):  # RQ's retries have intervals, too
        return {"type": ["integer", "object"] if option.stored is Stored.RQ else "integer", "minimum": 1}
    if type(form) is Form and option.stored is Stored.RQ:  # a callback, by its path or with a timeout
        return {"type": ["string", "object"]}
    return _FORMS.get(type(form), _TEXT)
