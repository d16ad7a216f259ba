"""
Answers: as JSON, whatever other programs have written into Redis; as HTML, with headers with which a browser runs only
scripts and styles of this server; and errors as bodies: ``application/problem+json`` (RFC 9457).

``type`` of an error is ``urn:zsched:error:<class>``; ``option``, ``value`` and ``remedy`` are those of the error.

An error names an option as programs do: ``tz``. The command line shows it unchanged, and the API as ``option``. A page
has labels instead, such as *Time zone*; its reader has no command line, so it leaves out where commands would help.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from zsched import errors
from zsched.core.wording import in_a_line, truncated
from zsched.errors import NOT_GIVEN, InvalidSchedule, NotArchived, RedisUnavailable, VersionConflict, ZschedError, show

_DEPTH: Final = 50  # of lists and objects in a value that cannot be shown as it is


class JsonAnswer(JSONResponse):
    """
    A JSON response. Values that JSON or UTF-8 cannot have, such as NaN and half of a character, are shown as texts, and
    a value that is nested too deeply is cut.
    """

    def render(self, content: Any) -> bytes:
        try:
            return super().render(content)
        except (ValueError, RecursionError):
            return super().render(_plain(content, _DEPTH))


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping | list | tuple) and depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {_plain(str(name), 0): _plain(each, depth - 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, depth - 1) for each in value]
    return value


# -- pages ------------------------------------------------------------------------------------------

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
PAGE_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send a form without its Origin
    "X-Content-Type-Options": "nosniff",
}
STREAMED: Final = {"Content-Encoding": "identity"}  # gzip would keep parts back
TEMPLATES: Final = Environment(
    loader=PackageLoader("zsched.web"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
    cache_size=100,
)


class Files(StaticFiles):
    """Static files, which a browser keeps and asks for again: an update is seen at once, the rest is 304."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        """Return the response, with its Cache-Control."""
        answer = super().file_response(*given, **named)
        answer.headers["Cache-Control"] = "no-cache"
        return answer


def html_page(template: str, status: int = 200, **shown: Any) -> Response:
    """Return the page that *template* makes of *shown*."""
    return HTMLResponse(TEMPLATES.get_template(template).render(shown), status, PAGE_HEADERS)


async def docs(_: Request) -> Response:
    """Show the OpenAPI document in Swagger UI, which sets styles of elements."""
    page = html_page("docs.html")
    page.headers["Content-Security-Policy"] = _POLICY.replace("style-src", "style-src 'unsafe-inline'")
    return page


# -- errors -----------------------------------------------------------------------------------------

MEDIA_TYPE: Final = "application/problem+json"
_TYPE: Final = "urn:zsched:error:"
Headers: TypeAlias = Mapping[str, str]
# By class; a class without a status has that of its base.
_STATUS: Final[dict[type[Exception], int]] = {
    InvalidSchedule: 422,
    errors.TriggerError: 422,
    errors.ScheduleNotFound: 404,
    errors.RunNotFound: 404,
    errors.ScheduleExists: 409,
    errors.RunNotOver: 409,
    errors.Contended: 409,
    errors.PayloadGone: 410,
    VersionConflict: 412,
    RedisUnavailable: 503,
    errors.RedisRefused: 503,
    errors.ArchiveError: 503,
    NotArchived: 503,
    ZschedError: 500,
}
# Titles of problems, and their descriptions for OpenAPI.
TITLES: Final = {
    400: "Malformed body or header",
    401: "No token, or a wrong one",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Conflict",
    410: "The arguments are no longer stored",
    412: "Another version",
    413: "Too large",
    415: "Not such an encoding",
    422: "Not acceptable",
    428: "No Idempotency-Key",
    429: "Too many requests",
    503: "Redis or an archive is not available",
}
# By name, if the label is not the name with spaces and a capital.
_LABELS: Final = {
    "tz": "Time zone",
    "rrule": "RRULE",
    "result_ttl": "Result TTL",
    "failure_ttl": "Failure TTL",
    "args": "Positional arguments",
    "kwargs": "Named arguments",
    "start": "From",
    "end": "To",
    "func": "Function",
    "match": "Schedule",
    "status": "State",
}


class Problem(Exception):
    """
    An error as the API tells it. *kind*: the end of its type; *headers*: of the response; *members*: those of its body
    beside type, title, status and detail. *field*: of a form, if it is about one; *brief*: what is wrong with that.
    """

    def __init__(
        self, status: int, kind: str, detail: str, remedy: str = "", headers: Headers | None = None, **members: Any
    ) -> None:
        self.status, self.kind, self.detail, self.remedy = status, kind, detail, remedy
        self.members = {**members, "remedy": remedy}
        self.headers = {**({"WWW-Authenticate": "Bearer"} if status == 401 else {}), **(headers or {})}
        self.field = self.brief = ""
        super().__init__(f"{detail}; {remedy}" if remedy else detail)

    @classmethod
    def from_error(cls, error: Exception, status: int | None = None, detail: str | None = None) -> Problem:
        """
        Return *error* as a problem; *status*: another than that of its class; *detail*: other words for it. Of an error
        that nobody expected, the server's events have the rest.
        """
        if isinstance(error, Problem):
            return error
        if not isinstance(error, ZschedError):
            return cls(500, "failed", f"the request failed ({type(error).__name__})", "this server's events say why")
        status = status or next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)
        headers = {"Retry-After": "1"} if status == 503 or isinstance(error, errors.Contended) else {}
        problem = cls(status, kind_of(type(error)), detail or str(error), headers=headers)
        problem.members = _members_of(error)
        if isinstance(error, InvalidSchedule):
            problem.field, problem.brief = error.field, error.problem
        return problem

    @property
    def short(self) -> dict[str, Any]:
        """The body without title and status: one of many results."""
        return {"type": f"{_TYPE}{self.kind}", "detail": truncated(self.detail), **self.members}

    def response(self) -> JsonAnswer:
        """Return it as a response."""
        first = {"type": "", "title": TITLES.get(self.status, "Failed"), "status": self.status}
        return JsonAnswer(first | self.short, self.status, self.headers, MEDIA_TYPE)


def bad_parameter(error: InvalidSchedule) -> Problem:
    """Return *error* about a parameter of the query or a header: it is of no schedule."""
    name = "page_token" if error.field == "after" else error.field  # the client's name of it
    problem = Problem.from_error(error, detail=error.named(name))
    problem.kind, problem.members["option"] = "invalid-parameter", in_a_line(name)
    return problem


def kind_of(error: type[BaseException]) -> str:
    """Return the end of the type: ``InvalidSchedule`` is ``invalid-schedule``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", error.__name__).lower()


