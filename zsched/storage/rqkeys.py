"""
Every key of RQ that zsched reads or writes, one function per key. ``keys.py`` has zsched's own keys.

All begin with one prefix: ``rq``, unless ``RQ_KEY_PREFIX`` is set; RQ 2 has no other. In scripts, ``scripts.py`` puts
the prefix and the kind in the place of ``RQ_<KIND>``. Names of jobs and queues may be bytes, because other programs
choose them, too.
"""

import os
import re
from collections.abc import Callable
from typing import Any, AnyStr, Final, Literal, Protocol

from zsched.config.bounds import RQ_PREFIX_FORM, RQ_PREFIX_REMEDY
from zsched.errors import ConfigError

RQ_PREFIX: Final = "rq"  # RQ's default
RQ_PREFIX_VARIABLE: Final = "RQ_KEY_PREFIX"  # of the environment, for RQ 3

Registry = Literal["canceled", "failed", "finished", "scheduled", "wip"]

# Keys of the package rq-scheduler, which has no prefix.
RQ_SCHEDULER_JOBS: Final = "rq:scheduler:scheduled_jobs"  # ZSET
RQ_SCHEDULER: Final = "rq:scheduler_instance:"  # HASH for each process, with its name at the end
RQ_SCHEDULER_LOCK: Final = "rq:scheduler_lock"  # STRING while one pushes


def prefix_of_environment() -> str:
    """Return the prefix that RQ 3 takes from this environment when it is imported."""
    return os.environ.get(RQ_PREFIX_VARIABLE) or RQ_PREFIX


class _Jobs(Protocol):
    redis_job_namespace_prefix: str


def prefix_of(job: _Jobs) -> str:
    """Return the prefix that *job*, RQ's or a class of RQ's, has in this process."""
    return job.redis_job_namespace_prefix.removesuffix(":job:")


class NamedKey:
    """
    A key with a fixed name: *name* is what follows the prefix in it. *type*: as Redis says it; "" for a channel or the
    beginning of a key.
    """

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: str = "") -> None:
        self.name, self.type = name, type

    def __get__(self, keys: Any, owner: object) -> Callable[[], str]:
        """Return the function of the key among *keys*, which have a ``prefix``."""
        text = keys.prefix + self.name
        return lambda: text


class RqKeys:
    """
    RQ's keys with one *prefix*; None: the environment's.

    Raises:
        ConfigError: the prefix has characters that RQ does not accept, or RQ 2 is installed, which has only ``rq``.
    """

    def __init__(self, prefix: str | None = None) -> None:
        prefix = prefix_of_environment() if prefix is None else prefix
        if not re.fullmatch(RQ_PREFIX_FORM, prefix):
            raise ConfigError(f"RQ's prefix={prefix!r}: {RQ_PREFIX_REMEDY}")
        if prefix != RQ_PREFIX:
            _demand_prefixes(prefix)
        self.prefix = prefix

    # -- one key ----------------------------------------------------------------------------

    queues = NamedKey(":queues", "set")  # full keys of all queues
    workers = NamedKey(":workers", "set")  # full keys of all workers
    limits = NamedKey(":rl-keys", "set")  # the keys of rate limits, since RQ 3

    def limit_waiting(self, limit: AnyStr) -> AnyStr:
        """ZSET: job id → second since which it waits for a slot of the rate limit *limit*."""
        return self._key("rl", limit + (":rate_limited" if isinstance(limit, str) else b":rate_limited"))

    def limit(self, limit: str) -> str:
        """HASH: ``concurrency``, the number of slots of the rate limit *limit*."""
        return self._key("rl", limit)

    def limit_allowed(self, limit: str) -> str:
        """ZSET: job id → second since which it has a slot of the rate limit *limit*."""
        return self._key("rl", f"{limit}:allowed")

    suspended = NamedKey(":suspended", "string")  # exists while workers are suspended by ``rq suspend``
    # Of zsched's guards: queue → number of jobs that ran and that ``enforce`` would have refused.
    warned = NamedKey(":zsched:warned", "hash")
    crons = NamedKey(":cron_schedulers", "zset")  # name of an ``rq cron`` → second of its last heartbeat

    # -- of a queue -------------------------------------------------------------------------

    def queue(self, name: AnyStr) -> AnyStr:
        """LIST: job ids, the next one first."""
        return self._key("queue", name)

    def queue_name(self, key: AnyStr) -> AnyStr:
        """Return the name of the queue at *key*."""
        return key.removeprefix(self._key("queue", key[:0]))

    def intermediate(self, queue: AnyStr) -> AnyStr:
        """LIST: jobs that a worker took and has not started."""
        return self.queue(queue + (":intermediate" if isinstance(queue, str) else b":intermediate"))

    def registry(self, registry: Registry, queue: AnyStr) -> AnyStr:
        """ZSET: job id (of *wip*: ``<job id>:<execution id>``) → second; see ``storage/jobs.py``."""
        return self._key(registry, queue)

    def queue_workers(self, queue: str) -> str:
        """SET: full keys of the workers that listen to *queue*."""
        return self._key("workers", queue)

    def scheduler_lock(self, queue: str) -> str:
        """STRING with EX: the mover of the delayed jobs: an RQ scheduler's name, or ``zsched:<namespace>``."""
        return self._key("scheduler-lock", queue)

    # -- of a job ---------------------------------------------------------------------------

    def job(self, run_id: AnyStr) -> AnyStr:
        """HASH: a job; a waiting one-shot has the status ``scheduled`` and our field ``zs``."""
        return self._key("job", run_id)

    def results(self, run_id: str) -> str:
        """STREAM: results of the attempts of a job."""
        return self._key("results", run_id)

    def executions(self, run_id: str) -> str:
        """ZSET: execution ids of a job that a worker has started."""
        return self._key("executions", run_id)

    # -- of a process -----------------------------------------------------------------------

    def worker(self, name: str) -> str:
        """HASH: a worker."""
        return self._key("worker", name)

    def worker_executions(self, name: str) -> str:
        """SET: ``<job id>:<execution id>`` of what a worker runs, since RQ 3; RQ 2 has ``current_job`` in its HASH."""
        return self.worker(f"{name}:executions")

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


def _demand_prefixes(prefix: str) -> None:
    from zsched.storage.rqversion import HAS_PREFIX, HERE  # reads RQ's metadata, which few need

    if not HAS_PREFIX:
        remedy = f"upgrade RQ to 3, or leave [rq] prefix and {RQ_PREFIX_VARIABLE} out"
        raise ConfigError(f"RQ's prefix={prefix!r}: RQ {HERE} here gives its keys no prefix; {remedy}")
