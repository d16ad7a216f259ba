"""
Checks of the HTTP API: is its address safe, can its accounts be read and write, and is each still needed?

They are made for the role web alone: only its settings count, and only its user and root may read its accounts.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Final

from zsched.core.clock import SystemClock
from zsched.core.wording import plural, some
from zsched.errors import ConfigError
from zsched.health.facts import Finding, Probe, fine, health_check, note, problem, skipped, warning
from zsched.storage.rights import Role
from zsched.web.accounts_file import ADD, accounts_file

PACKAGES: Final = ("fastapi", "uvicorn", "greenlet")  # of the extra web
_UNUSED_DAYS: Final = 90
_UNUSED_MS: Final = _UNUSED_DAYS * 86_400_000


@health_check("web", Probe, "http api")
def check_web(probe: Probe) -> Iterator[Finding]:
    """Check that this Python has the packages of ``zsched web``, and that its address is safe."""
    if Role.WEB not in probe.roles:
        yield fine("not asked for; --role web checks it")
        return
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        yield warning(f"zsched web does not start here: {some(missing)} is not installed", "pip install 'zsched[web]'")
    web = probe.settings.web
    if _is_loopback(web.listen):
        yield fine(f"[web] listen is {web.listen}, which only this machine reaches")
    elif web.allow_plain:
        said = f"[web] listen is {web.listen}, and allow_plain is true: tokens go over the network unencrypted"
        yield warning(said, "let only a proxy with TLS reach it; or listen on 127.0.0.1 and remove allow_plain")
    else:
        yield warning(
            f"[web] listen is {web.listen}, which other machines reach: zsched web does not start",
            "listen on 127.0.0.1 behind a proxy with TLS; or, in a container, set [web] allow_plain = true",
        )


@health_check("web_accounts", Probe, "http api")
def check_web_accounts(probe: Probe) -> Iterator[Finding]:
    """Read the accounts; check that they may write, and report expired and unused ones."""
    if Role.WEB not in probe.roles:
        return
    file = accounts_file(probe.settings)
    try:
        accounts = file.with_uses(file.read())
    except ConfigError as error:
        if isinstance(error.__cause__, PermissionError):
            yield skipped(f"this user may not read {file.path}", "ask as the user of zsched web, or as root")
        else:
            yield problem(f"{error}: a running zsched web keeps the accounts that it has", "correct the file")
        return
    number = plural(len(accounts), "account")
    if not accounts:
        yield note(f"no accounts in {file.path}: only people named by a proxy can log in", "add one", *ADD)
    elif "*" in probe.settings.rq.allow_callables:
        said = f"[rq] allow_callables is *: the API refuses all changes, of {number}"
        yield warning(said, 'name the functions: [rq] allow_callables = ["app.tasks.*"]')
    else:
        yield fine(f"the API takes changes; {number} in {file.path}")
    now_ms = SystemClock().now_ms()
    unused = [
        account.name
        for account, used_ms in accounts
        if account.is_valid(now_ms) and now_ms - (used_ms or account.created_ms) >= _UNUSED_MS
    ]
    expired = [account.name for account, _ in accounts if not account.is_valid(now_ms)]
    yield from _advice(expired, "expired accounts")
    yield from _advice(unused if file.records_uses else [], f"accounts unused for {_UNUSED_DAYS} days")


def _advice(names: Sequence[str], what: str) -> Iterator[Finding]:
    if names:
        yield note(f"{what}: {some(names)}", "revoke those that nobody needs", "zsched", "tokens", "revoke", names[0])


def _is_loopback(listen: str) -> bool:
    """Return True if *listen*, host and port, is an address of loopback, or the name localhost."""
    host = listen.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".") == "localhost"
