"""
The ground of a test's scheduler: its Redis, its clock, and a worker.

**Redis** is a new fakeredis, or a given Redis that must be empty. A given Redis is never emptied here; the caller does
that. Its data may be real schedules, which would fire by a test's clock, and real jobs, which would be executed in the
test.

**The worker** is RQ's own, in the test's process, by the frozen clock. RQ's code handles each job: status, registries,
results, callbacks, retries, dependents. The loop is that of ``SimpleWorker.work(burst=True)`` without the parts of a
process: no signal handlers, no thread that listens for commands, no log handlers, no process title. While it works, RQ
reads the test's clock: a job starts and ends at the frozen time, ``Retry(interval=60)`` comes a frozen minute later,
and no task is too slow because no time passes.

Not guaranteed: RQ's lifetimes (``result_ttl``) lapse by Redis' real clock, not by the frozen one.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Final
from unittest.mock import patch

import redis
import rq.utils
from rq import SimpleWorker
from rq.job import Job
from rq.timeouts import BaseDeathPenalty

from zsched.core.clock import Clock, ManualClock, SystemClock, from_ms
from zsched.core.wording import some
from zsched.errors import ConfigError
from zsched.rq.plain import SERIALIZERS
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys

# Archives are asked through Redis, and none answers here: each question waits for half of this. Besides that, only the
# time for repeating a lost call depends on it; the connections keep their own timeouts.
_PATIENCE_S: Final = 0.02


def new_fake() -> redis.Redis:
    """
    Make an empty Redis in this process.

    Raises:
        ConfigError: fakeredis, or the Lua that its scripts need, is not installed.
    """
    if missing := [name for name in ("fakeredis", "lupa") if find_spec(name) is None]:
        raise ConfigError(
            f"redis=None: {' and '.join(missing)} not installed; pip install 'zsched[testing]', or give a redis.Redis"
        )
    from fakeredis import FakeRedis, FakeServer  # imported only here: with a real Redis it is not needed

    made: redis.Redis = FakeRedis(server=FakeServer())
    return made


def link_to(client: Any) -> Link:
    """Make a link to the Redis of *client* that does not wait for archives. Raises ConfigError."""
    adopted = Link.adopt(client)
    return Link(adopted.pool, adopted.where, _PATIENCE_S)


def plain_client(client: Any) -> redis.Redis:
    """Make another client of the same Redis. It returns bytes, as RQ needs, and RQ may change its pool."""
    return redis.Redis(connection_pool=Link.adopt(client).pool)


def demand_empty(link: Link, keys: Keys) -> None:
    """Raise ConfigError if the Redis has data that a test could harm."""
    used = [key for key in (keys.meta(), keys.log(), keys.lease(), keys.archivers()) if link.execute("EXISTS", key)]
    used += sorted(key.decode(errors="backslashreplace") for key in link.execute("SMEMBERS", keys.rq.queues()))
    if used:
        raise ConfigError(
            f"redis at {link.where}, namespace {keys.namespace!r}: it is in use, there is {some(used, 3)}; give each "
            "test an empty database; zsched.testing does not empty it"
        )


# -- the clock --------------------------------------------------------------------------------------


class FrozenClock(ManualClock):
    """The leader's clock. Wall and monotonic clock move together, as the leader expects of a healthy server."""

    def __init__(self, wire: Wire, keys: Keys, owner: str, now_ms: int) -> None:
        super().__init__(wall_ms=now_ms)
        self._wire, self._keys, self._owner = wire, keys, owner

    def freeze(self) -> None:
        """Stop the namespace's clock. Raises ConfigError: another test has stopped it."""
        meta_key = self._keys.meta()
        if not self._wire.execute("HSETNX", meta_key, "frozen_by", self._owner):
            raise ConfigError(
                f"namespace={self._keys.namespace!r}: another test controls its clock; give each test an empty database"
            )
        self.tell()

    def thaw(self) -> None:
        """Let the clock run again: this owner could not lead."""
        self._wire.execute("HDEL", self._keys.meta(), "frozen_ms", "frozen_by")

    def tell(self) -> None:
        """Write the same time into Redis, where scripts see it."""
        self._wire.execute("HSET", self._keys.meta(), "frozen_ms", self.now_ms())


class ClientClock(SystemClock):
    """The clients' clock: the time of day is frozen, durations are real, so that every wait ends."""

    def __init__(self, frozen: Clock) -> None:
        self._frozen = frozen

    def now_ms(self) -> int:
        return self._frozen.now_ms()


_NAME: Final = "manual"  # the worker's name in the data of a run


def work(
    client: redis.Redis,
    clock: Clock,
    serializer: str,
    queues: Sequence[str],
    ended: Callable[[str, bool], None],
    raises: bool,
) -> None:
    """
    Execute jobs of *queues*, in their order, until all are empty; *serializer* is "pickle" or "json". *ended* is called
    with each job's id, and whether it succeeded.

    Raises:
        Exception: with *raises*, the exception of the first failed task; later jobs stay queued.
        KeyboardInterrupt, SystemExit: raised by a task, in any case.
    """
    __tracebackhide__ = True
    all_raised: list[BaseException] = []  # by the present job

    def note(job: Job, kind: object, raised: BaseException, *_: object) -> bool:
        """Note the exception, as RQ's exception handler. Return True: RQ then handles the failure itself."""
        all_raised.append(raised)
        return True

    with _rq_reads(clock):
        options: dict[str, Any] = {"connection": client, "serializer": SERIALIZERS[serializer]}
        worker = _InProcess(list(queues), _NAME, exception_handlers=[note], **options)
        worker.register_birth()  # type: ignore[no-untyped-call]  # RQ's
        try:
            while (taken := worker.dequeue_job_and_maintain_ttl(None)) is not None:
                job, queue = taken
                all_raised.clear()
                worker.execute_job(job, queue)
                ended(job.id, not all_raised)
                for raised in all_raised:
                    if raises or isinstance(raised, KeyboardInterrupt | SystemExit):
                        raise raised.with_traceback(_from_the_task(raised.__traceback__))
        finally:
            worker.register_death()  # type: ignore[no-untyped-call]  # RQ's


def _from_the_task(traceback: TracebackType | None) -> TracebackType | None:
    """Return *traceback* without RQ's frames above the task; all of it if it has only these."""
    found = traceback
    while found is not None and found.tb_frame.f_globals["__name__"].partition(".")[0] == "rq":
        found = found.tb_next
    return found or traceback


class _NoTimeout(BaseDeathPenalty):
    """No time limit: RQ's own uses SIGALRM, which may be the test runner's, and works only in the main thread."""

    def setup_death_penalty(self) -> None:
        pass

    def cancel_death_penalty(self) -> None:
        pass


class _InProcess(SimpleWorker):
    death_penalty_class = _NoTimeout

    def procline(self, message: str) -> None:
        pass


@contextmanager
def _rq_reads(clock: Clock) -> Iterator[None]:
    """Let RQ read *clock* inside the block: each of its modules has its own name for rq.utils' ``now``."""

    def now() -> datetime:
        return from_ms(clock.now_ms())

    machines = rq.utils.now
    modules: list[Any] = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "rq"]
    with ExitStack() as stack:
        for module in modules:
            if vars(module).get("now") is machines:
                stack.enter_context(patch.object(module, "now", now))
        yield
