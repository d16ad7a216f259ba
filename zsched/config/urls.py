"""
URLs of Redis: the Sentinels or nodes in them, and addresses; hide and read passwords.

The URL of a Redis behind Sentinels is ``redis+sentinel://[user:password@]host[:port][,…]/<master>[/db][?options]``.
User, password and database are the master's; ``rediss+sentinel`` speaks TLS with it. Options with the prefix
``sentinel_`` are for the connections to the Sentinels, other options for the connections to the master.

The URL of a Redis Cluster is ``redis+cluster://[user:password@]host[:port][,…][?options]``, with any of its nodes;
``rediss+cluster`` speaks TLS. All of it applies to every node. A Cluster has only database 0.

The address of a Redis in an archive is the same text for all spellings of a URL, without user and password. It is taken
from the settings and never resolved to an IP. A host name means the same Redis after its machine changed.

Passwords come from separate files, systemd's credentials (systemd.exec(5), "Credentials"), and URLs. A unit always
names its credential, so a blank or missing credential means that there is no password.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlsplit

from zsched.errors import show

URL_FORMS = (
    "write redis://host:6379/0, rediss://host:6379/0, unix:///path/redis.sock?db=0, "
    "redis+sentinel://host:26379,host2:26379/<master name>/0 or redis+cluster://host:6379,host2:6379"
)

# -- the check --------------------------------------------------------------------------------------


_ESCAPES = "in a user or password, write %2F for /, %3F for ?, %23 for #, %40 for @ and %20 for a space"
_SERVER = re.compile(r"(rediss?|unix)://(?:[^/?#]*@(?!.*@))?([^/?#@]*)(/[^?#]*)?(?:\?[^#@]*)?")
_FORMS: Final = (  # of options in a query: an example, the form, the names; others of redis-py are objects
    ("0", r"[0-9]{1,9}", "db health_check_interval protocol"),
    ("50", r"[2-9]|[1-9][0-9]{1,5}", "max_connections"),  # a bulk call and its checks need two
    ("2.5", r"(?=.*[1-9])[0-9]{1,6}(\.[0-9]{1,6})?", "socket_timeout socket_connect_timeout"),
    ("true", r"(?i)true|false|yes|no|1|0", "socket_keepalive retry_on_timeout decode_responses ssl_check_hostname"),
    ("required", r"none|optional|required", "ssl_cert_reqs"),
    ("772", r"77[12]", "ssl_min_version"),  # TLS 1.2 and 1.3
    ("/path", r"[^\0]+", "ssl_certfile ssl_keyfile ssl_password ssl_ca_certs ssl_ca_path ssl_ca_data ssl_ciphers"),
    ("text", r"[^\0]+", "client_name username password sentinel_username sentinel_password sentinel_password_file"),
    ("true", r"true|false", "sentinel_ssl"),
)
_OPTIONS: Final = {name: (example, form) for example, form, names in _FORMS for name in names.split()}


def check_url(given: object) -> str:
    """
    Return *given*, a URL of Redis in one of ``URL_FORMS``: the check for clients, commands and daemons.

    Raises:
        ValueError: the problem and the remedy. It has no text from the URL, which may be a part of a password.
    """
    try:
        if not isinstance(given, str):
            raise ValueError(f"not a text; {URL_FORMS}")
        _check_server(of_the_server(given))
        _check_options(given)
    except ValueError as error:
        raise ValueError(f"{error}; {_ESCAPES}" if re.search(r"[@#\s]", str(given)) else str(error)) from None
    return given


def _check_server(url: str) -> None:
    """Check *url*, of one Redis. Raises ValueError as ``check_url``."""
    if re.search(r"[\s\x00-\x1f\x7f]", url):
        raise ValueError(f"it has a space or a line end, which must go; {URL_FORMS}")
    if (found := _SERVER.fullmatch(url)) is None:
        raise ValueError(f"not a Redis URL; {URL_FORMS}")
    scheme, host, path = found.groups("")
    if scheme == "unix" and (host or len(path) < 2 or "\0" in unquote(path)):
        raise ValueError(f"the socket's path is missing; {URL_FORMS}")
    try:
        urlsplit(url.encode().decode())  # refuses [ and some letters in a password, and repeats the password
        address(host or "localhost")
    except ValueError:
        raise ValueError(f"host and port cannot be read; {URL_FORMS}") from None
    if scheme != "unix" and not re.fullmatch(r"(/[0-9]{0,9})?", path):
        raise ValueError(f"add the number of the database after the host; {URL_FORMS}")


def _check_options(url: str) -> None:
    """Check the query of *url*. Raises ValueError as ``check_url``."""
    scheme, options = url.partition("://")[0], parse_qsl(url.partition("?")[2], keep_blank_values=True)
    theirs = (("ssl_", scheme.startswith("rediss")), ("sentinel_", is_sentinel_url(url)))
    for name, value in options:
        if name not in _OPTIONS or any(name.startswith(prefix) and not fits for prefix, fits in theirs):
            named = f" {name}" if f"{name}=" in redact(url) else ""
            raise ValueError(f"it has an option{named} that a connection to {scheme}:// does not have; remove it")
        example, form = _OPTIONS[name]
        if not re.fullmatch(form, value) or [each for each, _ in options].count(name) > 1:
            raise ValueError(f"option {name} is malformed or repeated; write it once: {name}={example}")


# -- without secrets --------------------------------------------------------------------------------


_HIDDEN = "***"
_NEXT = rf"&(?:{'|'.join(_OPTIONS)})="  # what ends a secret that has an unescaped &
_QUERY_SECRET = re.compile(rf"(?is)([?&](?:(?:\w+_)?(?:password|username)|passwd|auth|token)=)(?:(?!{_NEXT}).)*")
_USERINFO = re.compile(r"^([a-z][a-z0-9+.-]*:/{0,2})?(.*)@(?=[^@]*$)", re.IGNORECASE | re.DOTALL)
_USER = re.compile(r"[\w.-]+(?=:)")
_QUERY_PASSWORD = re.compile(r"(?i)[?&](?:(?:\w+_)?password|passwd|auth|token)=")
# user:password without the "@host": a port would be digits. A quote is before it in the text of a list.
_HOSTLESS = re.compile(r"((?:^|['\"])[a-z][a-z0-9+.-]*:/{1,2}[\w.-]*:)(?!\d+(?:[/?#,]|$))[^@]*$", re.IGNORECASE)
_PASSWORD = re.compile(r":.|[^\w.%:-]", re.DOTALL)  # in a userinfo: characters that a user's name does not have


def redact(url: str) -> str:
    """
    Return *url* with ``***`` in place of every password, in its authority and in its query.

    It also works for broken URLs: a password may contain ``@``, ``/`` or ``#`` unescaped, the scheme may be misspelt,
    the host may be missing. It rather hides too much than too little. Text that is not a URL, without ``@`` and without
    a secret's name in a query, is returned unchanged.
    """
    without_query_secrets = _QUERY_SECRET.sub(rf"\1{_HIDDEN}", url)
    return _HOSTLESS.sub(rf"\1{_HIDDEN}", _USERINFO.sub(_hide_userinfo, without_query_secrets))


def shown(given: object) -> str:
    """Return *given*, which may be meant as a URL, as ``show`` does, without passwords."""
    return show(redact(given)) if isinstance(given, str) else redact(show(given))


def has_password(url: str) -> bool:
    """Return True if *url* has a password, or a text that may be meant as one. A user's name alone does not count."""
    userinfo = _USERINFO.search(url)
    return bool(_QUERY_PASSWORD.search(url) or _HOSTLESS.match(url) or (userinfo and _PASSWORD.search(userinfo[2])))


