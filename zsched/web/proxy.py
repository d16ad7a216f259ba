"""
A trusted proxy in front of ``zsched web``: the person whom it names, and whether they came by https.

Its headers count only from the addresses of [web] proxy_addresses; from others they count as absent. Whether they are
from there is decided by the address of the connection, never by that of a header.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.requests import Request

from zsched.config.settings import Settings
from zsched.core.options.arguments import check_by
from zsched.errors import ConfigError, InvalidSchedule, show
from zsched.web.accounts import Account, AccountRole
from zsched.web.problems import Problem

_ROLES = ", ".join(role.value for role in AccountRole)


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
            raise _refused(str(self._role_header), role, "not a role of zsched", f"send one of {_ROLES}") from None

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
