"""
Responses as JSON, whatever other programs have written into Redis; and as HTML, with headers with which a browser runs
only scripts and styles of this server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

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
