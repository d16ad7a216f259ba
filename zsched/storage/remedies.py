"""
Remedies for a Redis that does not answer, by the part that failed: a server, its TLS, a slot, or what finds the server;
and for one that refuses writes.

A remedy is made where the error is born, so that every view gives the same one. It ends with a command for a shell. An
error of a call and a look at the server (``storage.server``) both lead to a ``WriteRefusal``, so that a client, the log
of a daemon, ``zsched status`` and ``zsched doctor`` use the same words.
"""

import re
import ssl
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Self

import redis

from zsched.config.urls import host_port

_HOSTS: Final = ("localhost", "127.0.0.1")  # the default of redis-cli and RQ
_PORT: Final = 6379
TRUST: Final = "set the CA in [redis] url (?ssl_ca_certs=/path/of/ca.crt), and use the host of the certificate"
ASKED_AGAIN: Final = "nothing to do: the next call asks the right server"
MORE_CONNECTIONS: Final = "allow more (?max_connections=… in the URL), or let fewer threads call it at once"
_TLS: Final = (
    "let [redis] url begin with rediss:// only for a TLS port, and name the certificate that Redis asks for "
    "(?ssl_certfile=…&ssl_keyfile=…)"
)


class Endpoint:
    """One Redis server as a remedy names it; *given*: the options of a connection to it. No option is a password."""

    def __init__(self, given: Mapping[str, Any], *, is_tls: bool) -> None:
        self._host, self._port = given.get("host") or _HOSTS[0], given.get("port") or _PORT
        self._path, self._db, self._is_tls = given.get("path"), given.get("db"), is_tls

    @classmethod
    def of(cls, connection: Any) -> Self:
        """Return the server at the other end of *connection*."""
        return cls(vars(connection), is_tls=isinstance(connection, redis.SSLConnection))

    @classmethod
    def of_pool(cls, pool: redis.ConnectionPool, **found: Any) -> Self:
        """Return the server of *pool*, as far as it is known, with what else was *found*."""
        return cls({**pool.connection_kwargs, **found}, is_tls=issubclass(pool.connection_class, redis.SSLConnection))

    @property
    def url(self) -> str:
        """Its URL, without user and password."""
        if self._path:
            return f"unix://{self._path}?db={self._db or 0}"
        return f"redis{'s' if self._is_tls else ''}://{host_port(self._host, self._port)}/{self._db or 0}"

    def cli(self, *words: object) -> str:
        """Return the command ``redis-cli`` to this server, with *words*."""
        to: list[object] = ["-s", self._path] if self._path else []
        if not self._path:
            to += ["-h", self._host] if self._host not in _HOSTS else []
            to += ["-p", self._port] if self._port != _PORT else []
        to += ["--tls"] if self._is_tls else []
        to += ["-n", self._db] if self._db else []
        return _joined("redis-cli", *to, *words)

    def cluster_check(self) -> str:
        """Return the command that shows the state of its Cluster."""
        tls = ["--tls"] if self._is_tls else []
        return _joined("redis-cli", *tls, "--cluster", "check", host_port(self._host, self._port))

    def when_silent(self, error: BaseException | None = None) -> str:
        """Return the remedy when it does not answer, or not with TLS."""
        return _TLS if _is_of_tls(error) else f"start Redis, or repair the connection to it: {self.cli('PING')}"

    def when_slot_moves(self) -> str:
        """Return the remedy while keys of the slot are moved from or to it."""
        return f"it is used again when it is whole; if that lasts, see the Cluster: {self.cluster_check()}"

    def when_busy(self, error: redis.RedisError) -> str:
        """Return the remedy while it answers that it cannot work now."""
        if isinstance(error, redis.BusyLoadingError):
            return f"wait until it has loaded its data; this shows the progress: {self.cli('INFO', 'persistence')}"
        if isinstance(error, redis.exceptions.ClusterDownError):
            return f"start the nodes that are missing: {self.cluster_check()}"
        if str(error).startswith("BUSY "):
            return f"wait for the script that runs there, or end it: {self.cli('SCRIPT', 'KILL')}"
        return ASKED_AGAIN


def _joined(*words: object) -> str:
    from shlex import join  # a client without an error need not wait for it

    return join(map(str, words))


def _is_of_tls(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None


# Redis 6.2 wraps the errors of a script's commands: "Error running script (…): … -MISCONF …".
_CODE: Final = re.compile(r"(?:^|^(?:ERR )?Error running script .*: -)(READONLY|NOREPLICAS|OOM|MISCONF) ", re.DOTALL)


class WriteRefusal(Enum):
    """Reason of Redis to refuse writes: the cause, about Redis; the remedy for operators; and the code of its error."""

    REPLICA = (
        "it is a replica",
        "give [redis] url the master's address, or name the Sentinels, which know it",
        "READONLY",
    )
    FEW_REPLICAS = "too few replicas are in sync (min-replicas-to-write)", "bring the replicas back", "NOREPLICAS"
    FULL = "it is full (maxmemory)", "free memory, or raise maxmemory", "OOM"
    UNSAVED = (
        "it cannot save its data to its disk",
        "look at the log of Redis and at its disk; it accepts writes again after the next save",
        "MISCONF",
    )

    def __init__(self, sentence: str, remedy: str, code: str) -> None:
        self.sentence, self.remedy, self.code = sentence, remedy, code

    @classmethod
    def from_error(cls, error: BaseException | None) -> Self | None:
        """Return the member for an error reply; None for another error."""
        if isinstance(error, redis.ReadOnlyError):  # redis-py takes the code off
            return cls.REPLICA
        if isinstance(error, redis.OutOfMemoryError):
            return cls.FULL
        found = _CODE.search(str(error))
        return next((member for member in cls if found and found[1] == member.code), None)
