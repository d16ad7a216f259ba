"""
The caller of a request and their rights: an account with its role and its limits.

An account is that of a bearer token, or of a person: by the session of their login, else as a trusted proxy says. A
browser sends the cookie of a session, and a proxy its header, also with a request that another site's page made. So a
write needs the Origin of this server then.

A limit is checked on the schedule as it is and as it will be. Between that look and the change somebody may replace the
schedule, so the change of a limited caller names the version that was looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from starlette.requests import Request

from zsched.aio.bridge import run
from zsched.aio.client import AsyncClient
from zsched.client.allowed import check_allowed, functions_named
from zsched.client.preview import demand_apart
from zsched.config.settings import Settings
from zsched.core.clock import LAST_MS, Clock, SystemClock
from zsched.core.model import Schedule
from zsched.core.options.allowed import LimitedBy
from zsched.core.options.arguments import check_tags
from zsched.storage.accounts import Account, AccountRole
from zsched.storage.people import People
from zsched.storage.refusals import NO_VERSION
from zsched.storage.tokens import Tokens, digest_of
from zsched.web.brake import Brake
from zsched.web.problems import Problem
from zsched.web.proxy import Proxy

log = structlog.get_logger(__name__)

COOKIE: Final = "zsched_session"

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MS_PER_HOUR: Final = 3_600_000
_KEPT_MS: Final = 500.0  # an account is looked up so often; a revoked token or a removed person ends within that time
_REMEMBERED: Final = 1000
_LOOKS_AT_ONCE: Final = 10  # for accounts; each takes a connection to Redis
_CHECKED_AT_ONCE: Final = 1  # passwords: a flood of logins keeps one processor busy, and 32 MiB
_WRITES_REFUSED: Final = (
    'changes are refused while [rq] allow_callables is ["*"]: any function of the workers\' machine could be named'
)

AccountFinder = Callable[[str, int], Account | None]  # by the digest of a secret, at an instant


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller, and the client that acts under their name."""

    account: Account
    client: AsyncClient
    settings: Settings

    @property
    def is_limited(self) -> bool:
        """Return True if the limits leave out schedules."""
        return not self.account.limits.are_none

    @property
    def refusal_of_writes(self) -> Problem | None:
        """The reason why this caller may change nothing; None: they may."""
        if self.account.role is AccountRole.VIEWER:
            remedy = "use the token or the login of a scheduler"
            return Problem(403, "read-only", f"{self.account.name!r} is a viewer, who only reads", remedy)
        return self.refusal_of_all_writes

    @property
    def refusal_of_all_writes(self) -> Problem | None:
        """The reason why nobody may change something here; None: there is none."""
        if "*" in self.settings.rq.allow_callables:
            remedy = 'name the functions: [rq] allow_callables = ["app.tasks.*"]'
            return Problem(403, "writes-refused", _WRITES_REFUSED, remedy)
        return None

    def demand_write(self) -> None:
        """Check that this caller may change something. Raises Problem."""
        if (refusal := self.refusal_of_writes) is not None:
            raise refusal

    def demand_new(self, func: Any, options: Mapping[str, Any]) -> None:
        """Check a schedule as it will be: its functions, and the limits. Raises Problem, InvalidSchedule."""
        check_allowed(self.settings.rq.allow_callables, func if isinstance(func, str) else None, options)
        if not self.is_limited:
            return
        queue, tags = options.get("queue"), check_tags(options.get("tags") or ())
        limited_by = LimitedBy(functions_named(func, options), "default" if queue is None else str(queue), tags)
        if (found := self.account.limits.refusal(limited_by)) is not None:
            option, value, patterns = found
            detail = f"{self.account.name!r} is limited to {option} {', '.join(patterns)}"
            raise Problem(403, "outside-limits", detail, "use another token or login", option=option, value=value)
        demand_apart(options, self.settings.web.least_every_s, SystemClock().now_ms())

    def guarded(self, options: dict[str, Any], present: Schedule | None) -> dict[str, Any]:
        """
        Return the options of a put that replaces *present*, or creates a schedule; *options* themselves if they replace
        nothing else anyhow. Raises Problem: *present* is outside of the limits.
        """
        if present is not None and not self.sees(present):
            detail = f"schedule {present.id!r} is beyond the limits of {self.account.name!r}"
            raise Problem(403, "outside-limits", detail, "give another id, or use another token or login")
        if options.get("if_version") is not None or options.get("if_exists") in ("error", "keep"):
            return options
        if present is None:
            return {**options, "if_exists": "error"}
        return {**options, "if_version": present.version or NO_VERSION}

    def demand_all(self, what: str) -> None:
        """Check that this caller has no limits, for what names no single schedule. Raises Problem."""
        if self.is_limited:
            detail = f"{self.account.name!r} is limited, and {what} may be of any schedule"
            raise Problem(403, "outside-limits", detail, "name single schedules, or use a token without limits")

    def demand_arguments(self, what: str) -> None:
        """Check that this caller may see arguments, results and tracebacks, which are in *what*. Raises Problem."""
        if not self.account.sees_arguments:
            detail = f"{self.account.name!r} may not see arguments, and {what} has them"
            raise Problem(403, "arguments-hidden", detail, "use a token or a login that was made with --arguments")

    def sees(self, schedule: Schedule) -> bool:
        """Return True if a listing shows *schedule* to this caller."""
        return self.account.limits.refusal(schedule.limited_by) is None

    def own(self, schedule: Schedule) -> Schedule:
        """Return *schedule*; to a limited caller without creation, last run and pause of before its put."""
        put_ms = (schedule.updated_ms or LAST_MS) if self.is_limited else 0
        created_ms = schedule.created_ms if (schedule.created_ms or 0) >= put_ms else None
        last_run_id = schedule.last_run_id if (schedule.last_nominal_ms or 0) >= put_ms else None
        found = replace(schedule, created_ms=created_ms, last_run_id=last_run_id)
        is_older = (schedule.since_ms or put_ms) < put_ms - 1  # a version is of the millisecond before a pause
        return replace(found, note=None, paused_by=None, since_ms=None) if is_older else found

    def sees_queue(self, queue: str) -> bool:
        """Return True if schedules of *queue* may be within the limits."""
        return self.account.limits.has_queue(queue)

    def shown(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return *found*, of a schedule or run, without what needs the right to see arguments."""
        if self.account.sees_arguments:
            return found
        hidden = dict.fromkeys(name for name in ("args", "kwargs") if name in found)
        attempts = [{**each, "traceback": None} for each in found.get("attempts", ())]
        return found | hidden | ({"attempts": attempts} if attempts else {})


class Access:
    """Finds the caller of a request, and logs people in and out."""

    def __init__(
        self, client: AsyncClient, tokens: Tokens, people: People, proxy: Proxy, settings: Settings, clock: Clock
    ) -> None:
        self._client, self._people, self.proxy = client, people, proxy
        self._settings, self._clock = settings, clock
        self._finders: dict[str, AccountFinder] = {"token": tokens.find, "session": people.of_session}
        self._known: dict[tuple[str, str], tuple[float, Caller]] = {}  # by finder and digest: until when, in ms
        self._checked = asyncio.Semaphore(_CHECKED_AT_ONCE)
        self._asked: dict[tuple[str, str], asyncio.Future[Account | None]] = {}  # look-ups that are under way
        self._looks = asyncio.Semaphore(_LOOKS_AT_ONCE)
        self._brake = Brake(clock)

    async def caller(self, request: Request) -> Caller:
        """Return the caller of *request*. Raises Problem."""
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and secret.strip():
            return await self._of_token(secret.strip())
        cookie = request.cookies.get(COOKIE)
        caller = await self._found("session", cookie) if cookie else None
        if caller is None and (account := self.proxy.account(request)) is not None:
            caller = self._acting(account)
        if caller is None:
            remedy = "send Authorization: Bearer zs_…; zsched tokens add makes a token. People log in at /login"
            raise Problem(401, "no-token", "the request has no token, and no session of a login", remedy)
        if request.method not in _READS:
            demand_own_origin(request)
        return caller

    async def log_in(self, name: str, password: str, address: str) -> str | None:
        """
        Return the secret of a new session; None: name or password is wrong, which is logged.

        Raises:
            Problem: too many wrong attempts from this address or on this account.
        """
        wait_s = self._brake.begin(address, name)
        async with self._checked:
            person = await run(self._people.admitted, name, password, self._clock.now_ms())
        if person is None:  # what is no name may be a password, in the wrong field
            known = name if await run(self._people.knows, name) else None
            log.warning("login_refused", address=address, name=known, wait_s=wait_s)
            return None
        self._brake.forgive(address, name)
        return await run(self._people.begin_session, person, self._settings.web.session_hours * _MS_PER_HOUR)

    async def log_out(self, secret: str) -> None:
        """End the session of *secret*, if it has not ended."""
        digest = digest_of(secret)
        self._known.pop(("session", digest), None)
        await run(self._people.end_session, digest)

    async def _of_token(self, secret: str) -> Caller:
        if (caller := await self._found("token", secret)) is None:
            remedy = "zsched tokens list shows the tokens; make another by zsched tokens add"
            raise Problem(401, "wrong-token", "the token is unknown, revoked or has expired", remedy)
        return caller

    async def _found(self, kind: str, secret: str) -> Caller | None:
        """Return the caller whom the finder *kind* knows by *secret*, as it was in the last half second."""
        known, now_ms = (kind, digest_of(secret)), self._clock.monotonic_ms()
        until_ms, caller = self._known.get(known, (0.0, None))
        if caller is not None and now_ms < until_ms:
            return caller
        if (asked := self._asked.get(known)) is None:  # else many requests at once would each ask Redis
            asked = self._asked[known] = asyncio.ensure_future(self._looked_up(*known))
            asked.add_done_callback(lambda _: self._asked.pop(known, None))
        if (account := await asyncio.shield(asked)) is None:
            self._known.pop(known, None)
            return None
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        caller = self._acting(account)
        self._known[known] = now_ms + _KEPT_MS, caller
        return caller

    def _acting(self, account: Account) -> Caller:
        return Caller(account, self._client.acting_as(account.name, account.limits), self._settings)

    async def _looked_up(self, kind: str, digest: str) -> Account | None:
        async with self._looks:
            return await run(self._finders[kind], digest, self._clock.now_ms())


def demand_own_origin(request: Request) -> None:
    """Check that *request* comes from a page of this server. Raises Problem."""
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    try:
        is_own = urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:  # no URL
        is_own = False
    if not is_own:
        detail = f"a change from a browser came with Origin {origin[:100] or '-'}, and Host {host[:100] or '-'}"
        remedy = "send the Origin of this server; a proxy has to pass Host on as it came. Programs use a token"
        raise Problem(403, "cross-origin", detail, remedy)
