"""
URLs of Redis: the Sentinels in them, addresses; and passwords, hidden and read.

The URL of a Redis behind Sentinels is ``redis+sentinel://[user:password@]host[:port][,…]/<master>[/db][?options]``.
User, password and database are the master's; ``rediss+sentinel`` speaks TLS with it. Options whose names begin with
``sentinel_`` hold for the connections to the Sentinels, the others for those to the master.

The address of a Redis, as an archive notes it, is one text for all ways to write it, without user and password. It is
taken from the settings and never resolved to an IP. A host name means the same Redis after its machine changed.

Passwords come from files of their own, systemd's credentials (systemd.exec(5), "Credentials"), and URLs. A unit names a
credential once and for all, so a blank one, or none, means that there is no password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlsplit

from zsched.errors import ConfigError

# -- without secrets --------------------------------------------------------------------------------


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


# -- Sentinels --------------------------------------------------------------------------------------


SCHEMES = ("redis+sentinel", "rediss+sentinel")
OPTIONS = ("sentinel_username", "sentinel_password", "sentinel_password_file", "sentinel_ssl")
MASTER = r"[A-Za-z0-9._-]{1,128}"  # what Sentinel itself takes for a name
_PORT = 26379
_FORM = "write redis+sentinel://host:26379,host2:26379/<master name>/0"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\[\]:/@?#,\s]+)(?::([0-9]{1,5}))?")
_URL = re.compile(r"(rediss?)\+sentinel://(?:([^/?#]*)@)?([^/?#@]*)(?:/([^/?#]*))?(?:/([0-9]*))?(?:\?([^#]*))?")

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """A URL taken apart. ``plain`` is what it says of the master, as a URL without a host."""

    sentinels: tuple[Address, ...]
    master: str
    plain: str
    options: dict[str, str]

    @classmethod
    def parse(cls, url: str) -> SentinelUrl:
        """
        Take *url* apart.

        Raises:
            ValueError: it is none; the message says what to write.
        """
        found = _URL.fullmatch(url)
        if found is None:
            raise ValueError(f"hosts, master and database cannot be read; {_FORM}")
        scheme, userinfo, hosts, master, db, query = found.groups()
        if not re.fullmatch(MASTER, master or ""):
            raise ValueError(f"after the Sentinels comes the name of the master, as they know it; {_FORM}")
        pairs = parse_qsl(query or "", keep_blank_values=True)
        options = {name: value for name, value in pairs if name.startswith("sentinel_")}
        for name, value in options.items():
            if name not in OPTIONS or not value:
                raise ValueError(f"option {name} is unknown or empty; there are {', '.join(OPTIONS)}")
        if "sentinel_password" in options and "sentinel_password_file" in options:
            raise ValueError("two passwords of the Sentinels; take one away")
        if options.get("sentinel_ssl", "true") not in ("true", "false"):
            raise ValueError("write sentinel_ssl=true or sentinel_ssl=false")
        theirs = "&".join(part for part in (query or "").split("&") if not part.startswith("sentinel_"))
        plain = f"{scheme}://{userinfo + '@' if userinfo else ''}/{db or 0}{'?' + theirs if theirs else ''}"
        try:
            sentinels = tuple(address(host) for host in hosts.split(","))
        except ValueError:  # what stands there may be a part of an unescaped password
            raise ValueError(f"the hosts of the Sentinels cannot be read; {_FORM}") from None
        return cls(sentinels, master, plain, options)


def is_sentinel_url(url: str) -> bool:
    """Return True if *url* has the scheme of a Redis behind Sentinels, good or bad."""
    return url.split("://", 1)[0] in SCHEMES


def address(text: str) -> Address:
    """
    Host and port of ``host``, ``host:port`` or ``[IPv6]:port``.

    Raises:
        ValueError: it is none of these.
    """
    found = _HOST.fullmatch(text.strip())
    port = int(found[2] or _PORT) if found else 0
    if found is None or not 0 < port < 65536:
        raise ValueError(f"{text!r} is no host of a Sentinel; write host:{_PORT}")
    return found[1].strip("[]"), port


def join(url: str, sentinels: Sequence[str], master: str) -> str:
    """
    The URL of *master* behind *sentinels*, with user, database and options of *url*, which names no host.

    Raises:
        ValueError: *url* names a host, or is not of the kind that has one.
    """
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if parts.scheme not in ("redis", "rediss") or host:
        remedy = "write redis://user@/0 without a host, or take sentinels and master away"
        raise ValueError(f"it says where Redis is, and so do sentinels and master; {remedy}")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}+sentinel://{userinfo}{at}{','.join(sentinels)}/{master}/{parts.path.strip('/') or 0}{query}"


def with_password_file(url: str, file: str) -> str:
    """*url*, in which the file with the Sentinels' password is named too."""
    return f"{url}{'&' if '?' in url else '?'}sentinel_password_file={quote(file)}"


# -- addresses --------------------------------------------------------------------------------------


_REDIS_PORT = 6379


def address_of(url: str) -> str:
    """
    Return the address in *url*, a checked ``[redis] url``: ``host:port/db``, ``unix:/path/db``, or for Sentinels
    ``sentinels:host:port,host:port/master/db`` with the hosts sorted.
    """
    if is_sentinel_url(url):
        parsed = SentinelUrl.parse(url)
        hosts = sorted(host_port(host.lower(), port) for host, port in parsed.sentinels)
        return f"sentinels:{','.join(hosts)}/{parsed.master}/{_database(parsed.plain)}"
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix:{unquote(parts.path)}/{_database(url)}"
    return f"{host_port(parts.hostname or 'localhost', parts.port or _REDIS_PORT)}/{_database(url)}"


def _database(url: str) -> int:
    """Return the number of the database. Like redis-py, prefer the one in the query."""
    parts = urlsplit(url)
    asked = parse_qs(parts.query).get("db", [""])[0]
    path = "" if parts.scheme == "unix" else parts.path.strip("/")
    digits = next((text for text in (asked, path) if text.isdecimal()), "0")
    return int(digits)


def host_port(host: str, port: int) -> str:
    """Return ``host:port``; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# -- passwords --------------------------------------------------------------------------------------


REDIS_CREDENTIAL = "redis-password"
_CREDENTIALS = "CREDENTIALS_DIRECTORY"


def credential_file(env: Mapping[str, str], name: str) -> str | None:
    """The path of the credential *name*; None without one, or if it is blank."""
    file = Path(env.get(_CREDENTIALS) or os.devnull, name)
    with suppress(OSError):
        return str(file) if file.read_bytes().strip() else None
    return None


def gives_password(url: str) -> bool:
    """Return True if *url*, of one Redis, has a password; a user alone is none."""
    parts = urlsplit(url)
    return bool(parts.password) or "password" in parse_qs(parts.query)


def read_password_file(file: str, place: str) -> str:
    """
    Read *file*, without the end of its line; *place* is where it was named.

    Raises:
        ConfigError: it cannot be read or is empty.
    """
    try:
        password = Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{place}={file!r}: {reason}") from error
    if not password:
        raise ConfigError(f"{place}={file!r}: it is empty; write the password into it")
    return password
