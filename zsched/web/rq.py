"""
``/rq``: rq-dashboard of the extra ``dashboard``, for callers who may see everything: it shows all jobs with their
arguments and results.
"""

from importlib.util import find_spec
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from zsched.storage.connection import Link
from zsched.web.access import Access, Caller

PATH: Final = "/rq"
IS_INSTALLED: Final = find_spec("rq_dashboard") is not None
_THREADS: Final = 8  # a browser sends six requests at once, and there are few users
_NAME: Final = "rq-dashboard"


def add_pages(app: Starlette, access: Access, link: Link) -> None:
    """Serve the pages of the Redis of *link*, or the name of the extra that is missing."""
    if not IS_INSTALLED:
        missing = "this needs rq-dashboard: pip install 'zsched[dashboard]'\n"
        app.mount(PATH, Response(missing, 404, media_type="text/plain"))
        return
    from zsched.dashboard.app import make_pages

    app.add_route(PATH, _to_pages, include_in_schema=False)
    app.mount(PATH, RqPages(access, make_pages(link)))


def is_for(caller: Caller) -> bool:
    """Return True if the pages are there, and *caller* may see them."""
    return IS_INSTALLED and caller.account.sees_arguments and not caller.is_limited


async def _to_pages(_: Request) -> Response:
    """Redirect from the path without a slash. The address is relative: it needs no host that the client names."""
    return RedirectResponse(f"{PATH}/")


class RqPages:
    """The pages of a WSGI application, behind the right to see arguments."""

    def __init__(self, access: Access, pages: Any) -> None:
        from a2wsgi import WSGIMiddleware

        self._access = access
        self._pages: ASGIApp = WSGIMiddleware(pages, workers=_THREADS)  # type: ignore[assignment]  # types of its own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            caller = self._access.caller(Request(scope))
            caller.demand_all(_NAME)
            caller.demand_arguments(_NAME)
        await self._pages(scope, receive, send)
