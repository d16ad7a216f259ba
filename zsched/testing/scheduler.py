"""
A scheduler that a test turns by hand.

``advance`` goes from one due time to the next: the clock is set to it, the leader's own pass fires what is due, and so
on until the target. An hourly schedule that is advanced by three hours fires three times, each at its own time. With
``work=True`` what was fired is executed before time goes on, so a task that schedules the next one finds it fired at
its time.

The daemon began long enough before ``start`` that no hold is left, and that nothing is in doubt. It holds the
namespace's one lease, like any other.

Not guaranteed: that what calls the machine's clock sees this one (``zsched.Client``s of the product do, since Redis
tells them); see ``ground``, ``runs`` and ``worker`` for the rest of what time does not reach.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import structlog

from zsched.client import Client
from zsched.config import DaemonSettings
from zsched.core.arguments import instant_ms
from zsched.core.clock import LAST_MS, ManualClock, from_ms
from zsched.core.runs import Run
from zsched.daemon.chains import ChainKeeper
from zsched.daemon.native import Native
from zsched.daemon.slots import SlotKeeper
from zsched.daemon.tick import Tick, Ticker
from zsched.errors import ConfigError, InvalidSchedule, RedisUnavailable, Stale, ZschedError
from zsched.files import Application, Applied, ClientChecks, read
from zsched.storage.dispatch import Dispatch
from zsched.storage.keys import Keys
from zsched.storage.lease import Busy, Lease, Server, Term
from zsched.storage.native import NativeJobs
from zsched.storage.rqjob import Encoder
from zsched.testing import ground
from zsched.testing.ground import ClientClock, FrozenClock
from zsched.testing.runs import Delayed, Fired, ManualDeadlines, ManualEndings, Push, Pushes, fired
from zsched.testing.worker import InlineWorker

_LEASE_MS: Final = 86_400_000  # it lapses by the machine's clock: longer than anybody looks at a breakpoint
_HEARD_EVERY_MS: Final = 1_800_000  # a leader that hears nothing of TIME for over an hour takes it for a jump
_MOST_PASSES: Final = 10_000  # at one instant; more is a task that schedules itself for now


class ManualScheduler:
    """
    zsched in a test: ``client`` schedules, ``advance`` fires, ``work`` executes.

    *redis*: a ``redis.Redis`` on an empty database; None: a new fakeredis. *start*: an aware datetime, where the clock
    stands; None: 2026-01-01T00:00Z. It is a context manager; outside of ``with`` call ``close``.

    *overlap_patience_s*: for how long a run that nobody executes keeps the next one back with ``overlap="skip"``. 0:
    not at all, so that ``advance`` without ``work`` fires everything; the daemon's is 3600, for a test of what *skip*
    does. The other policies know no patience: without ``work`` runs wait until ``overlap_limit`` has no room for more,
    or are withdrawn when the next one fires.

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
        self._link = link = ground.link_to(self.redis)
        ground.demand_empty(link, self._keys)
        self._owner = f"manual{uuid.uuid4().hex}"
        self._wire = wire = link.open()
        self._clock = FrozenClock(wire, self._keys, self._owner, start_ms - _LEASE_MS)
        never = Native(NativeJobs(wire, self._keys), False, self._clock)  # RQ's own jobs are `delayed`'s
        self._delayed = Delayed(wire, self._keys)
        settings = DaemonSettings(overlap_patience_s=overlap_patience_s)
        self._ticker = Ticker(Dispatch(wire, self._keys), never, settings, self._clock)
        self._chains = ChainKeeper(self._keys, self._clock, settled_ms=0.0).over(wire)
        self._slots = SlotKeeper(self._keys, self._clock).over(wire)
        self._pushes, self._deadlines = Pushes(wire, self._keys), ManualDeadlines(wire, self._keys)
        self._endings = ManualEndings(wire, self._keys, self._pushes)
        self._worker = InlineWorker(ground.plain_client(self.redis), self._clock, serializer)
        self.client = Client(link, namespace, serializer=serializer, clock=ClientClock(self._clock))
        server = Server(self._owner, "", "master", 0, "noeviction")  # fakeredis has no INFO to ask
        self._lease = Lease(wire, self._keys, server, self._clock, self._owner, _LEASE_MS)
        self._term = self._lead()
        self._move_to(start_ms)

    # -- time -----------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The time for schedules: aware, in UTC. It stands still between calls."""
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
        Let so much time pass; the runs that were fired, each at its time, in order. As ``advance_to``.

        Raises:
            InvalidSchedule: less than nothing. With *raises*, what a task raised.
        """
        whole = by + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self.advance_to(self.now + whole, work=work, raises=raises)

    def advance_to(self, when: datetime, *, work: bool = False, raises: bool = False) -> list[Fired]:
        """
        Let time pass until *when* (aware), stopping wherever something is due, that instant included; the runs that
        were fired.

        With *work* the queues are worked empty at every stop, before time goes on. With *raises* a task's exception is
        raised here; the clock stands at its time then.

        Raises:
            InvalidSchedule: *when* is naive, or has passed.
            ZschedError: what is executed schedules more for the same instant, without end.
        """
        until_ms = instant_ms("when", when, None)
        if until_ms < self._clock.now_ms():
            raise InvalidSchedule("when", when, f"it is {self.now.isoformat()} already", "time does not go back here")
        found, next_ms = self._settle(work, raises)
        while next_ms <= until_ms:
            self._move_to(next_ms)
            now_fired, next_ms = self._settle(work, raises)
            found += now_fired
        self._move_to(until_ms)
        return found

    def tick(self) -> list[Fired]:
        """Fire what is due at this moment, without letting time pass; the runs that were fired."""
        return self._fire()[0]

    # -- schedules ------------------------------------------------------------------------------------

    def apply(self, path: str | Path, owner: str | None = None) -> Applied:
        """
        Put what a file of schedules says, as ``zsched apply`` does; what became of each. *owner*: None: the file's own.

        Functions are checked, and options of tasks used, where the test can import them; others are taken as they are.

        Raises:
            InvalidFile: with all mistakes; nothing was put. OSError: there is no such file.
            ZschedError: an entry could not be put, the first such; all others are.
        """
        said = read(str(path), Path(path).read_bytes(), ClientChecks(self.client), owner)
        application = Application(self.client, said)
        applied = application.run(application.compare(), [], lambda done: None)
        for _, error in applied.errors:
            raise error
        return applied

    # -- work -----------------------------------------------------------------------------------------

    def work(self, *queues: str, raises: bool = False) -> list[Run]:
        """
        Execute what is in RQ's *queues*, the first before the others, or in all that RQ knows, in this process; the
        runs as they ended, in order, one that is tried again at once several times.

        A task's exception makes a failed run, as in any worker; with *raises* the first one is raised here, and what
        comes behind it stays queued. Time stands still meanwhile.
        """
        self._look()
        worked: list[Run] = []
        while names := self._filled(queues):
            self._worker.work(names, lambda run_id, went_well: worked.append(self._ended(run_id, went_well)), raises)
        return worked

    # -- how ------------------------------------------------------------------------------------------

    def _lead(self) -> Term:
        """A term that began a lease ago. Raises ConfigError."""
        self._clock.freeze()
        won = self._lease.acquire(uuid.uuid4().hex)
        if isinstance(won, Busy):  # it began between our look and our stopping the clock
            self._clock.thaw()
            raise ConfigError(
                f"namespace={self._keys.namespace!r}: a daemon leads there; give each test a Redis of its own"
            )
        self._ticker.begin(won)
        return won

    def _move_to(self, at_ms: int) -> None:
        """Time passes, and the leader hears of it now and then, as with every renewal of its lease."""
        while self._clock.now_ms() < at_ms:
            self._clock.move_to(min(at_ms, self._clock.now_ms() + _HEARD_EVERY_MS))
            self._ticker.observe(self._clock.now_ms(), self._clock.monotonic_ms())
        self._clock.tell()
        for run_id in self._deadlines.expire(at_ms):
            self._endings.of(run_id, False, self._term)

    def _settle(self, work: bool, raises: bool) -> tuple[list[Fired], int]:
        """Fire, and work, until this instant has nothing more; the runs that were fired, and when to look again."""
        found: list[Fired] = []
        for _ in range(_MOST_PASSES):
            now_fired, next_ms = self._fire()
            found += now_fired
            if not work or not self.work(raises=raises):
                return found, next_ms
        problem = f"{_MOST_PASSES} times what was executed left more to do at this instant"
        raise ZschedError(f"{self.now.isoformat()}: {problem}; does a task schedule itself for now?")

    def _fire(self) -> tuple[list[Fired], int]:
        """Fire what is due now; the runs that were fired, and when to look again."""
        now_ms = self._clock.now_ms()
        for _ in range(_MOST_PASSES):
            self._release()
            with _warnings_only():
                tick = self._ticker.tick(self._term)
            delayed_ms = self._delayed.due_ms()
            if delayed_ms <= now_ms:
                self._delayed.move(self._term)
            elif not tick.has_more:
                return fired(self._look(), self._encoder), min(_next_ms(tick, now_ms), delayed_ms)
        raise ZschedError(f"{self.now.isoformat()}: after {_MOST_PASSES} passes there is still something due")

    def _filled(self, queues: Sequence[str]) -> Sequence[str]:
        """*queues*, or all that RQ knows, when something is in one of them; else none."""
        self._release()
        names = queues or self._delayed.queues()
        return names if any(self._wire.execute("LLEN", self._keys.rq.queue(name)) for name in names) else ()

    def _release(self) -> None:
        """Let go on what waits, by its ``overlap`` or rate limit, for runs that were cancelled, deleted or expired."""
        # fakeredis takes a tenth of a pass to look at no chains.
        if self._wire.execute("EXISTS", self._keys.chains(), self._keys.rq.limits()):
            with _warnings_only():
                self._chains.step(self._term)
                self._slots.step(self._term)

    def _look(self) -> list[Push]:
        """Return the runs that were pushed since the last look; keep their deadlines."""
        pushes = self._pushes.new()
        self._deadlines.note(pushes)
        return pushes

    def _ended(self, run_id: str, went_well: bool) -> Run:
        self._look()  # a task may have pushed more
        return self._endings.of(run_id, went_well, self._term)

    # -- end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the lease up. The namespace stays as it is and its clock stopped, so nothing ever fires there."""
        if not self._wire.is_broken:
            with suppress(Stale, RedisUnavailable):  # somebody emptied it meanwhile
                self._delayed.release(self._term)
                self._lease.release(self._term)
            self._wire.close()
        self._worker.close()
        self._link.pool.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _next_ms(tick: Tick, now_ms: int) -> int:
    """Return when a daemon would look again, by the server's clock; after the end of time when nothing waits."""
    if tick.wait_ms is not None:
        return now_ms + max(math.ceil(tick.wait_ms), 1)
    return LAST_MS + 1 if tick.next_ms is None else tick.next_ms


@contextmanager
def _warnings_only() -> Iterator[None]:
    """Silence events below a warning where nobody set structlog up: it would print every fire."""
    if structlog.is_configured():
        yield
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        yield
    finally:
        structlog.reset_defaults()
