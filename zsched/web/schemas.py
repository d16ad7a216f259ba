"""
The API for OpenAPI 3.1: schemas of bodies from the table of options, of answers from the results, and what every route
answers.

Bodies are checked by the client, whose errors name option, value and remedy. So the schemas here describe, and refuse
nothing. A body that they do not allow is refused; a body that they allow may have a mistake that a schema cannot say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any, Final

from zsched.core.listing import LISTED_KINDS
from zsched.core.options.arguments import ScheduleFilters
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import TEXT, Option, ValueType
from zsched.core.options.table import FOR_UPDATE, OPTIONS
from zsched.web.problems import MEDIA_TYPE
from zsched.web.results import MAYBE_TEXT, Json, array_of, choice_of, object_of, ref, results

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
_PROBLEM: Final[Json] = {
    "type": {**TEXT, "format": "uri", "examples": ["urn:zsched:error:invalid-schedule"]},
    "title": TEXT,
    "status": {"type": "integer"},
    "detail": TEXT,
    "option": {**TEXT, "description": "The option that is refused."},
    "value": {"description": "Its value."},
    "remedy": {**TEXT, "description": "What to do."},
}
_FILTER: Final[Json] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(ScheduleFilters.__annotations__, MAYBE_TEXT),
        "state": choice_of([*ScheduleState, None]),
        "kind": choice_of([*LISTED_KINDS, None]),
    },
    "additionalProperties": False,
}
_EXAMPLE: Final = {"func": "app.tasks.remind", "after": "1h", "args": [42], "queue": "mail", "tags": ["shop"]}
_RULE_EXAMPLE: Final = {"func": "app.tasks.digest", "cron": "0 9 * * *", "tz": "Asia/Seoul"}


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
    failures: Mapping[str, str] = _FAILED_READS,
) -> Json:
    """
    Return the arguments of a route. *answer*: the name of its schema, or the response. *headers*: those that it reads;
    one that ends in ! is needed. *body*: the content of its request.
    """
    done = {"description": "Done.", "content": _json(ref(answer))} if isinstance(answer, str) else answer
    problem = {MEDIA_TYPE: {"schema": ref("Problem")}}
    failed = {status: {"description": text, "content": problem} for status, text in failures.items()}
    extra: Json = {"responses": {"200": done, **failed}, "parameters": [_header(name) for name in headers]}
    if "If-None-Match" in headers:
        extra["responses"]["304"] = {"description": "It is still that of If-None-Match."}
    return {"summary": summary, "openapi_extra": extra if body is None else {**extra, "requestBody": {"content": body}}}


def put(summary: str, body: str, *headers: str, answer: str = "Scheduled") -> Json:
    """Return the arguments of a route that puts a schedule."""
    examples = {"reminder": {"value": _EXAMPLE}, "digest": {"value": _RULE_EXAMPLE}}
    content = _json(ref(body), **({"examples": examples} if body == "ScheduleOptions" else {}))
    made = route(summary, answer, headers, content, {**FAILED_WRITES, "428": "No Idempotency-Key."})
    done = {"201": "Created.", "202": "In Redis, but in no archive yet."} if answer == "Scheduled" else {}
    for status, text in done.items():
        made["openapi_extra"]["responses"][status] = {"description": text, "content": _json(ref(answer))}
    return _with_body(made) if body == "ScheduleOptions" else made


def answering(summary: str, **members: Json) -> Json:
    """Return the arguments of a route that answers an object with these *members*."""
    return route(summary, {"description": "Done.", "content": _json(object_of(**members))})


def page(summary: str, schema: str, member: str, **others: Json) -> Json:
    """Return the arguments of a route that answers a page of *schema* in *member*, with *others* beside it."""
    return answering(summary, **{member: array_of(ref(schema))}, next_page_token=MAYBE_TEXT, **others)


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
    made = action(summary, "Repaired", filter=_FILTER, dry_run=bool, limit=int, **members)
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


def share_failures(document: Json) -> None:
    """
    Let the routes of an OpenAPI *document* refer to one response for each status of a problem. So the form of FastAPI's
    own errors is gone, too.
    """
    shared = document["components"]["responses"] = {}
    for methods in document["paths"].values():
        for method in methods.values():
            for status, response in method["responses"].items():
                if problem := response.get("content", {}).get(MEDIA_TYPE):
                    content = {MEDIA_TYPE: problem}
                    shared[f"Problem{status}"] = {"description": response["description"], "content": content}
                    method["responses"][status] = {"$ref": f"#/components/responses/Problem{status}"}


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
