"""Commands to copy into a shell, as remedies have them at their end: each reaches the Redis that was looked at."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import redis

from zsched.health.check import Finding
from zsched.storage.connection import Link

_HOSTS: Final = ("localhost", "127.0.0.1")  # where redis-cli and RQ go by themselves
_PORT: Final = 6379


@dataclass(frozen=True, slots=True)
class Shell:
    """Writes commands for the Redis of *link*, and for workers that read payloads by *serializer*."""

    link: Link
    serializer: str = "pickle"

    def completed(self, finding: Finding) -> Finding:
        """Return *finding* with its command at the end of the remedy."""
        if not finding.command:
            return finding
        remedy = ": ".join(filter(None, (finding.remedy, self.written(finding.command))))
        return replace(finding, remedy=remedy, command=())

    def written(self, command: Sequence[object]) -> str:
        """
        Return *command* as a shell reads it. ``redis-cli`` gets host and port, but no user: the one of the settings
        may seldom do what a remedy needs. Behind Sentinels the host is MASTER, as it is another one tomorrow. ``rq
        worker`` gets the namespace's serializer, and its URL in the environment, as all users may read arguments. RQ
        takes Sentinels from a module alone, so then the URL is left out.
        """
        words = list(map(str, command))
        if words[0] == "redis-cli":
            return shlex.join(["redis-cli", *self._server(), *words[1:]])
        if words[:2] == ["rq", "worker"]:
            if self.serializer == "json":
                words[2:2] = ["--serializer", "json"]
            url = "" if self.link.finds_master or self._is_usual else f"RQ_REDIS_URL={shlex.quote(self._url)} "
            return url + shlex.join(words)
        return shlex.join(words)

    @property
    def _given(self) -> dict[str, Any]:
        return dict(self.link.pool.connection_kwargs)

    @property
    def _has_tls(self) -> bool:
        return issubclass(self.link.pool.connection_class, redis.SSLConnection)

    def _server(self) -> list[str]:
        host, port, path, db = (self._given.get(name) for name in ("host", "port", "path", "db"))
        words: list[Any] = []
        if path:
            words += ["-s", path]
        elif self.link.finds_master:
            words += ["-h", "MASTER"]
        else:
            words += ["-h", host] if host and host not in _HOSTS else []
            words += ["-p", port] if port and port != _PORT else []
        words += ["--tls"] if self._has_tls else []
        words += ["-n", db] if db else []
        return list(map(str, words))

    @property
    def _is_usual(self) -> bool:
        """True if RQ goes there by itself."""
        given = self._given
        has_more = given.get("db") or given.get("password") or given.get("username") or self._has_tls
        return not has_more and given.get("host") in _HOSTS and given.get("port", _PORT) == _PORT

    @property
    def _url(self) -> str:
        """The URL, with USER and PASSWORD for a worker's own."""
        given = self._given
        who = "USER:PASSWORD@" if given.get("username") else ":PASSWORD@" if given.get("password") else ""
        return re.sub("://([^/?@]*@)?", f"://{who}", self.link.where, count=1)
