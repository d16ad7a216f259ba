"""
RQ's own worker in the test's process, by the frozen clock.

RQ's code handles each job: status, registries, results, callbacks, retries, dependents. The loop is that of
``SimpleWorker.work(burst=True)`` without the parts of a process: no signal handlers, no thread that listens for
commands, no log handlers, no process title. While it works, RQ reads the test's clock: a job starts and ends at the
frozen time, ``Retry(interval=60)`` comes a frozen minute later, and no task is too slow because no time passes.

Not guaranteed: RQ's lifetimes (``result_ttl``) lapse by Redis' real clock, not by the frozen one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Final
from unittest.mock import patch

import redis
import rq.utils
from rq import SimpleWorker
from rq.job import Job
from rq.timeouts import BaseDeathPenalty

from zsched.core.clock import Clock, from_ms
from zsched.rq.plain import SERIALIZERS

_NAME: Final = "manual"  # the worker's name in the data of a run


class InlineWorker:
    """Executes queued jobs; *serializer* is "pickle" or "json"."""

    def __init__(self, client: redis.Redis, clock: Clock, serializer: str) -> None:
        self._client, self._clock = client, clock
        self._serializer = SERIALIZERS[serializer]
        self._raised: list[BaseException] = []  # by the present job

    def work(self, queues: Sequence[str], ended: Callable[[str, bool], None], raises: bool) -> None:
        """
        Execute jobs of *queues*, in their order, until all are empty. *ended* is called with each job's id, and whether
        it succeeded.

        Raises:
            Exception: with *raises*, the exception of the first failed task; later jobs stay queued.
            KeyboardInterrupt, SystemExit: raised by a task, in any case.
        """
        __tracebackhide__ = True
        with _rq_reads(self._clock):
            worker = _InProcess(
                list(queues),
                _NAME,
                connection=self._client,
                serializer=self._serializer,
                exception_handlers=[self._note],
            )
            worker.register_birth()  # type: ignore[no-untyped-call]  # RQ's
            try:
                while (taken := worker.dequeue_job_and_maintain_ttl(None)) is not None:
                    job, queue = taken
                    self._raised.clear()
                    worker.execute_job(job, queue)
                    ended(job.id, not self._raised)
                    for raised in self._raised:
                        if raises or isinstance(raised, KeyboardInterrupt | SystemExit):
                            raise raised.with_traceback(_from_the_task(raised.__traceback__))
            finally:
                worker.register_death()  # type: ignore[no-untyped-call]  # RQ's

    def close(self) -> None:
        """Close the connections."""
        self._client.connection_pool.disconnect()

    def _note(self, job: Job, kind: object, raised: BaseException, *_: object) -> bool:
        """Note the exception, as RQ's exception handler. Return True: RQ then handles the failure itself."""
        self._raised.append(raised)
        return True


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
