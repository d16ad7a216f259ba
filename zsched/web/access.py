"""
The caller of a request and their rights: an account with its role and its limits.

An account is that of a token, which a program sends with each request, and a person pastes once to begin a session.
Else a trusted proxy names a person. A browser sends the cookie of a session, and a proxy its header, also with a
request that another site's page made. So a write needs the Origin of this server then.

A limit is checked on the schedule as it is and as it will be. Between that look and the change somebody may replace the
schedule, so the change of a limited caller names the version that was looked at.

Wrong logins are braked: each of an address doubles the wait for its next. Other addresses continue at once. Wrong
tokens of programs have no brake: nobody guesses 256 random bits.

The headers of a proxy count only from the addresses of [web] proxy_addresses; from others they count as absent. Whether
they are from there is decided by the address of the connection, never by that of a header.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final

import structlog
from starlette.requests import Request

from zsched.aio.client import AsyncClient
from zsched.client.preview import demand_apart
from zsched.client.put_checks import check_allowed, functions_named
from zsched.config.settings import Settings
from zsched.core.clock import LAST_MS, Clock, SystemClock
from zsched.core.model import Schedule
from zsched.core.options.allowed import LimitedBy
from zsched.core.options.arguments import check_by, check_tags
from zsched.errors import ConfigError, InvalidSchedule, show
from zsched.storage.refusals import NO_VERSION
from zsched.web.accounts import Account, AccountRole, Accounts, digest_of
from zsched.web.accounts_file import AccountsFile
from zsched.web.answers import Problem

log = structlog.get_logger(__name__)

COOKIE: Final = "zsched_session"
READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FREE: Final = 9.5  # attempts of an address without a wait, as parts of attempts are forgotten
_FORGOTTEN_S: Final = 300  # in which one attempt is forgotten; so no wait is longer
_REMEMBERED: Final = 10_000  # addresses, of some 300 bytes
_WRITES_REFUSED: Final = 'changes are refused while [rq] allow_callables is ["*"], which names any function'


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller, and the client that acts under their name."""

    account: Account
    client: AsyncClient
    settings: Settings

    @property
    def is_limited(self) -> bool:
        """Return True if the limits leave out schedules."""
        return any(self.account.limits)

    @property
    def refusal_of_writes(self) -> Problem | None:
        """The reason why this caller may change nothing; None: they may."""
        if self.account.role is AccountRole.VIEWER:
            remedy = "use the token of a scheduler"
            return Problem(403, "read-only", f"{self.account.name!r} is a viewer, who only reads", remedy)
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
            raise Problem(403, "outside-limits", detail, "use another token", option=option, value=value)
        demand_apart(options, self.settings.web.least_every_s, SystemClock().now_ms())

    def guarded(self, options: dict[str, Any], present: Schedule | None) -> dict[str, Any]:
        """
        Return the options of a put that replaces *present*, or creates a schedule; *options* themselves if they replace
        nothing else anyhow. Raises Problem: *present* is outside of the limits.
        """
        if present is not None and self.account.limits.refusal(present.limited_by) is not None:
            detail = f"schedule {present.id!r} is beyond the limits of {self.account.name!r}"
            raise Problem(403, "outside-limits", detail, "give another id, or use another token")
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
            raise Problem(403, "arguments-hidden", detail, "use a token that was made with --arguments")

    def own(self, schedule: Schedule) -> Schedule:
        """Return *schedule*; to a limited caller without creation, last run and pause of before its put."""
        put_ms = (schedule.updated_ms or LAST_MS) if self.is_limited else 0
        created_ms = schedule.created_ms if (schedule.created_ms or 0) >= put_ms else None
        last_run_id = schedule.last_run_id if (schedule.last_nominal_ms or 0) >= put_ms else None
        found = replace(schedule, created_ms=created_ms, last_run_id=last_run_id)
        is_older = (schedule.since_ms or put_ms) < put_ms - 1  # a version is of the millisecond before a pause
        return replace(found, note=None, paused_by=None, resumes_ms=None, since_ms=None) if is_older else found

    def shown(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return *found*, of a schedule or run, without what needs the right to see arguments."""
        if self.account.sees_arguments:
            return found
        hidden = dict.fromkeys(name for name in ("args", "kwargs") if name in found)
        attempts = [{**each, "traceback": None} for each in found.get("attempts", ())]
        return found | hidden | ({"attempts": attempts} if attempts else {})


class Access:
    """Finds the caller of a request, and begins sessions of people."""

    def __init__(self, client: AsyncClient, file: AccountsFile, proxy: Proxy, settings: Settings, clock: Clock) -> None:
        self._client, self._file, self.proxy = client, file, proxy
        self._settings, self._clock = settings, clock
        self._problem, self._brake = "", Brake(clock)
        self._acting = lru_cache(self._acting_as)  # of the accounts that ask most
        self._known()  # says if there are none

    def caller(self, request: Request) -> Caller:
        """Return the caller of *request*. Raises Problem."""
        found = self._caller(request)
        request.state.by = found.account.name
        return found

    def _caller(self, request: Request) -> Caller:
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and secret.strip():
            if (caller := self._found(digest_of(secret.strip()))) is None:
                remedy = "zsched tokens list shows the tokens; make another by zsched tokens add"
                raise Problem(401, "wrong-token", "the token is unknown, revoked or has expired", remedy)
            return caller
        cookie = request.cookies.get(COOKIE)
        caller = self._found(self._known().digest_in(cookie, self._clock.now_ms())) if cookie else None
        if caller is None and (account := self.proxy.account(request)) is not None:
            caller = self._acting(account)
        if caller is None:
            remedy = "send Authorization: Bearer zs_…; zsched tokens add makes a token. People paste theirs at /login"
            raise Problem(401, "no-token", "the request has no token, and no session of a login", remedy)
        if request.method not in READS:
            demand_own_origin(request)
        return caller

    def log_in(self, secret: str, address: str) -> str | None:
        """
        Return the cookie of a new session by the token *secret*; None: it is wrong. Either is logged.

        Raises:
            Problem: too many wrong attempts from this address.
        """
        wait_s, digest, now_ms = self._brake.begin(address), digest_of(secret), self._clock.now_ms()
        if (caller := self._found(digest)) is None:
            log.warning("login_refused", address=address, wait_s=wait_s)
            return None
        self._brake.forgive(address)
        log.info("logged_in", name=caller.account.name, address=address)
        return self._known().cookie(digest, now_ms + self._settings.web.session_hours * 3_600_000)

    def _found(self, digest: str | None) -> Caller | None:
        """Return the caller whose token has this *digest*, and record the use."""
        now_ms = self._clock.now_ms()
        if digest is None or (account := self._known().find(digest, now_ms)) is None:
            return None
        self._file.note_use(digest, now_ms)
        return self._acting(account)

    def _known(self) -> Accounts:
        """Return the accounts of the file; those of before if it cannot be used now, which is logged."""
        accounts, problem = self._file.current(), self._file.problem
        if problem and problem != self._problem:
            log.warning("accounts_refused", problem=problem, accounts=len(accounts.by_digest))
        self._problem = problem
        return accounts

    def _acting_as(self, account: Account) -> Caller:
        return Caller(account, self._client.acting_as(account.name, account.limits), self._settings)


def demand_own_origin(request: Request) -> None:
    """Check that *request* comes from a page of this server. Raises Problem."""
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    if not host or origin.partition("://")[2].lower() != host.lower():
        detail = f"a change from a browser came with Origin {origin[:100] or '-'}, and Host {host[:100] or '-'}"
        remedy = "send the Origin of this server; a proxy has to pass Host unchanged. Programs use a token"
        raise Problem(403, "cross-origin", detail, remedy)


class Brake:
    """
    The attempts to log in that this process has seen. One counts when it begins; a right one is forgiven. IPv6
    addresses count by network: a client may have 2^64 of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, tuple[float, float]] = {}  # attempts, and the time of the last in seconds

    def begin(self, address: str) -> int:
        """Count an attempt, and return the seconds to wait after it if it is wrong. Raises Problem: it is too early."""
        now_s, place = self._clock.monotonic_ms() / 1000, _place(address)
        if (left_s := self._until_s(place) - now_s) > 0:
            wait = str(math.ceil(left_s))
            detail = f"too many wrong tokens from {address}"
            raise Problem(429, "too-many-attempts", detail, f"try again in {wait} s", {"Retry-After": wait})
        if len(self._counts) >= _REMEMBERED:
            self._counts.clear()
        number, at_s = self._counts.get(place, (0.0, now_s))
        self._counts[place] = max(number - (now_s - at_s) / _FORGOTTEN_S, 0) + 1, now_s
        return math.ceil(max(self._until_s(place) - now_s, 0))

    def forgive(self, address: str) -> None:
        """Take back an attempt that was right."""
        number, at_s = self._counts.get(_place(address), (1.0, 0.0))
        self._counts[_place(address)] = number - 1, at_s

    def _until_s(self, place: str) -> float:
        """Return the end of the wait that the attempts from *place* have caused."""
        number, at_s = self._counts.get(place, (0.0, 0.0))
        return at_s if number < _FREE else at_s + 2 ** (number - _FREE)


