"""
The caller of a request and their rights: a bearer token, its role and its limits.

A limit is checked on the schedule as it is and as it will be. Between that look and the change somebody may replace the
schedule, so the change of a limited token names the version that was looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

from zsched.aio.bridge import run
from zsched.aio.client import AsyncClient
from zsched.client.allowed import check_allowed
from zsched.config import Settings
from zsched.core.clock import Clock
from zsched.core.model import Schedule
from zsched.storage.refusals import NO_VERSION
from zsched.storage.tokens import Token, TokenRole, Tokens, digest_of
from zsched.web.problems import Problem

_KEPT_MS: Final = 500.0  # a token is looked up so often; a revoked one ends within that time
_REMEMBERED: Final = 1000
_SLOWED_S: Final = 0.5  # after a wrong token
_SLOWED_AT_ONCE: Final = 100  # callers that wait for that; more are refused at once
_WRITES_REFUSED: Final = "[rq] allow_callables is *: any function of the workers' machine could be named"


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller, and the client that acts under their name."""

    token: Token
    client: AsyncClient
    settings: Settings

    @property
    def is_limited(self) -> bool:
        """Return True if the token's limits leave out schedules."""
        return not self.token.limits.are_none

    def demand_write(self) -> None:
        """Check that this caller may change something. Raises Problem."""
        if self.token.role is TokenRole.VIEWER:
            raise Problem(403, "read-only", f"token {self.token.name!r} only reads", "use one of a scheduler")
        if "*" in self.settings.rq.allow_callables:
            remedy = 'name the functions: [rq] allow_callables = ["app.tasks.*"]'
            raise Problem(403, "writes-refused", _WRITES_REFUSED, remedy)

    def demand(self, schedule: Schedule) -> None:
        """Check that *schedule*, as it is, is within the limits. Raises Problem."""
        self.demand_within(schedule.func, schedule.queue, schedule.tags)

    def demand_within(self, func: str, queue: str, tags: Sequence[str]) -> None:
        """Check that a schedule with these options is within the limits. Raises Problem."""
        if (found := self.token.limits.refusal(func, queue, tags)) is not None:
            option, value, patterns = found
            detail = f"token {self.token.name!r} is limited to {option} {', '.join(patterns)}"
            raise Problem(403, "outside-limits", detail, "use another token", option=option, value=value)

    def demand_new(self, func: Any, options: Mapping[str, Any]) -> None:
        """Check a schedule as it will be: its functions, and the limits. Raises Problem, InvalidSchedule."""
        check_allowed(self.settings.rq.allow_callables, func if isinstance(func, str) else None, options)
        if self.is_limited:
            tags = options.get("tags") or ()
            self.demand_within(str(func), str(options.get("queue", "default")), [str(tag) for tag in tags])

    def guarded(self, options: dict[str, Any], present: Schedule | None) -> dict[str, Any]:
        """
        Return the options of a put that replaces *present*, or creates a schedule; *options* themselves if they replace
        nothing else anyhow. Raises Problem: *present* is outside of the limits.
        """
        if present is not None:
            self.demand(present)
        if options.get("if_version") is not None or options.get("if_exists") in ("error", "keep"):
            return options
        if present is None:
            return {**options, "if_exists": "error"}
        return {**options, "if_version": present.version or NO_VERSION}

    def demand_all(self, what: str) -> None:
        """Check that the token has no limits, for what names no single schedule. Raises Problem."""
        if self.is_limited:
            detail = f"token {self.token.name!r} is limited, and {what} is of all schedules"
            raise Problem(403, "outside-limits", detail, "name single schedules, or use a token without limits")

    def sees(self, schedule: Schedule) -> bool:
        """Return True if a listing shows *schedule* to this caller."""
        return self.token.limits.refusal(schedule.func, schedule.queue, schedule.tags) is None

    def sees_queue(self, queue: str) -> bool:
        """Return True if schedules of *queue* may be within the limits."""
        return self.token.limits.has_queue(queue)

    def shown(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return *found*, of a schedule or run, without what needs the right to see arguments."""
        if self.token.sees_arguments:
            return found
        hidden = dict.fromkeys(name for name in ("args", "kwargs") if name in found)
        attempts = [{**each, "traceback": None} for each in found.get("attempts", ())]
        return found | hidden | ({"attempts": attempts} if attempts else {})


class Access:
    """Finds the caller of a request."""

    def __init__(self, client: AsyncClient, tokens: Tokens, settings: Settings, clock: Clock) -> None:
        self._client, self._tokens, self._settings, self._clock = client, tokens, settings, clock
        self._known: dict[str, tuple[float, Caller]] = {}  # by digest: until when, in ms
        self._slowed = 0

    async def caller(self, request: Request) -> Caller:
        """Return the caller of *request*. Raises Problem."""
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            remedy = "send Authorization: Bearer zs_…; zsched tokens add makes a token"
            raise Problem(401, "no-token", "the request has no token", remedy)
        digest, now_ms = digest_of(secret.strip()), self._clock.monotonic_ms()
        until_ms, caller = self._known.get(digest, (0.0, None))
        if caller is None or until_ms <= now_ms:
            caller = await self._looked_up(digest)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[digest] = now_ms + _KEPT_MS, caller
        return caller

    async def _looked_up(self, digest: str) -> Caller:
        token = await run(self._tokens.find, digest, self._clock.now_ms())
        if token is None:
            self._known.pop(digest, None)
            await self._slow_down()
            remedy = "zsched tokens list shows the tokens; make another by zsched tokens add"
            raise Problem(401, "wrong-token", "the token is unknown, revoked or has expired", remedy)
        return Caller(token, self._client.acting_as(token.name), self._settings)

    async def _slow_down(self) -> None:
        if self._slowed < _SLOWED_AT_ONCE:
            self._slowed += 1
            try:
                await asyncio.sleep(_SLOWED_S)
            finally:
                self._slowed -= 1
