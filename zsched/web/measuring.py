"""Counting requests: an ASGI middleware that notes the route, the status and the time of each answer."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zsched.core.clock import Clock
from zsched.metrics.web_meter import WebMeter

PROBES: Final = ("/healthz", "/readyz", "/metrics")  # not counted: each asks many times a minute, and nobody waits


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
