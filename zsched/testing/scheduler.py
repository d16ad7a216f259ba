"""
A scheduler with a clock that the test advances.

``advance`` goes from one due time to the next: it sets the clock, the leader's own pass fires the due schedules, and so
on until the target. An hourly schedule that is advanced by three hours fires three times, each at its own time. With
``work=True`` fired runs are executed before time advances. So if a task schedules another one, that fires at its time,
too.

The term began long enough before ``start`` that no hold is left, and that nothing is in doubt. It holds the namespace's
one lease, like any daemon.

pytest shows the line of the test and the lines of its tasks, and none of this class (``__tracebackhide__``).

Not guaranteed: code that reads the machine's clock does not see the frozen time. Your own ``zsched.Client``s see it,
because they read it from Redis. ``ground``, ``runs`` and ``worker`` name other limits.
"""

from __future__ import annotations

import logging
import math
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import structlog

from zsched.client import Client
from zsched.config.reading import MOST_BYTES, read_file
from zsched.config.settings import DaemonSettings
from zsched.core.clock import LAST_MS, ManualClock, from_ms
from zsched.core.runs.run import Run
from zsched.core.triggers.zones import instant_ms
from zsched.daemon.releases import Native
from zsched.daemon.replan import CalendarReplanner
from zsched.daemon.tick import Tick, Ticker
from zsched.daemon.upkeep import PauseEnder, SlotKeeper
from zsched.errors import ConfigError, InvalidSchedule, RedisUnavailable, Stale, ZschedError
from zsched.files.applying import Application, Applied
from zsched.files.checking import ClientChecks
from zsched.files.reading import read
from zsched.storage.dispatch import Dispatch, NativeJobs, Unblocked, Window
from zsched.storage.keys import Keys
from zsched.storage.lease import Busy, Lease, Term
from zsched.storage.rqjob import Encoder
from zsched.storage.server import Server
from zsched.testing import ground
from zsched.testing.ground import ClientClock, FrozenClock
from zsched.testing.runs import Delayed, Fired, Runs

if TYPE_CHECKING:
    from zsched.aio import AsyncClient

_LEASE_MS: Final = 86_400_000  # it lapses by the machine's clock: longer than any stop at a breakpoint
_HEARD_EVERY_MS: Final = 1_800_000  # a leader without TIME for over an hour would report a jump of the clock
_MANY: Final = 500  # runs of one advance
_SLOW: Final = (
    f"more than {_MANY} runs in this advance; the fake Redis needs 10 to 20 ms for each: give an empty real one, "
    "many times faster: ManualScheduler(redis)"
)
_MOST_PASSES: Final = 10_000  # at one instant; more means a task that schedules itself for now