def _hide_userinfo(match: re.Match[str]) -> str:
    scheme, userinfo = match[1] or "", match[2]
    user = _USER.match(userinfo)
    return f"{scheme}{user[0] if user else ''}{':' if user else ''}{_HIDDEN}@"


# -- Sentinels --------------------------------------------------------------------------------------


MASTER = r"[A-Za-z0-9._-]{1,128}"  # names that Sentinel accepts
_FORM = "write redis+sentinel://host:26379,host2:26379/<master name>/0"
LABEL = "[A-Za-z0-9_-]{1,63}"  # of a host's name; the resolver raises UnicodeError for a longer or empty label
_HOST = re.compile(rf"(\[[0-9A-Fa-f:.]+(?:%\w+)?\]|{LABEL}(?:\.{LABEL})*\.?)(?::([0-9]{{1,5}}))?")
_URL = re.compile(r"(rediss?)\+sentinel://(?:([^/?#]*)@)?([^/?#@]*)(?:/([^/?#]*))?(?:/([0-9]*))?(?:\?([^#]*))?")

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """A parsed URL of Sentinels. ``plain``: its part for the master, as a URL without a host."""

    sentinels: tuple[Address, ...]
    master: str
    plain: str = field(repr=False)
    options: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """
        Parse *url*, whose options ``check_url`` checks.

        Raises:
            ValueError: it is not such a URL; the message has the remedy.
        """
        if (found := _URL.fullmatch(url)) is None:
            raise ValueError(f"hosts, master and database cannot be read; {_FORM}")
        scheme, userinfo, hosts, master, db, query = found.groups()
        if not re.fullmatch(MASTER, master or ""):
            raise ValueError(f"add the master's name after the Sentinel addresses; {_FORM}")
        pairs = parse_qsl(query or "", keep_blank_values=True)
        options = {name: value for name, value in pairs if name.startswith("sentinel_")}
        if "sentinel_password" in options and "sentinel_password_file" in options:
            raise ValueError("two passwords of the Sentinels; remove one")
        theirs = "&".join(part for part in (query or "").split("&") if not part.startswith("sentinel_"))
        plain = f"{scheme}://{userinfo + '@' if userinfo else ''}/{db or 0}{'?' + theirs if theirs else ''}"
        sentinels = _addresses(hosts, address, f"the hosts of the Sentinels cannot be read; {_FORM}")
        return cls(sentinels, master, plain, options)


