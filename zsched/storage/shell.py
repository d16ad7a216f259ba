"""
Commands for people to copy, which reach the Redis that was asked: ``redis-cli`` and RQ's own.

Other commands, such as ``zsched retry``, read the settings of the person who types them.
"""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from zsched.storage.connection import Link
from zsched.storage.remedies import Endpoint
from zsched.storage.rqkeys import RQ_PREFIX, RQ_PREFIX_VARIABLE, RqKeys


class Shell(NamedTuple):
    """Writes commands for the Redis of *link*, and for workers with this serializer and this prefix of keys."""

    link: Link
    serializer: str = "pickle"
    rq_prefix: str = RQ_PREFIX

    def written(self, command: Sequence[object]) -> str:
        """
        Return *command* for a shell.

        ``redis-cli`` gets host and port, but no user: the user of the settings seldom has the rights that a remedy
        needs. Behind Sentinels the host is MASTER, because it changes; in a Cluster it is OWNER. ``rq`` gets prefix and
        URL by the environment: RQ reads the prefix only there, and all users may read arguments. ``rq worker`` gets the
        namespace's serializer. RQ reads Sentinels only from a module. So behind them ``zsched worker`` is named, which
        reads the settings, and for ``rq resume`` its effect.
        """
        words = list(map(str, command))
        if words[:2] == ["rq", "worker"] and any(queue.startswith("-") for queue in words[2:]):
            words.insert(2, "--")  # an option, such as --worker-class, would let it import a name from Redis
        if words[0] == "rq" and self.link.finds_master and not self.link.is_to_cluster:
            is_resume = words[1] == "resume"
            words = ["redis-cli", "DEL", RqKeys(self.rq_prefix).suspended()] if is_resume else ["zsched", *words[1:]]
        if words[0] == "redis-cli":
            return self._server.cli(*words[1:])
        return self._for_rq(words) if words[0] == "rq" else shlex.join(words)

    def _for_rq(self, words: list[str]) -> str:
        if words[1] == "worker" and self.serializer == "json":
            words[2:2] = ["--serializer", "json"]
        prefix = "" if self.rq_prefix == RQ_PREFIX else f"{RQ_PREFIX_VARIABLE}={shlex.quote(self.rq_prefix)} "
        if self.link.is_to_cluster:
            words[2:2] = ["--connection-class", "zsched.cluster.ClusterRedis"]
        given, where = self.link.pool.connection_kwargs, self.link.where
        who = "USER:PASSWORD@" if given.get("username") else ":PASSWORD@" if given.get("password") else ""
        if who or self.link.is_to_cluster or self._server.cli() != "redis-cli":  # RQ needs options, too
            url = where if "://" in where else self._server.url  # of an adopted client there is no URL
            named = re.sub("://([^/?@]*@)?", f"://{who}", url, count=1)  # USER and PASSWORD are the worker's own
            prefix += f"RQ_REDIS_URL={shlex.quote(named)} "
        return prefix + shlex.join(words)

    @property
    def _server(self) -> Endpoint:
        name = {"host": "OWNER" if self.link.is_to_cluster else "MASTER"} if self.link.finds_master else {}
        return Endpoint.of_pool(self.link.pool, **name)
