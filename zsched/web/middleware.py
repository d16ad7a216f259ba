"""
Layers around the application: paths that no route may get, the time limit of a read, and the count of answers.

A read that takes too long ends, and its connection to Redis is free for others. A change is never ended: nobody would
know what became of it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zsched.core.clock import Clock
from zsched.errors import show
from zsched.metrics.web_meter import WebMeter
from zsched.web.access import READS
from zsched.web.problems import Problem

PROBES: Final = ("/healthz", "/readyz", "/metrics")  # not counted: each asks many times a minute, and nobody waits
READ_S: Final = 60.0


class PrintablePaths:
    """
    Refuses paths with control characters: the pattern of a route would ignore a line end behind it, and proxies may
    read such a path in another way.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope["path"].isprintable():
            problem = Problem(404, "not-found", f"no such path: {show(scope['path'])}", "see /api/docs for the routes")
            await problem.response()(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class Deadline:
    """
    Passes requests on to *app*, and ends a read below *prefix* that has not begun to answer within *read_s*. A change
    is not ended: nobody would know what became of it. Neither is a stream.
    """

    def __init__(self, app: ASGIApp, prefix: str, read_s: float = READ_S) -> None:
        self._app, self._prefix, self._read_s = app, prefix, read_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] not in READS or not scope["path"].startswith(self._prefix):
            await self._app(scope, receive, send)
            return

        limit = asyncio.timeout(self._read_s)

        async def passing(message: Message) -> None:
            limit.reschedule(None)
            await send(message)

        try:
            async with limit:
                await self._app(scope, receive, passing)
        except TimeoutError:
            if not limit.expired():
                raise
            detail, remedy = f"no answer within {self._read_s:g} s", "narrow the filters"
            await Problem(503, "too-long", detail, remedy).response()(scope, receive, send)


class Measured:
    """Passes requests on to *app*, and counts the answers in *meter*. *prefix*: that of the routes of the API."""

    def __init__(self, app: ASGIApp, meter: WebMeter, clock: Clock, prefix: str) -> None:
        self._app, self._meter, self._clock, self._prefix = app, meter, clock, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. An exception before the answer counts as status 500, which an outer layer makes of it."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        began_ms, has_begun = self._clock.monotonic_ms(), False

        def note(status: int) -> None:
            nonlocal has_begun
            has_begun = True
            took_ms = self._clock.monotonic_ms() - began_ms
            self._meter.answered(self._template(scope), scope["method"], status, took_ms)

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                note(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception:
            if not has_begun:
                note(500)
            raise

    def _template(self, scope: Scope) -> str | None:
        """Return the template of the route that FastAPI found; new versions leave out the prefix of its router."""
        path: str | None = getattr(scope.get("route"), "path_format", None)
        if path is None or path.startswith(self._prefix) or not scope["path"].startswith(self._prefix):
            return path
        return self._prefix + path
