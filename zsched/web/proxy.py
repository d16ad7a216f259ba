"""
A trusted proxy in front of ``zsched web``: the person whom it names, and whether they came by https.

Its headers count only from the addresses of [web] proxy_addresses; from others they count as absent. The address is
that of the connection, never that of a header.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from zsched.config.settings import Settings
from zsched.core.arguments import check_by
from zsched.errors import ConfigError, InvalidSchedule, show
from zsched.storage.accounts import Account, AccountRole
from zsched.web.problems import Problem

_ROLES = ", ".join(role.value for role in AccountRole)


class Proxy:
    """The trusted proxies of a process."""

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError: the settings name a header, and nobody who may send it."""
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
        """Return the account of the person whom a trusted proxy names; None: it names nobody. Raises Problem."""
        if self._header is None or not self._sent(request):
            return None
        name = _only(request, self._header)
        if not name:
            return None
        try:
            check_by(name)
        except InvalidSchedule as error:
            raise _refused(self._header, name, error.problem, error.remedy) from None
        return Account(name, self._role(request))

    def says_https(self, request: Request) -> bool:
        """Return True if *request* came by https to a trusted proxy."""
        forwarded = request.headers.get("x-forwarded-proto", "") if self._sent(request) else ""
        return forwarded.rpartition(",")[2].strip().lower() == "https"

    def _role(self, request: Request) -> AccountRole:
        role = "" if self._role_header is None else _only(request, self._role_header)
        try:
            return AccountRole(role) if role else AccountRole.VIEWER
        except ValueError:
            raise _refused(str(self._role_header), role, "no role of zsched", f"send one of {_ROLES}") from None

    def _sent(self, request: Request) -> bool:
        """Return True if *request* comes from a trusted address."""
        if not self._networks or request.client is None:
            return False
        address = ip_address(request.client.host.partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)


class ForwardedScheme:
    """Gives a request the scheme with which it came to a trusted proxy, for redirects and for cookies."""

    def __init__(self, app: ASGIApp, proxy: Proxy) -> None:
        self._app, self._proxy = app, proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._proxy.says_https(Request(scope)):
            scope["scheme"] = "https"
        await self._app(scope, receive, send)


def _only(request: Request, header: str) -> str:
    """Return the value of *header*, which a proxy sends once: a second one would be the client's. Raises Problem."""
    values = request.headers.getlist(header)
    if len(values) > 1:
        raise _refused(header, ", ".join(values), "it came twice", "let the proxy replace what its clients send")
    return "".join(values).encode("latin-1", "replace").decode("utf-8", "replace").strip()


def _refused(header: str, value: str, problem: str, remedy: str) -> Problem:
    return Problem(403, "bad-proxy-header", f"{header}={show(value)}: {problem}", remedy)
