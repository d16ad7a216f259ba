"""
Layers around the application, which every request and its answer pass: HEAD as a GET without its body, paths that no
route may get, the time limit of a read, and the record of each answer: an id, a count, and a line in the server's log
for a change.

A read that takes too long ends, and its connection to Redis is free for others. A change is never ended: nobody would
know what became of it.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zsched.core.clock import Clock
from zsched.errors import show
from zsched.metrics.web_meter import WebMeter
from zsched.web.access import READS
from zsched.web.answers import Problem

log = structlog.get_logger(__name__)

PROBES: Final = ("/healthz", "/readyz", "/metrics")  # not counted: each asks many times a minute, and nobody waits
READ_S: Final = 60.0
REQUEST_ID: Final = "X-Request-Id"
_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


class Passing:
    """Passes requests on to *app*; a subclass changes how. What is not a request of HTTP passes unchanged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await (self._answer if scope["type"] == "http" else self._app)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def telling(send: Send, begin: Callable[[Message], None]) -> Send:
    """Return *send*, with *begin* called before an answer begins, with its status and headers."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            begin(message)
        await send(message)

    return sending


class WithHead(Passing):
    """Answers HEAD as GET without its body; that ends a stream, too, as its caller seems to be gone then."""

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            await send(message if message["type"] == "http.response.start" else {"type": "http.response.body"})

        is_head = scope["method"] == "HEAD"
        await self._app({**scope, "method": "GET"} if is_head else scope, receive, sending if is_head else send)


class PrintablePaths(Passing):
    """
    Refuses paths with control characters: the pattern of a route would ignore a line end behind it, and proxies may
    read such a path in another way.
    """

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app
        if not scope["path"].isprintable():
            detail = f"no such path: {show(scope['path'])}"
            answer = Problem(404, "not-found", detail, "see /api/docs for the routes").response()
        await answer(scope, receive, send)


class Deadline(Passing):
    """
    Ends a read below *prefix* that has not begun to answer within *read_s*. A change is not ended: nobody would know
    what became of it. Neither is a stream.
    """

    def __init__(self, app: ASGIApp, prefix: str, read_s: float = READ_S) -> None:
        super().__init__(app)
        self._prefix, self._read_s = prefix, read_s

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_bounded = scope["method"] in READS and scope["path"].startswith(self._prefix)
        limit = asyncio.timeout(self._read_s if is_bounded else None)
        try:
            async with limit:
                await self._app(scope, receive, telling(send, lambda _: limit.reschedule(None)))
        except TimeoutError:
            if not limit.expired():
                raise
            detail, remedy = f"no answer within {self._read_s:g} s", "narrow the filters"
            await Problem(503, "too-long", detail, remedy).response()(scope, receive, send)


class Recorded(Passing):
    """
    Gives each request an id, that of its header if it is well-formed. Its answer and all lines of the server's log that
    it causes have it. A change leaves a line itself: the account, the path and the status. The answer to a request that
    was answered before (``calls``) is marked. *meter* counts the answers. *prefix*: that of the routes of the API.
    """

    def __init__(self, app: ASGIApp, meter: WebMeter, clock: Clock, prefix: str) -> None:
        super().__init__(app)
        self._meter, self._clock, self._prefix = meter, clock, prefix

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. An exception before the answer counts as status 500, which an outer layer makes of it."""
        given, began_ms, has_begun = Headers(scope=scope).get(REQUEST_ID, ""), self._clock.monotonic_ms(), False
        id = given if _ID.fullmatch(given) else uuid4().hex
        structlog.contextvars.bind_contextvars(request_id=id)  # of this request's asyncio task

        def count(status: int) -> float:
            took_ms = self._clock.monotonic_ms() - began_ms
            if scope["path"] not in PROBES:
                self._meter.answered(self._template(scope), scope["method"], status, took_ms)
            return took_ms

        def begin(message: Message) -> None:
            nonlocal has_begun
            has_begun, status, state = True, message["status"], scope.get("state", {})
            headers, took_ms = MutableHeaders(scope=message), count(status)
            headers[REQUEST_ID] = id
            if state.get("is_replay") and status < 400:
                headers["Idempotency-Replayed"] = "true"
            if scope["method"] not in READS:
                told = {"by": state.get("by"), "method": scope["method"], "path": scope["path"], "status": status}
                log.info("change_answered", **told, ms=round(took_ms, 1))

        try:
            await self._app(scope, receive, telling(send, begin))
        except Exception:
            if not has_begun:
                count(500)
            raise

    def _template(self, scope: Scope) -> str | None:
        """Return the template of the route that FastAPI found; new versions leave out the prefix of its router."""
        path: str | None = getattr(scope.get("route"), "path_format", None)
        if path is None or path.startswith(self._prefix) or not scope["path"].startswith(self._prefix):
            return path
        return self._prefix + path