class ManualScheduler:
    """
    zsched in a test: ``client`` (or ``async_client``) schedules, ``advance`` fires, ``work`` executes.

    *redis*: a ``redis.Redis`` on an empty database; None: a new fakeredis. *start*: the time of the frozen clock, an
    aware datetime; None: 2026-01-01T00:00Z. It is a context manager; outside of ``with`` call ``close``.
    *overlap_patience_s*: with ``overlap="skip"``, how long a run that is not executed keeps the next run back: by
    default not at all. Give the daemon's 3600 to test *skip* itself.

    Raises:
        ConfigError: the Redis is in use, or fakeredis is missing. InvalidSchedule: *start* is naive.
    """

    def __init__(
        self,
        redis: Any = None,
        namespace: str = "default",
        *,
        start: datetime | None = None,
        serializer: str = "pickle",
        overlap_patience_s: int = 0,
    ) -> None:
        start_ms = ManualClock().now_ms() if start is None else instant_ms("start", start, None)
        self._keys, self._encoder = Keys(namespace), Encoder(serializer)
        self.redis = ground.new_fake() if redis is None else redis
        self._is_slow = type(self.redis).__module__.startswith("fakeredis")
        self._link = link = ground.link_to(self.redis)
        ground.demand_empty(link, self._keys)
        self._owner = f"manual{uuid.uuid4().hex}"
        self._wire = wire = link.open()
        self._clock = FrozenClock(wire, self._keys, self._owner, start_ms - _LEASE_MS)
        never = Native(NativeJobs(wire, self._keys), False, self._clock)  # `delayed` serves RQ's own jobs
        self._delayed = Delayed(wire, self._keys)
        settings = DaemonSettings(overlap_patience_s=overlap_patience_s)
        self._dispatch = Dispatch(wire, self._keys)
        self._calendars = CalendarReplanner(wire, self._keys, self._clock)
        self._ticker = Ticker(self._dispatch, never, settings, self._clock, calendars=self._calendars.present)
        self._slots = SlotKeeper(self._keys, self._clock).over(wire)
        self._pauses = PauseEnder(self._keys).over(wire)
        self._runs = Runs(wire, self._keys)
        self._workers = ground.plain_client(self.redis)
        self.client = Client(link, namespace, serializer=serializer, clock=ClientClock(self._clock))
        server = Server({"run_id": self._owner})  # fakeredis has no INFO
        self._lease = Lease(wire, self._keys, server, self._clock, self._owner, _LEASE_MS)
        self._term = self._lead()
        self._move_to(start_ms)

    @cached_property
    def async_client(self) -> AsyncClient:
        """The client for asyncio. Its calls hold the event loop."""
        from zsched.aio import AsyncClient

        clock = ClientClock(self._clock)
        return AsyncClient(self._link, self._keys.namespace, serializer=self._encoder.serializer, clock=clock)

    # -- time -----------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """Return the time for schedules: aware, in UTC. It is frozen between calls."""
        return from_ms(self._clock.now_ms())

    def advance(
        self,
        by: timedelta = timedelta(0),
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        work: bool = False,
        raises: bool = False,
    ) -> list[Fired]:
        """
        Advance the time by the sum of these, as ``advance_to``. Return the fired runs, each with its time, in order.

        Raises:
            InvalidSchedule: a negative time. With *raises*, a task's exception.
        """
        __tracebackhide__ = True
        whole = by + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self.advance_to(self.now + whole, work=work, raises=raises)

    def advance_to(self, when: datetime, *, work: bool = False, raises: bool = False) -> list[Fired]:
        """
        Advance the time to *when* (aware), with a stop at each due time, *when* included. Return the fired runs. With
        *work* all queued runs are executed at every stop. With *raises* a task's exception is raised here, and the
        clock stays there.

        Raises:
            InvalidSchedule: *when* is naive, or has passed.
            ZschedError: tasks schedule more runs for the same instant, without end.
        """
        __tracebackhide__ = True
        if (until_ms := instant_ms("when", when, None)) < self._clock.now_ms():
            raise InvalidSchedule("when", when, f"it is {self.now.isoformat()} already", "time does not go back here")
        found, next_ms = self._settle(work, raises)
        while next_ms <= until_ms:
            self._move_to(next_ms)
            now_fired, next_ms = self._settle(work, raises)
            found += now_fired
            if self._is_slow and len(found) > _MANY:
                self._is_slow = False
                warnings.warn(_SLOW, stacklevel=2)
        self._move_to(until_ms)
        return found

    def tick(self) -> list[Fired]:
        """Fire the schedules that are due now. Return the fired runs."""
        return self._fire()[0]

    # -- schedules ------------------------------------------------------------------------------------

    def apply(self, path: str | Path, owner: str | None = None) -> Applied:
        """
        Apply a file of schedules, as ``zsched apply`` does. Return the result of each. *owner*: None: the file's own.
        Functions that the test can import are checked; others are accepted.

        Raises:
            InvalidFile: with all mistakes; nothing was put. OSError: there is no such file.
            ZschedError: the first entry that could not be put; all other entries were put.
        """
        __tracebackhide__ = True
        checks = ClientChecks(self.client, folder=Path(path).parent)
        application = Application(self.client, read(str(path), read_file(path, MOST_BYTES), checks, owner))
        applied = application.carry_out(application.foretell(prune=False), lambda done: None)
        for _, error in applied.errors:
            raise error
        return applied

    # -- work -----------------------------------------------------------------------------------------

    def work(self, *queues: str, raises: bool = False) -> list[Run]:
        """
        Execute the runs in RQ's *queues*, in their order, or in all queues, in this process. Return the runs in the
        order of their ends; a run that is retried at once occurs several times. A task's exception makes a failed run;
        with *raises* the first one is raised here, and later runs stay queued.
        """
        __tracebackhide__ = True
        self._runs.new()
        worked: list[Run] = []

        def ended(run_id: str, went_well: bool) -> None:
            self._runs.new()  # a task may have pushed more
            worked.append(self._runs.ended(run_id, went_well, self._term))

        while names := self._filled(queues):
            ground.work(self._workers, self._clock, self._encoder.serializer, names, ended, raises)
        return worked

    # -- how ------------------------------------------------------------------------------------------

    def _lead(self) -> Term:
        """Begin a term, a lease ago. Raises ConfigError."""
        self._clock.freeze()
        won = self._lease.acquire()
        if isinstance(won, Busy):  # its term began between our check and the stop of the clock
            self._clock.thaw()
            raise ConfigError(
                f"namespace={self._keys.namespace!r}: a daemon leads there; give each test a Redis of its own"
            )
        self._ticker.begin(won)
        return won

    def _move_to(self, at_ms: int) -> None:
        """Advance the time; the leader gets TIME now and then, as with every renewal of its lease."""
        while self._clock.now_ms() < at_ms:
            self._clock.advance(min(at_ms - self._clock.now_ms(), _HEARD_EVERY_MS))
            self._ticker.observe(self._clock.now_ms(), self._clock.monotonic_ms())
        self._clock.tell()
        self._runs.expire(at_ms, self._term)

    def _settle(self, work: bool, raises: bool) -> tuple[list[Fired], int]:
        """Fire, and work, until nothing is due at this instant. Return the fired runs, and the next time to check."""
        __tracebackhide__ = True
        found: list[Fired] = []
        self._calendars.look()
        while self._calendars.step_if_free(self._term, Tick()):
            pass
        for _ in range(_MOST_PASSES):
            now_fired, next_ms = self._fire()
            found += now_fired
            if not work or not self.work(raises=raises):
                return found, next_ms
        problem = f"{_MOST_PASSES} rounds of execution left more work at this instant"
        raise ZschedError(f"{self.now.isoformat()}: {problem}; does a task schedule itself for now?")

    def _fire(self) -> tuple[list[Fired], int]:
        """Fire the schedules that are due now. Return the fired runs, and the next time to check."""
        now_ms = self._clock.now_ms()
        for _ in range(_MOST_PASSES):
            self._release()
            with _warnings_only():
                self._pauses.step(self._term)
                tick = self._ticker.tick(self._term)
            if (delayed_ms := self._delayed.due_ms()) <= now_ms:
                self._delayed.move(self._term)
            elif not tick.has_more:
                next_ms = min(_next_ms(tick, now_ms), delayed_ms, self._pauses.next_ms())
                return self._runs.fired(self._encoder), next_ms
        raise ZschedError(f"{self.now.isoformat()}: after {_MOST_PASSES} passes there is still something due")

    def _filled(self, queues: Sequence[str]) -> Sequence[str]:
        """Return *queues*, or all queues that RQ knows, if one of them has a job; else none."""
        self._release()
        names = queues or self._delayed.queues()
        return names if any(self._wire.execute("LLEN", self._keys.rq.queue(name)) for name in names) else ()

    def _release(self) -> None:
        """Release runs that wait for a run that is over (``overlap``), or for a slot of their rate limit."""
        # With fakeredis a check without chains takes a tenth of a pass.
        if self._wire.execute("EXISTS", self._keys.chains(), self._keys.rq.limits()):
            with _warnings_only():
                cursor = None
                while cursor != "0":
                    found = self._dispatch.unblock(self._term, Window(0, LAST_MS), cursor or "0")
                    cursor = found.cursor if isinstance(found, Unblocked) else "0"
                self._slots.step(self._term)

    # -- end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give up the lease. The namespace keeps its data and its stopped clock."""
        if not self._wire.is_broken:
            with suppress(Stale, RedisUnavailable):  # the test may have emptied it meanwhile
                self._delayed.release(self._term)
                self._lease.release(self._term)
            self._wire.close()
        self._workers.connection_pool.disconnect()
        self._link.pool.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _next_ms(tick: Tick, now_ms: int) -> int:
    """Return the time of a daemon's next pass, by the server's clock; a time after all times if nothing waits."""
    if tick.wait_ms is not None:
        return now_ms + max(math.ceil(tick.wait_ms), 1)
    return LAST_MS + 1 if tick.next_ms is None else tick.next_ms


@contextmanager
def _warnings_only() -> Iterator[None]:
    """Silence events below a warning unless structlog is configured: it would print every fire."""
    if structlog.is_configured():
        yield
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        yield
    finally:
        structlog.reset_defaults()