def is_sentinel_url(url: str) -> bool:
    """Return True if *url* has the scheme of a Redis behind Sentinels; it may be invalid otherwise."""
    return url.split("://", 1)[0] in ("redis+sentinel", "rediss+sentinel")


def address(text: str, port: int = 26379, of: str = "Sentinel") -> Address:
    """
    Parse ``host``, ``host:port`` or ``[IPv6]:port``; without a port it is *port*, the usual one of an *of*.

    Raises:
        ValueError: *text* has another form.
    """
    found = _HOST.fullmatch(text.strip())
    given = int(found[2] or port) if found else 0
    if found is None or not 0 < given < 65536:
        raise ValueError(f"{text!r} is not an address of a {of}; write host:{port}")
    return found[1].strip("[]"), given


def _addresses(hosts: str, read: Callable[[str], Address], problem: str) -> tuple[Address, ...]:
    """Return the addresses in *hosts*. Raises ValueError: the *problem* alone, as *hosts* may be part of a password."""
    try:
        return tuple(map(read, hosts.split(",")))
    except ValueError:
        raise ValueError(problem) from None


def join(url: str, sentinels: Sequence[str], master: str) -> str:
    """
    Return the URL of *master* behind *sentinels*, with user, database and options of *url*, which names no host.

    Raises:
        ValueError: *url* names a host, or has another scheme than redis or rediss.
    """
    scheme, user, db, query = _hostless(url, "sentinels and master")
    return f"{scheme}+sentinel://{user}{','.join(sentinels)}/{master}/{db}{query}"


def _hostless(url: str, instead: str) -> tuple[str, str, str, str]:
    """Return scheme, user, database and query of *url*. The settings *instead* name the hosts."""
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if parts.scheme not in ("redis", "rediss") or host:
        verb = "do" if " and " in instead else "does"
        remedy = f"write redis://user@/0 without a host, or remove {instead}"
        raise ValueError(f"it says where Redis is, and so {verb} {instead}; {remedy}")
    return parts.scheme, userinfo + at, parts.path.strip("/") or "0", f"?{parts.query}" if parts.query else ""


def with_password_file(url: str, file: str) -> str:
    """Return *url* with an option for the file with the Sentinels' password."""
    return f"{url}{'&' if '?' in url else '?'}sentinel_password_file={quote(file)}"