def _members_of(error: ZschedError) -> dict[str, Any]:
    match error:
        case InvalidSchedule():
            value = None if error.value is NOT_GIVEN else _json(error.value)
            return {"option": in_a_line(error.field), "value": value, "remedy": error.remedy}
        case VersionConflict():
            return {"given": error.given, "present": error.present}
        case RedisUnavailable():
            return {"may_have_been_applied": error.may_have_been_applied, "remedy": error.remedy}
        case NotArchived():
            return {"archived": False, "is_in_redis": error.is_in_redis}
    return {}


def _json(value: object) -> Any:
    """Return a bad value as JSON if it is short and plain, else as a message shows it."""
    is_short = (isinstance(value, str) and len(value) <= 200) or (isinstance(value, int) and abs(value) < 2**53)
    return value if value is None or isinstance(value, bool | float) or is_short else show(value)


def label_of(name: str) -> str:
    """Return the label of an option, a filter or a field of a form."""
    return _LABELS.get(name) or name.replace("_", " ").capitalize()


def page_problem(error: Exception) -> Problem:
    """Return *error* as a page tells it: with labels, and without commands."""
    detail: str | None = None
    match error:
        case InvalidSchedule():
            detail = error.named(label_of(error.field))
        case VersionConflict():
            detail = f"schedule {error.id!r} was changed meanwhile; look at it again, and decide anew"
        case errors.ScheduleNotFound() | errors.RunNotFound():
            detail = error.problem
    return Problem.from_error(error, detail=detail)
