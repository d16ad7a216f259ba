"""
The URL of a Redis behind Sentinels: ``redis+sentinel://[user:password@]host[:port][,…]/<master>[/db][?options]``.

User, password and database are the master's; ``rediss+sentinel`` speaks TLS with it. Options whose names begin
with ``sentinel_`` hold for the connections to the Sentinels, the others for those to the master.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlsplit

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
