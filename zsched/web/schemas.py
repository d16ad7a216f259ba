"""
The API for OpenAPI 3.1: schemas of bodies from the table of options, and what every route answers.

Bodies are checked by the client, whose errors name option, value and remedy. So the schemas here describe, and refuse
nothing.
"""

from __future__ import annotations

import typing
from typing import Any, Final

from zsched.core.forms import Form, Instant, Json, Number, RqSeconds, Slots, Tags, Whole, Words, YesNo
from zsched.core.option_table import OPTIONS, ScheduleOptions
from zsched.web.problems import MEDIA_TYPE

_JSON: Final = "application/json"
_PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}
_TYPES: Final[dict[type, dict[str, Any]]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
}
_RESULTS: Final = (
    "Schedule",
    "Story",
    "Run",
    "Result",
    "Backfill",
    "Preview",
    "Entry",
    "Repaired",
    "Status",
    "Daemon",
    "Queue",
    "Occurrence",
    "Timeline",
)
_FAILURES: Final = {
    "400": "The body is not JSON.",
    "401": "No token, or a wrong one.",
    "403": "Not within the token's role or limits.",
    "404": "Not found.",
    "422": "A bad value; nothing was written.",
    "503": "Redis or an archive is not available; the same request may be sent again.",
}


def components() -> dict[str, Any]:
    """Return the named schemas."""
    text = {"type": "string"}
    return {
        "Problem": {
            "type": "object",
            "description": "An error (RFC 9457).",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"type": "string", "format": "uri", "examples": ["urn:zsched:error:invalid-schedule"]},
                "title": text,
                "status": {"type": "integer"},
                "detail": text,
                "option": {**text, "description": "The option that is refused."},
                "value": {"description": "Its value."},
                "remedy": {**text, "description": "What to do."},
            },
        },
        "ScheduleOptions": {
            "type": "object",
            "description": "Options of a schedule, as the Python client has them.",
            "properties": {"func": {**text, "description": "Dotted path of the function."}, **_options()},
        },
        "Scheduled": {
            "type": "object",
            "properties": {
                "id": text,
                "outcome": {"enum": ["created", "updated", "unchanged", "kept", "already_fired"]},
                "next_at": {"type": ["string", "null"], "format": "date-time"},
                "run_id": {"type": ["string", "null"]},
                "version": {"type": ["string", "null"]},
            },
        },
        **{name: {"type": "object"} for name in _RESULTS},
    }


def put(summary: str) -> dict[str, Any]:
    """Return the arguments of a route that puts a schedule."""
    body = {"$ref": "#/components/schemas/ScheduleOptions"}
    return _route(summary, "Scheduled", body, **{"201": "Created.", "412": "Another version.", "409": "A conflict."})


def answer(schema: str, summary: str) -> dict[str, Any]:
    """Return the arguments of a route that answers a *schema*."""
    return _route(summary, schema)


def page(schema: str, summary: str) -> dict[str, Any]:
    """Return the arguments of a route that answers a page."""
    return _route(summary, schema)


def bulk(summary: str, **members: type) -> dict[str, Any]:
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
    extra["requestBody"] = {"content": {lines: {"schema": {"type": "string"}}}, "required": True}
    extra["responses"]["200"] = {"description": "A line for each row.", "content": {lines: {}}}
    return made


def event_stream(summary: str) -> dict[str, Any]:
    """Return the arguments of a route that answers server-sent events."""
    made = _route(summary, "Entry")
    made["openapi_extra"]["responses"]["200"] = {"description": "Events.", "content": {"text/event-stream": {}}}
    return made


def action(schema: str, summary: str, **members: type) -> dict[str, Any]:
    """Return the arguments of a custom method with these *members* in its body."""
    body = {"type": "object", "properties": {name: _TYPES[kind] for name, kind in members.items()}}
    return _route(summary, schema, body, **{"409": "A conflict.", "412": "Another version."})


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


def _options() -> dict[str, Any]:
    known = typing.get_type_hints(ScheduleOptions).keys()
    return {
        name: _option(option.form) | {"description": option.help} for name, option in OPTIONS.items() if name in known
    }


def _option(form: Form) -> dict[str, Any]:
    """Return the JSON schema of an option's values."""
    if isinstance(form, Words):
        return {"enum": [each.value for each in form.enum]}
    if isinstance(form, YesNo):
        return {"type": "boolean"}
    if isinstance(form, Tags):
        return {"type": "array", "items": {"type": "string"}}
    if isinstance(form, Json):
        return {"type": "array"} if form.is_array else {"type": "object"}
    if isinstance(form, Instant):
        return {"type": "string", "description": "RFC 3339; without an offset local in tz"}
    if isinstance(form, RqSeconds) or form.is_duration:
        return {"type": ["number", "string"]}
    if isinstance(form, Whole | Number):
        return {"type": ["integer", "object"]} if isinstance(form, Number) else {"type": "integer"}
    return {"type": ["string", "object"]} if isinstance(form, Slots) else {"type": "string"}