def _place(address: str) -> str:
    """Return the address, or the network, by which *address* counts."""
    found = address_in(address)
    return str(ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found or address)


# -- proxies ----------------------------------------------------------------------------------------


class Proxy:
    """The trusted proxies of a process."""

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError: the settings name a header, but no addresses that may send it."""
        given = settings.web
        self._networks = tuple(map(ip_network, given.proxy_addresses))
        self._header, self._role_header = given.proxy_header, given.proxy_role_header
        if self._header is not None and not self._networks:
            remedy = 'name the addresses of the proxy: [web] proxy_addresses = ["127.0.0.1"]'
            raise ConfigError(f"[web] proxy_header={self._header!r}: it is trusted from no address; {remedy}")
        if self._role_header is not None and self._header is None:
            remedy = "give [web] proxy_header, too"
            raise ConfigError(f"[web] proxy_role_header={self._role_header!r}: a role without a name; {remedy}")

    def account(self, request: Request) -> Account | None:
        """Return the account of the person whom a trusted proxy names; None without one. Raises Problem."""
        if self._header is None or not self._sent(request) or not (name := _only(request, self._header)):
            return None
        try:
            check_by(name)
        except InvalidSchedule as error:
            raise _refused(self._header, name, error.problem, error.remedy) from None
        return Account(name, self._role(request))

    def cookie(self, request: Request) -> dict[str, Any]:
        """Return the attributes of a cookie: no script reads it, and it stays with this server, and with its https."""
        forwarded = request.headers.get("x-forwarded-proto", "") if self._sent(request) else ""
        is_https = forwarded.rpartition(",")[2].strip().lower() == "https"  # to a trusted proxy
        return {"httponly": True, "samesite": "strict", "secure": is_https}

    def _role(self, request: Request) -> AccountRole:
        role = "" if self._role_header is None else _only(request, self._role_header)
        try:
            return AccountRole(role) if role else AccountRole.VIEWER
        except ValueError:
            remedy = f"send one of {', '.join(AccountRole)}"
            raise _refused(str(self._role_header), role, "not a role of zsched", remedy) from None

    def address(self, request: Request) -> str:
        """
        Return the address of the client: that of the connection; if it is of a trusted proxy, the one that it names in
        X-Forwarded-For, as its last.
        """
        found = "" if request.client is None else request.client.host
        for named in reversed(",".join(request.headers.getlist("x-forwarded-for")).split(",")):
            if not self._trusts(found) or address_in(named) is None:
                break
            found = named.strip()
        return found

    def _sent(self, request: Request) -> bool:
        """Return True if *request* comes from a trusted address."""
        return request.client is not None and self._trusts(request.client.host)

    def _trusts(self, text: str) -> bool:
        address = address_in(text) if self._networks else None
        return address is not None and any(address in network for network in self._networks)


def address_in(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address in *text*, an IPv4 one also if it is mapped into IPv6; None: it is none."""
    with suppress(ValueError):
        address = ip_address(text.strip().partition("%")[0])
        return getattr(address, "ipv4_mapped", None) or address
    return None


def _only(request: Request, header: str) -> str:
    """Return the value of *header*, which a proxy sends once: a second one would be the client's. Raises Problem."""
    values = request.headers.getlist(header)
    if len(values) > 1:
        raise _refused(header, ", ".join(values), "it was sent twice", "let the proxy replace what its clients send")
    return "".join(values).encode("latin-1", "replace").decode("utf-8", "replace").strip()


def _refused(header: str, value: str, problem: str, remedy: str) -> Problem:
    return Problem(403, "bad-proxy-header", f"{header}={show(value)}: {problem}", remedy)
