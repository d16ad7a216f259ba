"""
Every key of RQ that zsched reads or writes, one function per key, as ``keys.py`` has zsched's own.

All of them begin with one prefix. RQ 2 has no other than ``rq``. Scripts have the same keys in ``lua/lib/rq.lua``;
``scripts.py`` puts the prefix in there. Names of jobs and queues may be bytes: other programs choose them too.
"""

from __future__ import annotations

import re
from typing import AnyStr, Final, Literal

from zsched.errors import ConfigError

RQ_PREFIX: Final = "rq"  # the one place that says so
_SAFE: Final = re.compile(r"[\w{}.:-]{1,64}", re.ASCII)  # within a text of Lua, and in a pattern of an ACL

Registry = Literal["canceled", "deferred", "failed", "finished", "ready", "scheduled", "wip"]

# Those of the package rq-scheduler, which knows no prefix.
RQ_SCHEDULER_JOBS: Final = "rq:scheduler:scheduled_jobs"  # ZSET
RQ_SCHEDULER: Final = "rq:scheduler_instance:"  # HASH for each process; its name follows
RQ_SCHEDULER_LOCK: Final = "rq:scheduler_lock"  # STRING while one pushes


class RqKeys:
    """The keys of RQ's with one prefix."""

    def __init__(self, prefix: str = RQ_PREFIX) -> None:
        if not _SAFE.fullmatch(prefix):
            raise ConfigError(f"RQ's prefix={prefix!r}: use 1 to 64 of a-z, A-Z, 0-9 and _ . : - {{ }}")
        self.prefix = prefix

    # -- one key ----------------------------------------------------------------------------

    def queues(self) -> str:
        """SET: full keys of all queues."""
        return f"{self.prefix}:queues"

    def workers(self) -> str:
        """SET: full keys of all workers."""
        return f"{self.prefix}:workers"

    def limits(self) -> str:
        """SET: the keys of rate limits, since RQ 3."""
        return f"{self.prefix}:rl-keys"

    def suspended(self) -> str:
        """STRING: it is there while workers take nothing, by ``rq suspend``."""
        return f"{self.prefix}:suspended"

    def crons(self) -> str:
        """ZSET: name of an ``rq cron`` → second of its last beat."""
        return f"{self.prefix}:cron_schedulers"

    # -- of a queue -------------------------------------------------------------------------

    def queue(self, name: AnyStr) -> AnyStr:
        """LIST: job ids, the next one first."""
        return self._key("queue", name)

    def queue_name(self, key: AnyStr) -> AnyStr:
        """Return the name of the queue that *key* is of."""
        return key.removeprefix(self._key("queue", key[:0]))

    def intermediate(self, queue: AnyStr) -> AnyStr:
        """LIST: jobs that a worker took and did not begin yet."""
        return self.queue(queue + (":intermediate" if isinstance(queue, str) else b":intermediate"))

    def registry(self, registry: Registry, queue: AnyStr) -> AnyStr:
        """ZSET: job id (of *wip*: ``<job id>:<execution id>``) → second; see ``storage/registries.py``."""
        return self._key(registry, queue)

    def queue_workers(self, queue: str) -> str:
        """SET: full keys of the workers that listen to *queue*."""
        return self._key("workers", queue)

    def scheduler_lock(self, queue: str) -> str:
        """STRING with EX: who moves the delayed jobs: an RQ scheduler's name, or ``zsched:<namespace>``."""
        return self._key("scheduler-lock", queue)

    # -- of a job ---------------------------------------------------------------------------

    def job(self, run_id: AnyStr) -> AnyStr:
        """HASH: a job; a one-shot that waits is one with status ``scheduled`` and our field ``zs``."""
        return self._key("job", run_id)

    def results(self, run_id: str) -> str:
        """STREAM: how the attempts of a job ended."""
        return self._key("results", run_id)

    def executions(self, run_id: str) -> str:
        """ZSET: execution ids of a job that a worker has begun."""
        return self._key("executions", run_id)

    # -- of a process -----------------------------------------------------------------------

    def worker_name(self, key: str) -> str:
        """Return the name of the worker whose HASH is at *key*."""
        return key.removeprefix(self._key("worker", ""))

    def pubsub(self, worker: str) -> str:
        """Channel: commands for a worker."""
        return self._key("pubsub", worker)

    def scheduler(self, name: str) -> str:
        """HASH: hostname, pid, … of an RQ scheduler, since RQ 2.10."""
        return self._key("scheduler", name)

    def cron(self, name: str) -> str:
        """HASH: about an ``rq cron``."""
        return self._key("cron_scheduler", name)

    def _key(self, kind: str, name: AnyStr) -> AnyStr:
        head = f"{self.prefix}:{kind}:"
        return head + name if isinstance(name, str) else head.encode() + name
