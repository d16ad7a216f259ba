"""
The address of a Redis, as an archive notes it: one text for all ways to write it, without user and password.

It is taken from the settings and never resolved to an IP. A host name means the same Redis after its machine changed.
"""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from zsched.config.sentinels import SentinelUrl, is_sentinel_url

_PORT = 6379


def address_of(url: str) -> str:
    """
    Return the address in *url*, a checked ``[redis] url``: ``host:port/db``, ``unix:/path/db``, or for Sentinels
    ``sentinels:host:port,host:port/master/db`` with the hosts sorted.
    """
    if is_sentinel_url(url):
        parsed = SentinelUrl.parse(url)
        hosts = sorted(_at(host, port) for host, port in parsed.sentinels)
        return f"sentinels:{','.join(hosts)}/{parsed.master}/{_database(parsed.plain)}"
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix:{unquote(parts.path)}/{_database(url)}"
    return f"{_at(parts.hostname or 'localhost', parts.port or _PORT)}/{_database(url)}"


def _database(url: str) -> int:
    """Return the number of the database. Like redis-py, prefer the one in the query."""
    parts = urlsplit(url)
    asked = parse_qs(parts.query).get("db", [""])[0]
    path = "" if parts.scheme == "unix" else parts.path.strip("/")
    digits = next((text for text in (asked, path) if text.isdecimal()), "0")
    return int(digits)


def _at(host: str, port: int) -> str:
    name = host.lower()
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
