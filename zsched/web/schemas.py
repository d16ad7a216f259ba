"""
The API for OpenAPI 3.1: schemas of bodies from the table of options, and what every route answers.

Bodies are checked by the client, whose errors name option, value and remedy. So the schemas here describe, and refuse
nothing. A body that they do not allow is refused; a body that they allow may have a mistake that a schema cannot say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Any, Final

from zsched.core.options.forms import TEXT, Option, ValueType
from zsched.core.options.table import FOR_UPDATE, OPTIONS
from zsched.web.problems import MEDIA_TYPE
from zsched.web.shapes import results

_JSON: Final = "application/json"
_PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}
_TYPES: Final[dict[type, dict[str, Any]]] = {
    str: TEXT,
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 1},
}
_HEADERS: Final[dict[str, dict[str, Any]]] = {
    "If-Match": {**TEXT, "pattern": '^"[!-~]{1,64}"$', "description": "Only if the schedule has this ETag."},
    "If-None-Match": {"const": "*", "description": "Only if there is no schedule of this id."},
    "Idempotency-Key": {**TEXT, "pattern": "^[!-~]{1,128}$", "description": "The same request has the same key."},
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
        "Resumed": {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("Schedule", "Result")]},
        "Preview": {"type": "object", "required": ["times"], "properties": {"times": {"type": "array"}}},
        **{name: {"type": "object"} for name in _OTHERS},
    }


def put(summary: str, body: str = "ScheduleOptions", *headers: str) -> dict[str, Any]:
    """
    Return the arguments of a route that puts a schedule. *headers*: those that it reads; one that ends in ! is needed.
    """
    more = {"201": "Created.", "202": "In Redis, but in no archive yet.", "428": "No Idempotency-Key."}
    made = _route(summary, "Scheduled", {"$ref": f"#/components/schemas/{body}"}, headers, **more, **_FAILED_WRITES)
    made["openapi_extra"]["responses"]["202"]["content"] = {MEDIA_TYPE: {"schema": _PROBLEM}}
    if body == "ScheduleOptions":
        examples = {"reminder": {"value": _EXAMPLE}, "digest": {"value": _RULE_EXAMPLE}}
        made["openapi_extra"]["requestBody"]["content"][_JSON]["examples"] = examples
    return made


def answer(schema: str, summary: str, headers: Collection[str] = (), is_write: bool = False) -> dict[str, Any]:
    """Return the arguments of a route that answers a *schema*."""
    return _route(summary, schema, None, headers, **(_FAILED_WRITES if is_write else {}))


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
    return _route(summary, schema, body, headers, **_FAILED_WRITES, **{"410": "The arguments are kept nowhere."})


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


def _header(given: str) -> dict[str, Any]:
    name = given.rstrip("!")
    return {"name": name, "in": "header", "required": given.endswith("!"), "schema": _HEADERS[name]}


def _route(
    summary: str, schema: str, body: dict[str, Any] | None = None, headers: Iterable[str] = (), **more: str
) -> dict[str, Any]:
    answered = {"content": {_JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}
    failed = {MEDIA_TYPE: {"schema": _PROBLEM}}
    responses: dict[str, Any] = {"200": {"description": "Done.", **answered}}
    for status, description in {**_FAILURES, **more}.items():
        is_done = status.startswith("2")
        responses[status] = {"description": description, **(answered if is_done else {"content": failed})}
    extra: dict[str, Any] = {"responses": responses, "parameters": [_header(name) for name in headers]}
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
    schema = {"description": option.help_with(str), **option.form.schema}
    if not is_nullable:
        return schema
    if option.form.value_type is ValueType.WORD:
        return schema | {"enum": [*schema["enum"], None]}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return schema | {"type": [*kinds, "null"]}
