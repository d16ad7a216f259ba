"""``/rq``: rq-dashboard, for callers who may see everything: it shows all jobs with their arguments and results."""

from __future__ import annotations

from typing import Any, Final

from a2wsgi import WSGIMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from zsched.web.access import Access

PATH: Final = "/rq"
_THREADS: Final = 8  # a browser sends six requests at once, and there are few users
_NAME: Final = "rq-dashboard"


async def to_pages(_: Request) -> Response:
    """Redirect from the path without a slash. The address is relative: it needs no host that the client names."""
    return RedirectResponse(f"{PATH}/")


class RqPages:
    """The pages of a WSGI application, behind the right to see arguments."""

    def __init__(self, access: Access, pages: Any) -> None:
        self._access = access
        self._pages: ASGIApp = WSGIMiddleware(pages, workers=_THREADS)  # type: ignore[assignment]  # types of its own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            caller = self._access.caller(Request(scope))
            caller.demand_all(_NAME)
            caller.demand_arguments(_NAME)
        await self._pages(scope, receive, send)
