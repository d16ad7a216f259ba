"""
``/login`` and ``/logout``: people log in on a small page without scripts.

A person pastes a token once. Their session is a signed cookie (``accounts``) that no script reads (HttpOnly) and that
no other site's page sends (SameSite=Strict). It ends with the token, and after its hours. Logging out takes it from
this browser.
"""

import re
from typing import Final
from urllib.parse import urlencode, urlsplit

import structlog
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from zsched.web.access import COOKIE, Access, Caller, Proxy, demand_own_origin
from zsched.web.answers import Problem, html_page
from zsched.web.reading import read_form
from zsched.web.rq import is_for

log = structlog.get_logger(__name__)
router = APIRouter(include_in_schema=False)

PATH: Final = "/login"
HOME: Final = "/"
_SEE_OTHER: Final = 303
# One slash, then no second one and no backslash, which browsers read as one; they drop control characters.
_LOCAL: Final = re.compile(r"/(?!/)[^\\\x00-\x20\x7f]*")


@router.get(PATH)
async def page(request: Request, next: str = "") -> Response:
    """Show the form, or who is logged in."""
    caller = _caller(request)
    if caller is not None and next:
        return RedirectResponse(local_path(next), _SEE_OTHER)
    shown = {"account": caller.account, "sees_rq": is_for(caller)} if caller else {"account": None}
    has_session = COOKIE in request.cookies
    return html_page("login.html", next=local_path(next), has_session=has_session, is_refused=False, **shown)


@router.post(PATH)
async def log_in(request: Request) -> Response:
    """Begin a session, and continue to `next`."""
    demand_own_origin(request)
    access: Access = request.app.state.access
    address = access.proxy.address(request)
    form = await read_form(request)
    next = local_path(form.get("next", ""))
    if (cookie := access.log_in(form.get("token", "").strip(), address)) is None:
        return html_page("login.html", 401, next=next, account=None, is_refused=True)
    answer = RedirectResponse(next, _SEE_OTHER)
    answer.set_cookie(COOKIE, cookie, **access.proxy.cookie(request))
    return answer


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """Take the session from this browser."""
    demand_own_origin(request)
    proxy: Proxy = request.app.state.access.proxy
    if (caller := _caller(request)) is not None:
        log.info("logged_out", name=caller.account.name, address=proxy.address(request))
    answer = RedirectResponse(PATH, _SEE_OTHER)
    answer.delete_cookie(COOKIE, **proxy.cookie(request))
    return answer


def is_page(request: Request) -> bool:
    """Return True if a browser asks for a page, and not for an answer of the API."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")


def to_login(request: Request) -> Response:
    """Send the browser to the form, and back to its page from there; from a change to the page that asked for it."""
    wanted = request.scope["raw_path"].decode("ascii", "replace")
    wanted += f"?{request.url.query}" if request.url.query else ""
    if request.method != "GET":
        wanted = urlsplit(request.headers.get("referer", ""))._replace(scheme="", netloc="").geturl()
    return RedirectResponse(f"{PATH}?{urlencode({'next': wanted})}", _SEE_OTHER)


def local_path(next: str) -> str:
    """Return *next* if it is a path of this server, else that of the first page: no redirects to other sites."""
    return next if _LOCAL.fullmatch(next) else HOME


def _caller(request: Request) -> Caller | None:
    access: Access = request.app.state.access
    try:
        return access.caller(request)
    except Problem as problem:
        if problem.status != 401:
            raise
        return None
