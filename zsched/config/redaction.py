"""URLs as they may be printed: without their secrets."""

from __future__ import annotations

import re

_HIDDEN = "***"
_QUERY_SECRET = re.compile(r"(?i)([?&](?:(?:\w+_)?(?:password|username)|passwd|auth|token)=)[^&]*")
_USERINFO = re.compile(r"^([a-z][a-z0-9+.-]*:/{0,2})?(.*)@(?=[^@]*$)", re.IGNORECASE | re.DOTALL)
_USER = re.compile(r"[\w.-]+(?=:)")
_QUERY_PASSWORD = re.compile(r"(?i)[?&](?:(?:\w+_)?password|passwd|auth|token)=")
# user:password of which the "@host" was forgotten: a port is digits
_HOSTLESS = re.compile(r"^([a-z][a-z0-9+.-]*:/{1,2}[\w.-]*:)(?!\d+(?:[/?#,]|$))[^@]*$", re.IGNORECASE)
_PASSWORD = re.compile(r":.|[^\w.%:-]", re.DOTALL)  # in a userinfo: what the name of a user has not


def redact(url: str) -> str:
    """
    *url* with ``***`` in place of every password, in its authority and in its query.

    Made for what people really write: a password may contain ``@``, ``/`` or ``#`` unescaped, the
    scheme may be misspelt, the host forgotten. It rather hides too much than too little. Text that is no URL, without
    ``@`` and without a secret's name in a query, comes back as it is.
    """
    without_query_secrets = _QUERY_SECRET.sub(rf"\1{_HIDDEN}", url)
    return _HOSTLESS.sub(rf"\1{_HIDDEN}", _USERINFO.sub(_hide_userinfo, without_query_secrets))


def has_password(url: str) -> bool:
    """Return True if *url* carries a password, or what may be meant as one; a user's name alone is none."""
    userinfo = _USERINFO.search(url)
    return bool(_QUERY_PASSWORD.search(url) or _HOSTLESS.match(url) or (userinfo and _PASSWORD.search(userinfo[2])))


def _hide_userinfo(match: re.Match[str]) -> str:
    scheme, userinfo = match[1] or "", match[2]
    user = _USER.match(userinfo)
    return f"{scheme}{user[0] if user else ''}{':' if user else ''}{_HIDDEN}@"
