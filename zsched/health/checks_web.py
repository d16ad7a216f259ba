"""
Checks of the HTTP API: is its address safe, can its tokens write, and is each token still needed?

They are made for the role web alone: only its user and an operator may read the tokens, and only its settings count.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Final

from zsched.core.wording import plural, some
from zsched.health.check import Finding, fine, health_check, note, warning
from zsched.health.facts import Probe
from zsched.storage.accounts import Account
from zsched.storage.rights import Role
from zsched.storage.tokens import Tokens

_PACKAGES: Final = ("fastapi", "uvicorn", "greenlet")  # of the extra web
_ADD: Final = ("zsched", "tokens", "add", "NAME", "--role", "viewer")
_UNUSED_DAYS: Final = 90
_UNUSED_MS: Final = _UNUSED_DAYS * 86_400_000


@health_check("web", Probe, "http api")
def check_web(probe: Probe) -> Iterator[Finding]:
    """Check that this Python has the packages of ``zsched web``, and that its address is safe."""
    if Role.WEB not in probe.roles:
        yield fine("not asked for; --role web checks it")
        return
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        yield warning(f"zsched web does not start here: {some(missing)} is not installed", "pip install 'zsched[web]'")
    web = probe.settings.web
    if _is_loopback(web.listen):
        yield fine(f"[web] listen is {web.listen}, which only this machine reaches")
    elif web.allow_plain:
        said = f"[web] listen is {web.listen}, and allow_plain is true: tokens go over the network as they are"
        yield warning(said, "let only a proxy with TLS reach it; or listen on 127.0.0.1 and take allow_plain away")
    else:
        yield warning(
            f"[web] listen is {web.listen}, which other machines reach: zsched web does not start",
            "listen on 127.0.0.1 behind a proxy with TLS; or, in a container, set [web] allow_plain = true",
        )


@health_check("web_writes", Probe, "http api")
def check_web_writes(probe: Probe) -> Iterator[Finding]:
    """Check that the API takes changes, if there are tokens."""
    if Role.WEB not in probe.roles:
        return
    tokens = _tokens(probe)
    number = plural(len(tokens), "token")
    if not tokens:
        yield note("there is no token: the API admits nobody", "make one", *_ADD)
    elif "*" in probe.settings.rq.allow_callables:
        said = f"[rq] allow_callables is *: the API refuses all changes, of {number}"
        yield warning(said, 'name the functions: [rq] allow_callables = ["app.tasks.*"]')
    else:
        yield fine(f"the API takes changes; {number}")


@health_check("web_tokens", Probe, "http api")
def check_web_tokens(probe: Probe) -> Iterator[Finding]:
    """Report tokens that have expired, or that nobody has used for a long time."""
    if Role.WEB not in probe.roles:
        return
    now_ms, tokens = probe.reader.now_ms(), _tokens(probe)
    expired = [token.name for token, _ in tokens if token.expires_ms is not None and token.expires_ms <= now_ms]
    unused = [
        token.name
        for token, used_ms in tokens
        if token.name not in expired and now_ms - (used_ms or token.created_ms) >= _UNUSED_MS
    ]
    yield from _advice(expired, "expired tokens, which admit nobody")
    yield from _advice(unused, f"tokens that nobody has used for {_UNUSED_DAYS} days")
    if tokens and not expired and not unused:
        yield fine("every token is in use")


def _advice(names: Sequence[str], what: str) -> Iterator[Finding]:
    if names:
        yield note(f"{what}: {some(names)}", "take away what nobody needs", "zsched", "tokens", "revoke", names[0])


def _tokens(probe: Probe) -> list[tuple[Account, int | None]]:
    """Return the tokens and the times of their last use."""
    return [(token, used_ms) for _, token, used_ms in Tokens(probe.link, probe.keys).all()]


def _is_loopback(listen: str) -> bool:
    """Return True if *listen*, host and port, is an address of loopback, or the name localhost."""
    host = listen.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".") == "localhost"
