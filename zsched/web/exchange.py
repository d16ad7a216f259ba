"""
Layers that every request and its answer pass: an id for both, a line in the server's log for a change, and HEAD as a
GET without its body.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zsched.core.clock import Clock
from zsched.web.access import READS

log = structlog.get_logger(__name__)

REQUEST_ID: Final = "X-Request-Id"
_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


class Identified:
    """
    Gives each request an id, that of its header if it is well-formed. Its answer and all lines of the server's log that
    it causes have it. A change leaves a line itself: the account, the path and the status. The answer to a request that
    was answered before (``conditions``) is marked.
    """

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app, self._clock = app, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given, began_ms = Headers(scope=scope).get(REQUEST_ID, ""), self._clock.monotonic_ms()
        id = given if _ID.fullmatch(given) else uuid4().hex
        structlog.contextvars.bind_contextvars(request_id=id)  # of this request's asyncio task

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers, state, status = MutableHeaders(scope=message), scope.get("state", {}), message["status"]
                headers[REQUEST_ID] = id
                if state.get("is_replay") and status < 400:
                    headers["Idempotency-Replayed"] = "true"
                if scope["method"] not in READS:
                    took = {"status": status, "ms": round(self._clock.monotonic_ms() - began_ms, 1)}
                    log.info("change_answered", by=state.get("by"), method=scope["method"], path=scope["path"], **took)
            await send(message)

        await self._app(scope, receive, sending)


class WithHead:
    """Answers HEAD as GET without its body; that ends a stream, too, as its caller seems to be gone then."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            await send(message if message["type"] == "http.response.start" else {"type": "http.response.body"})

        await self._app({**scope, "method": "GET"}, receive, sending)
