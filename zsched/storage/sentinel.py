"""
Redis behind Sentinels: every new connection asks for the master, and the server must confirm its role.

redis-py asks the Sentinels (``redis.sentinel``) and keeps the pool (``found``). Added here, by the guidelines for
Sentinel clients:

- ROLE is the first command of a connection. A Sentinel that was cut off still names the old master, which may now be a
  replica that lags behind. Then another Sentinel is asked first.
- If a discovery fails, its error names the Sentinels and their answers.
- A worker's pool uses the master that it found last while no Sentinel answers (``remember_master``). Its open
  connections are used then, too; a work-horse has none after its fork, and would end its job. Others ask again.
- All connections of a link move together (``found``). After a requested failover, an old master may accept writes for
  ten seconds, until Sentinel turns it into a replica and these writes are lost.

Not guaranteed: that there is only one master (``min-replicas-to-write`` stops writes to an old one at once).
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

from zsched.config.urls import SentinelUrl, host_port
from zsched.errors import ConfigError
from zsched.storage.found import FoundPool, Unfound, adopted_options, impatient, our_options
from zsched.storage.remedies import Endpoint


class Pool(FoundPool):
    """A pool of connections to the present master."""

    def __init__(self, master: str, discovery: Discovery, **options: Any) -> None:
        hosts = ",".join(_shown(one) for one in discovery.sentinels)
        super().__init__(master, discovery, "sentinel", f"{hosts}/{master}/{options.get('db') or 0}", **options)

    @classmethod
    def by_url(cls, url: str, **options: Any) -> Pool:
        """
        Return a pool for a ``redis+sentinel://`` URL. *options* apply to connections to master and Sentinels, except
        the password, which is the master's. The URL's options override them.

        Raises:
            ConfigError: the file with the Sentinels' password cannot be read. ValueError: not such a URL.
        """
        parsed = SentinelUrl.parse(url)
        to_master = {**options, **parse_url(parsed.plain), **our_options()}  # type: ignore[no-untyped-call]  # redis-py's
        is_tls = to_master.pop("connection_class", None) is redis.SSLConnection
        to_sentinels = {k: v for k, v in options.items() if k != "password"} | _of_sentinels(parsed)
        if to_sentinels.get("ssl"):
            to_sentinels |= {name: value for name, value in to_master.items() if name.startswith("ssl_")}
        manager = Sentinel(parsed.sentinels, sentinel_kwargs=impatient(to_sentinels))  # type: ignore[no-untyped-call]  # redis-py's
        to_master["connection_class"] = SentinelManagedSSLConnection if is_tls else SentinelManagedConnection
        return cls(parsed.master, Discovery(manager), **to_master)

    @classmethod
    def adopt(cls, theirs: SentinelConnectionPool) -> Pool:
        """
        Return a pool that finds the master as *theirs* does.

        Raises:
            ConfigError: *theirs* is a pool of replicas, or does not use a ``Sentinel``.
        """
        if not theirs.is_master:
            raise ConfigError("redis=a client of replicas, which take no writes: give one by Sentinel.master_for(…)")
        options = {name: value for name, value in adopted_options(theirs).items() if name != "connection_pool"}
        return cls(theirs.service_name, Discovery.of(theirs), connection_class=theirs.connection_class, **options)


def remember_master(pool: redis.ConnectionPool) -> None:
    """Let a worker's *pool*, if it is behind Sentinels, use the last master while none answers, also after a fork."""
    if not isinstance(pool, SentinelConnectionPool) or not pool.is_master:
        return
    if isinstance(pool.sentinel_manager, Sentinel | Discovery):  # else it follows a slot
        pool.sentinel_manager = pool.proxy.sentinel_manager = Discovery.of(pool)
        pool.sentinel_manager.remembers = True


