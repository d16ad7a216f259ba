"""The time limit of a read: a search that takes too long ends, and its connection to Redis is free for others."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zsched.web.problems import Problem

READ_S: Final = 60.0
_READS: Final = frozenset({"GET", "HEAD"})


class Deadline:
    """
    Passes requests on to *app*, and ends a read below *prefix* that has not begun to answer within *read_s*. A change
    is not ended: nobody would know what became of it. Neither is a stream.
    """

    def __init__(self, app: ASGIApp, prefix: str, read_s: float = READ_S) -> None:
        self._app, self._prefix, self._read_s = app, prefix, read_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] not in _READS or not scope["path"].startswith(self._prefix):
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
            detail, remedy = f"the answer was not there after {self._read_s:g} s", "narrow the filters"
            await Problem(503, "too-long", detail, remedy).response()(scope, receive, send)
