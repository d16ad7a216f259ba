"""HTML pages: their templates, and headers with which a browser runs only scripts and styles of this server."""

from __future__ import annotations

from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send a form without its Origin
    "X-Content-Type-Options": "nosniff",
}
TEMPLATES: Final = Environment(
    loader=PackageLoader("zsched.web"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
    cache_size=100,
)


def html_page(template: str, status: int = 200, **shown: Any) -> Response:
    """Return the page that *template* makes of *shown*."""
    return HTMLResponse(TEMPLATES.get_template(template).render(shown), status, HEADERS)