class Discovery:
    """
    Finds the master for a ``SentinelConnectionPool``, by redis-py's ``Sentinel``. *last*: the master that was found
    last, if any. ``remembers``: True if that is used while no Sentinel answers.

    Thread-safe. redis-py's is not: two threads that move a Sentinel to the front may lose one.
    """

    def __init__(self, manager: Sentinel, last: tuple[str, int] | None = None) -> None:
        self._manager, self._last, self.remembers = manager, last, False
        self.sentinels: list[redis.Redis] = list(manager.sentinels)

    @classmethod
    def of(cls, theirs: SentinelConnectionPool) -> Discovery:
        """
        Return one that finds the master as *theirs* does, without retries and with short timeouts.

        Raises:
            ConfigError: *theirs* does not use a ``Sentinel``.
        """
        manager = theirs.sentinel_manager
        if isinstance(manager, Discovery):
            return manager
        if not isinstance(manager, Sentinel):
            found_by = type(manager).__name__
            raise ConfigError(f"redis=a client by a {found_by}, not by a Sentinel: give one by Sentinel.master_for(…)")
        impatient = copy.copy(manager)
        impatient.sentinels = [_impatient(one) for one in manager.sentinels]
        return cls(impatient, theirs.master_address)

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """
        Return the address of the master from the first Sentinel that knows one, or else the remembered one.

        Raises:
            Unfound: no Sentinel knows one; the message has the reasons, and the remedy.
        """
        asked = [_Asked(one) for one in self.sentinels]
        once: Any = copy.copy(self._manager)
        once.sentinels = list(asked)
        try:
            address: tuple[str, int] = once.discover_master(service_name)
        except MasterNotFoundError as error:
            if self.remembers and self._last is not None and all(one.problem for one in asked):
                return self._last
            raise Unfound(*_no_master(asked, service_name)) from error
        self.sentinels, self._last = [one.sentinel for one in once.sentinels], address
        return address

    def greet(self, connection: Any) -> None:
        """
        Refuse a new *connection* that is not to a master.

        Raises:
            Unfound: the server is a replica.
        """
        connection.send_command("ROLE", check_health=False)
        try:
            role = connection.read_response()[0].decode()
        except redis.exceptions.NoPermissionError:
            return  # an ACL without ROLE: a replica answers READONLY to the first write
        if role != "master":
            self.sentinels, self._last = self.sentinels[1:] + self.sentinels[:1], None
            problem = f"{connection.host}:{connection.port}, master by its Sentinel, is a {role} now"
            raise Unfound(problem, f"another master is named soon; if not, {_names(self.sentinels[-1])}")


class _Asked:
    """A Sentinel during one discovery, and its answer."""

    def __init__(self, sentinel: redis.Redis) -> None:
        self.sentinel, self.masters, self.problem = sentinel, dict[str, Any](), ""

    def sentinel_masters(self) -> dict[str, Any]:
        """Return the masters, for ``Sentinel.discover_master``. Raises redis.ConnectionError for any error."""
        try:
            self.masters = cast(dict[str, Any], self.sentinel.sentinel_masters())
        except redis.RedisError as error:  # also from a server that is not a Sentinel, where redis-py would stop
            self.problem = str(error) or type(error).__name__
            raise redis.ConnectionError(self.problem) from error
        return self.masters


def _no_master(asked: list[_Asked], master: str) -> tuple[str, str]:
    """Return the reason why no master was found, and the remedy."""
    answering = [one for one in asked if not one.problem]
    silent = "; ".join(f"{_shown(one.sentinel)}: {one.problem}" for one in asked if one.problem)
    if not answering:
        ping = Endpoint.of_pool(asked[0].sentinel.connection_pool).cli("PING")
        return f"no Sentinel answers ({silent})", f"start them, or correct their addresses or password: {ping}"
    rest = f" (not asked: {silent})" if silent else ""
    if not any(master in one.masters for one in answering):
        known = ", ".join(sorted({name for one in answering for name in one.masters})) or "none at all"
        problem = f"the Sentinels know no master {master!r}, but {known}{rest}"
        return problem, f"correct its name in [redis] url; {_names(answering[0].sentinel)}"
    told = Endpoint.of_pool(answering[0].sentinel.connection_pool).cli(*f"SENTINEL REPLICAS {master}".split())
    problem = f"the Sentinels know of no living master {master!r} now{rest}"
    return problem, f"one is chosen soon; if not, start its servers, which this lists: {told}"


def _names(sentinel: redis.Redis) -> str:
    return f"this shows what they know: {Endpoint.of_pool(sentinel.connection_pool).cli(*'SENTINEL MASTERS'.split())}"


def _of_sentinels(parsed: SentinelUrl) -> dict[str, Any]:
    """Return the options of redis-py's client for the connections to the Sentinels."""
    given = parsed.options
    options: dict[str, Any] = {"username": given.get("sentinel_username"), "password": given.get("sentinel_password")}
    if "sentinel_password_file" in given:
        from zsched.config.reading import read_password_file  # others need not wait for it

        options["password"] = read_password_file(given["sentinel_password_file"], "sentinel_password_file")
    if given.get("sentinel_ssl") == "true":
        options["ssl"] = True
    return options


def _impatient(sentinel: redis.Redis) -> redis.Redis:
    """Return a client of the same Sentinel, without retries and with a short timeout."""
    theirs = sentinel.connection_pool
    options = impatient(adopted_options(theirs))
    return redis.Redis(connection_pool=redis.ConnectionPool(connection_class=theirs.connection_class, **options))


def _shown(sentinel: redis.Redis) -> str:
    options = sentinel.connection_pool.connection_kwargs
    return host_port(options.get("host", "localhost"), options.get("port", 6379))
