"""
``/rq``: rq-dashboard of the extra ``dashboard``, for callers who may see everything: it shows all jobs with their
arguments and results.
"""

from importlib.util import find_spec
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

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
    from a2wsgi import WSGIMiddleware

    from zsched.dashboard.app import make_pages

    pages: Any = WSGIMiddleware(make_pages(link), workers=_THREADS)  # type: ignore[arg-type]  # types of its own

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the pages, behind the right to see arguments."""
        if scope["type"] == "http":
            caller = access.caller(Request(scope))
            caller.demand_all(_NAME)
            caller.demand_arguments(_NAME)
        await pages(scope, receive, send)

    # Relative, so that it needs no host that the client names.
    app.add_route(PATH, lambda _: RedirectResponse(f"{PATH}/"), include_in_schema=False)
    app.mount(PATH, guarded)


def is_for(caller: Caller) -> bool:
    """Return True if the pages are there, and *caller* may see them."""
    return IS_INSTALLED and caller.account.sees_arguments and not caller.is_limited
