"""
Redis behind Sentinels: every new connection asks for the master, and the server must confirm its role.

redis-py asks the Sentinels (``redis.sentinel``) and keeps the pool (``found``). Added here, by the guidelines for
Sentinel clients:

- ROLE is the first command of a connection. A Sentinel that was cut off still names the old master, by now perhaps
  a replica that lags behind; another one is then asked first.
- A discovery that fails says which Sentinels were asked, and what each of them said.
- All connections of a link move together (``found``). An old master may take writes for ten seconds after a failover
  that was asked for, until Sentinel makes a replica of it and throws these writes away.

Not guaranteed: that there is one master (``min-replicas-to-write`` ends the old one's at once).
"""

from __future__ import annotations

import copy
from typing import Any, cast

import redis
from redis.connection import parse_url
from redis.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from zsched.config.urls import SentinelUrl, host_port, read_password_file
from zsched.errors import ConfigError
from zsched.storage.found import PATIENCE_S, FoundPool, adopted_options, our_options


class Pool(FoundPool):
    """A pool of connections to the present master."""

    def __init__(self, master: str, discovery: Discovery, **options: Any) -> None:
        hosts = ",".join(_shown(one) for one in discovery.sentinels)
        super().__init__(master, discovery, "sentinel", f"{hosts}/{master}/{options.get('db') or 0}", **options)

    @classmethod
    def by_url(cls, url: str, **options: Any) -> Pool:
        """
        A pool by a ``redis+sentinel://`` URL; *options* hold for connections to master and Sentinels alike, but for
        a password, which is the master's; the URL's go before.

        Raises:
            ConfigError: the file with the Sentinels' password cannot be read. ValueError: not such a URL.
        """
        parsed = SentinelUrl.parse(url)
        to_master = {**options, **parse_url(parsed.plain), **our_options()}  # type: ignore[no-untyped-call]  # redis-py's
        is_tls = to_master.pop("connection_class", None) is redis.SSLConnection
        to_sentinels = {k: v for k, v in options.items() if k != "password"} | _of_sentinels(parsed)
        if to_sentinels.get("ssl"):
            to_sentinels |= {name: value for name, value in to_master.items() if name.startswith("ssl_")}
        if to_sentinels["socket_timeout"] > PATIENCE_S:
            to_sentinels |= {"socket_timeout": PATIENCE_S, "socket_connect_timeout": PATIENCE_S}
        manager = Sentinel(parsed.sentinels, sentinel_kwargs=to_sentinels)  # type: ignore[no-untyped-call]  # redis-py's
        to_master["connection_class"] = SentinelManagedSSLConnection if is_tls else SentinelManagedConnection
        return cls(parsed.master, Discovery(manager), **to_master)

    @classmethod
    def adopt(cls, theirs: SentinelConnectionPool) -> Pool:
        """
        A pool that finds the master as *theirs* does.

        Raises:
            ConfigError: *theirs* is one of replicas, or finds its servers by something else than a ``Sentinel``.
        """
        if not theirs.is_master:
            raise ConfigError("redis=a client of replicas, which take no writes: give one by Sentinel.master_for(…)")
        if not isinstance(theirs.sentinel_manager, Sentinel):
            found_by = type(theirs.sentinel_manager).__name__
            raise ConfigError(f"redis=a client by a {found_by}, no Sentinel: give one by Sentinel.master_for(…)")
        manager = copy.copy(theirs.sentinel_manager)
        manager.sentinels = [_impatient(one) for one in manager.sentinels]
        options = {name: value for name, value in adopted_options(theirs).items() if name != "connection_pool"}
        return cls(theirs.service_name, Discovery(manager), connection_class=theirs.connection_class, **options)


