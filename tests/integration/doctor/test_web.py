"""The doctor's checks of the HTTP API, for the role web: its address, its changes, its tokens."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import redis

from tests.integration.doctor.ground import KEYS, examined, only
from zsched.health.check import Finding, Severity
from zsched.storage.accounts import Account, AccountRole
from zsched.storage.connection import Link
from zsched.storage.rights import Role
from zsched.storage.tokens import Tokens

OK, NOTE, WARNING, SKIPPED = Severity.OK, Severity.NOTE, Severity.WARNING, Severity.SKIPPED
DAY_MS = 86_400_000
ALLOWED = ("app.*",)


def findings(url: str, **settings: Any) -> dict[str, list[Finding]]:
    """Return the findings for the role web, by the name of the check."""
    given: dict[str, Any] = {"rq": {"allow_callables": ALLOWED}} | settings
    found: dict[str, list[Finding]] = {}
    for finding in examined(url, roles=(Role.WEB,), **given)["http api"]:
        found.setdefault(finding.name, []).append(finding)
    return found


def add(url: str, name: str, client: redis.Redis, **about: int) -> None:
    """Add a token; *about*: days ago (negative: to come) of its ``created``, ``used`` and ``expires``."""
    now_ms = client.time()[0] * 1000
    at_ms = {what: now_ms - days * DAY_MS for what, days in about.items()}
    token = Account(name, AccountRole.VIEWER, created_ms=at_ms.get("created", now_ms), expires_ms=at_ms.get("expires"))
    tokens = Tokens(Link.from_url(url, 5.0), KEYS)
    tokens.add(token)
    [digest] = [digest for digest, other, _ in tokens.all() if other == token]
    if "used" in at_ms:
        client.hset(KEYS.tokens_used(), digest, at_ms["used"])


def test_other_roles_are_not_bothered_with_the_api(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)

    for role in (Role.CLIENT, Role.DAEMON, Role.WORKER):
        assert "--role web" in only(examined(url, roles=(role,))["http api"], OK).text


def test_an_api_with_tokens_in_use_is_ok(url: str, sound: redis.Redis) -> None:
    add(url, "ann", sound, created=400, used=1, expires=-10)
    add(url, "bob", sound)

    found = findings(url)

    assert {"web", "web_writes", "web_tokens"} == found.keys()
    assert "2 tokens" in only(found["web_writes"], OK).text
    assert "in use" in only(found["web_tokens"], OK).text


def test_an_api_without_tokens_gets_the_command_that_makes_one(url: str, sound: redis.Redis) -> None:
    assert "zsched tokens add NAME --role viewer" in only(findings(url)["web_writes"], NOTE).remedy


def test_tokens_that_cannot_change_anything_are_a_warning(url: str, sound: redis.Redis) -> None:
    add(url, "ann", sound)

    finding = only(findings(url, rq={"allow_callables": ("*",)})["web_writes"], WARNING)

    assert "refuses all changes, of 1 token" in finding.text
    assert "[rq] allow_callables" in finding.remedy


def test_expired_and_unused_tokens_are_notes_that_name_them(url: str, sound: redis.Redis) -> None:
    add(url, "gone", sound, created=10, expires=1)
    add(url, "idle", sound, created=400, used=91)
    add(url, "never", sound, created=91)
    add(url, "new", sound, created=89)

    expired, unused = findings(url)["web_tokens"]

    assert (NOTE, NOTE) == (expired.severity, unused.severity)
    assert "expired tokens, which admit nobody: gone" == expired.text
    assert "tokens that nobody has used for 90 days: idle, never" == unused.text
    assert "zsched tokens revoke idle" in unused.remedy


@pytest.mark.parametrize("listen", ["127.0.0.1:9180", "127.8.8.8:1", "localhost:9180", "[::1]:9180"])
def test_an_address_of_loopback_is_ok(url: str, listen: str) -> None:
    assert listen in only(findings(url, web={"listen": listen})["web"], OK).text


@pytest.mark.parametrize("listen", ["0.0.0.0:9180", "[::]:9180", "192.0.2.1:80", "web.example.org:80"])
def test_an_address_that_others_reach_is_a_warning(url: str, listen: str) -> None:
    plain = only(findings(url, web={"listen": listen, "allow_plain": True})["web"], WARNING)
    refused = only(findings(url, web={"listen": listen})["web"], WARNING)

    assert "tokens go over the network as they are" in plain.text
    assert "zsched web does not start" in refused.text
    assert "allow_plain = true" in refused.remedy


def test_a_missing_package_of_the_extra_is_a_warning(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.health.checks_web.find_spec", lambda name: None if name == "uvicorn" else name)

    missing, listens = findings(url)["web"]

    assert (WARNING, OK) == (missing.severity, listens.severity)
    assert "uvicorn is not installed" in missing.text
    assert "pip install 'zsched[web]'" == missing.remedy


def test_a_user_who_may_not_read_the_tokens_gets_skipped(url: str, sound: redis.Redis) -> None:
    sound.execute_command("ACL", "SETUSER", "shop", "reset", "on", "nopass", "~zsched:*", "~rq:*", "+@all")
    try:
        found = findings(url.replace("://", "://shop:x@", 1))
        assert [SKIPPED] == [each.severity for name in ("web_writes", "web_tokens") for each in found.get(name, ())]
    finally:
        sound.acl_deluser("shop")