# -- Cluster ----------------------------------------------------------------------------------------


_REDIS_PORT = 6379
_CLUSTER_FORM = "write redis+cluster://host:6379,host2:6379"
_CLUSTER_URL = re.compile(r"(rediss?)\+cluster://(?:([^/?#]*)@)?([^/?#@]*)(?:/([^/?#@]*))?(?:\?([^#]*))?")


@dataclass(frozen=True, slots=True)
class ClusterUrl:
    """A parsed URL of a Cluster. ``plain``: its part for every node, as a URL without a host."""

    nodes: tuple[Address, ...]
    plain: str = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """
        Parse *url*.

        Raises:
            ValueError: it is not such a URL; the message has the remedy.
        """
        if (found := _CLUSTER_URL.fullmatch(url)) is None:
            raise ValueError(f"the nodes cannot be read; {_CLUSTER_FORM}")
        scheme, userinfo, hosts, db, query = found.groups()
        if db not in (None, "", "0") or parse_qs(query or "").get("db", ["0"]) != ["0"]:
            raise ValueError("a Redis Cluster has only database 0: remove the other one")
        nodes = _addresses(hosts, cluster_node, f"the nodes cannot be read; {_CLUSTER_FORM}")
        return cls(nodes, f"{scheme}://{userinfo + '@' if userinfo else ''}/0{'?' + query if query else ''}")


def is_cluster_url(url: str) -> bool:
    """Return True if *url* has the scheme of a Redis Cluster; it may be invalid otherwise."""
    return url.split("://", 1)[0] in ("redis+cluster", "rediss+cluster")


def cluster_node(text: str) -> Address:
    """Parse host and port of a node, in the form of ``address``. Raises ValueError."""
    return address(text, _REDIS_PORT, "node")


def join_cluster(url: str, nodes: Sequence[str]) -> str:
    """
    Return the URL of the Cluster of *nodes*, with user and options of *url*, which names no host.

    Raises:
        ValueError: *url* names a host, or another database than 0.
    """
    scheme, user, db, query = _hostless(url, "cluster")
    joined = f"{scheme}+cluster://{user}{','.join(nodes)}{'' if db == '0' else '/' + db}{query}"
    ClusterUrl.parse(joined)
    return joined


def of_the_server(url: str) -> str:
    """Return the part of *url* for the server with the data, without Sentinels and nodes. Raises ValueError."""
    if is_sentinel_url(url):
        return SentinelUrl.parse(url).plain
    return ClusterUrl.parse(url).plain if is_cluster_url(url) else url


# -- addresses --------------------------------------------------------------------------------------


def address_of(url: str) -> str:
    """
    Return the address in *url*, a checked ``[redis] url``: ``host:port/db``, ``unix:/path/db``, for Sentinels
    ``sentinels:host:port,host:port/master/db`` with the hosts sorted, for a Cluster ``cluster:host:port,host:port/0``.
    """
    if is_sentinel_url(url):
        parsed = SentinelUrl.parse(url)
        return f"sentinels:{_sorted(parsed.sentinels)}/{parsed.master}/{_database(parsed.plain)}"
    if is_cluster_url(url):
        return f"cluster:{_sorted(ClusterUrl.parse(url).nodes)}/0"
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix:{unquote(parts.path)}/{_database(url)}"
    return f"{host_port(parts.hostname or 'localhost', parts.port or _REDIS_PORT)}/{_database(url)}"


def _sorted(hosts: Iterable[Address]) -> str:
    return ",".join(sorted(host_port(host.lower(), port) for host, port in hosts))


def _database(url: str) -> int:
    """Return the number of the database. Like redis-py, prefer the one in the query."""
    parts = urlsplit(url)
    asked = parse_qs(parts.query).get("db", [""])[0]
    path = "" if parts.scheme == "unix" else parts.path.strip("/")
    return int(next((text for text in (asked, path) if text.isdecimal()), "0"))


def host_port(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# -- passwords --------------------------------------------------------------------------------------


def gives_password(url: str) -> bool:
    """Return True if *url*, of one Redis, has a password. A user alone does not count."""
    parts = urlsplit(url)
    return bool(parts.password) or "password" in parse_qs(parts.query)