class Discovery:
    """
    Finds the master for a ``SentinelConnectionPool``, by redis-py's ``Sentinel``.

    Thread-safe, which that is not: two threads that put a Sentinel first may lose one.
    """

    def __init__(self, manager: Sentinel) -> None:
        self._manager = manager
        self.sentinels: list[redis.Redis] = list(manager.sentinels)

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """
        The address of the master, as the first Sentinel that knows one says.

        Raises:
            MasterNotFoundError: none knows; says why.
        """
        asked = [_Asked(one) for one in self.sentinels]
        once: Any = copy.copy(self._manager)
        once.sentinels = list(asked)
        try:
            address: tuple[str, int] = once.discover_master(service_name)
        except MasterNotFoundError as error:
            raise MasterNotFoundError(_no_master(asked, service_name)) from error
        self.sentinels = [one.sentinel for one in once.sentinels]
        return address

    def greet(self, connection: Any) -> None:
        """
        Refuse a new *connection* if that is to no master.

        Raises:
            redis.ConnectionError: it is a replica.
        """
        connection.send_command("ROLE", check_health=False)
        try:
            role = connection.read_response()[0].decode()
        except redis.exceptions.NoPermissionError:
            return  # an ACL without ROLE: READONLY tells it with the first write
        if role != "master":
            self.sentinels = self.sentinels[1:] + self.sentinels[:1]
            raise redis.ConnectionError(f"{connection.host}:{connection.port}, master by its Sentinel, is a {role} now")


class _Asked:
    """A Sentinel during one discovery, and what came of asking it."""

    def __init__(self, sentinel: redis.Redis) -> None:
        self.sentinel, self.masters, self.problem = sentinel, dict[str, Any](), ""

    def sentinel_masters(self) -> dict[str, Any]:
        """Answer ``Sentinel.discover_master``, which asks each. Raises redis.ConnectionError for whatever it is."""
        try:
            self.masters = cast(dict[str, Any], self.sentinel.sentinel_masters())
        except redis.RedisError as error:  # also of a server that is no Sentinel, at which redis-py would stop asking
            self.problem = str(error) or type(error).__name__
            raise redis.ConnectionError(self.problem) from error
        return self.masters


def _no_master(asked: list[_Asked], master: str) -> str:
    """Say why no master was found, and what to do."""
    answering = [one for one in asked if not one.problem]
    silent = "; ".join(f"{_shown(one.sentinel)}: {one.problem}" for one in asked if one.problem)
    if not answering:
        return f"no Sentinel answers ({silent}); start them, or correct their addresses or password"
    rest = f" (not asked: {silent})" if silent else ""
    if not any(master in one.masters for one in answering):
        known = ", ".join(sorted({name for one in answering for name in one.masters})) or "none at all"
        return f"the Sentinels know no master {master!r}, but {known}{rest}; correct its name"
    return f"the Sentinels know of no living master {master!r} now{rest}; one is chosen soon, or look at its servers"


def _of_sentinels(parsed: SentinelUrl) -> dict[str, Any]:
    """The options of redis-py's client for the connections to the Sentinels."""
    given = parsed.options
    options: dict[str, Any] = {"username": given.get("sentinel_username"), "password": given.get("sentinel_password")}
    if "sentinel_password_file" in given:
        options["password"] = read_password_file(given["sentinel_password_file"], "sentinel_password_file")
    if given.get("sentinel_ssl") == "true":
        options["ssl"] = True
    return options


def _impatient(sentinel: redis.Redis) -> redis.Redis:
    """The same Sentinel, asked once and not for long."""
    theirs = sentinel.connection_pool
    options = adopted_options(theirs)
    for name in ("socket_timeout", "socket_connect_timeout"):
        options[name] = min(options.get(name) or PATIENCE_S, PATIENCE_S)
    return redis.Redis(connection_pool=redis.ConnectionPool(connection_class=theirs.connection_class, **options))


def _shown(sentinel: redis.Redis) -> str:
    options = sentinel.connection_pool.connection_kwargs
    return host_port(options.get("host", "localhost"), options.get("port", 6379))
