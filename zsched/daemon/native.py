"""
RQ's own delayed jobs, beside zsched's: when the leader looks for them, and how many it moves at once.

RQ cuts its due times to whole seconds, and nobody wakes a daemon for them. So it looks once a second, when the second
of the Redis server's clock begins. native.lua then says to the millisecond when the next job is due that is not early:
another attempt within that second, all others at its end. When there is more than one script takes, the next ones
follow at once, each in a pass of its own.

zsched's own come first: while some of them wait, RQ's wait too, for at most a second; from then on they get a script
every 25 ms, a tenth of the time, until they have caught up.

At a clean stop the locks are given up. They would lapse by themselves within 30 s, but a worker --with-scheduler that
is started meanwhile would find them taken, start no scheduler, and look again only with its maintenance, ten minutes
later (RQ 2.8 to 2.12, ``Worker.run_maintenance_tasks``). With a standby they are free until it looks: a worker that
comes in between serves the queue, which zsched then leaves to it.

Not guaranteed: that a scheduler of RQ before 2.12 that was paused for longer than its lock lives notices that it
lost it (it refreshes and deletes locks without looking at their value); then both serve the queue for a while.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from zsched.core.clock import Clock
from zsched.core.log import text
from zsched.core.pages import pages_of
from zsched.daemon.batch import Batch
from zsched.errors import RedisRefused, ServerChanged, Stale
from zsched.storage.lease import Term
from zsched.storage.native import Moved, NativeJobs

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 1000  # between two looks when nothing is due; RQ's grain of time
_PATIENCE_MS: Final = 1000  # how long RQ's jobs wait for zsched's own
_SHARE_MS: Final = 25  # between two scripts while both have more than they can do
_MOST: Final = 500  # jobs per script
_TARGET_MS: Final = 2.5  # per script
_QUEUES: Final = 200  # per script; one in which nothing is due costs it some 8 µs (measured)
_WORDS: Final = {
    "gone": "its job is gone: taken out of the registry",
    "WRONGTYPE": "its key holds no hash: left, and looked at again every few seconds",
}


@dataclass(frozen=True, slots=True)
class NextLook:
    """The time of the next look: at once (``has_more``), or at ``next_ms`` of the server's clock; None: never."""

    has_more: bool = False
    next_ms: int | None = None


class Native:
    """
    The leader's chore in each pass. *chosen*: True, all queues that RQ knows; False, none; or their names.
    """

    def __init__(self, jobs: NativeJobs, chosen: bool | tuple[str, ...], clock: Clock) -> None:
        self._jobs, self._clock, self._serves_all = jobs, clock, chosen is True
        self._named = [] if isinstance(chosen, bool) else [name.encode() for name in dict.fromkeys(chosen)]
        self._batch = Batch(_MOST, _TARGET_MS)
        self.begin()

    def begin(self) -> None:
        """A term was won: look at once, and say anew which queues are served."""
        self._parts: deque[list[bytes]] = deque()  # of the queues, those not yet done with in this round
        self._earliest_ms: int | None = None  # due time in the parts that are done with
        self._round_ends_ms = 0.0  # monotonic: then the queues' names are asked anew
        self._next_ms = 0  # server's clock: the next look
        self._latest_ms = 0.0  # the same by the monotonic clock, lest TIME jumps back
        self._reasons: dict[bytes, str | None] = {}  # why a queue is left, None for one that is served
        self._refusal: str | None = None

    def look_if_due(self, term: Term, now_ms: int, *, is_busy: bool) -> NextLook:
        """
        One script at most. *now_ms*: TIME just now; *is_busy*: zsched's own jobs wait.

        What Redis refuses is said once and tried again a second later. Raises Stale, ServerChanged, RedisUnavailable.
        """
        if not self._serves_all and not self._named:
            return NextLook()
        patience_ms = (_SHARE_MS if self._parts else _PATIENCE_MS) if is_busy else 0
        if now_ms >= self._next_ms + patience_ms or self._clock.monotonic_ms() >= self._latest_ms + patience_ms:
            try:
                self._look(term, now_ms)
            except RedisRefused as error:
                self._parts, self._earliest_ms = deque(), None
                self._plan(now_ms)
                self._say_refused(str(error))
        return NextLook(has_more=bool(self._parts), next_ms=self._next_ms)

    def end(self, term: Term) -> None:
        """A clean stop: give the locks up, so that a scheduler of RQ that starts now finds them free."""
        served = [queue for queue, reason in self._reasons.items() if reason is None]
        try:
            for part in pages_of(served, _QUEUES):
                self._jobs.release(term, part)
        except (Stale, ServerChanged, RedisRefused) as error:
            log.warning("native_queues_not_released", reason=str(error))

    def _look(self, term: Term, now_ms: int) -> None:
        sent_ms = self._clock.monotonic_ms()
        if not self._parts or sent_ms >= self._round_ends_ms:
            self._begin_round(sent_ms)
        if self._parts:
            part = self._parts.popleft()
            sent_ms = self._clock.monotonic_ms()
            moved = self._jobs.move(term, part, self._batch.size)
            self._batch.learn(self._clock.monotonic_ms() - sent_ms, moved.looked)
            self._tell(part, moved)
            now_ms = moved.now_ms
            if moved.has_more:
                self._parts.append(part[1:] + part[:1])  # so that no queue waits for another's backlog
            elif moved.next_ms is not None:
                self._earliest_ms = min(moved.next_ms, self._earliest_ms or moved.next_ms)
        self._say_well()
        self._plan(now_ms)

    def _begin_round(self, at_ms: float) -> None:
        names = self._jobs.queues() if self._serves_all else self._named
        self._reasons = {name: self._reasons[name] for name in names if name in self._reasons}
        self._parts, self._earliest_ms = deque(pages_of(names, _QUEUES)), None
        self._round_ends_ms = at_ms + _EVERY_MS

    def _plan(self, now_ms: int) -> None:
        """Plan the next look, after a look at *now_ms*."""
        second_ms = (now_ms // _EVERY_MS + 1) * _EVERY_MS
        self._next_ms = now_ms if self._parts else min(second_ms, self._earliest_ms or second_ms)
        self._latest_ms = self._clock.monotonic_ms() + _EVERY_MS

    def _tell(self, part: Sequence[bytes], moved: Moved) -> None:
        if moved.pushed:
            log.debug("native_jobs_queued", count=moved.pushed)
        for queue in part:
            reason = moved.broken.get(queue, moved.others.get(queue))
            if queue in self._reasons and self._reasons[queue] == reason:
                continue
            self._reasons[queue] = reason
            if reason is None:
                log.info("native_queue_served", queue=text(queue))
            elif queue in moved.others:
                log.info("native_queue_left", queue=text(queue), holder=reason, reason="somebody else has its lock")
            else:
                log.warning("native_queue_left", queue=text(queue), reason=f"wrong type at {reason}")
        first = {(odd.queue, odd.word): odd.id for odd in reversed(moved.odd)}
        for (queue, word), count in Counter((odd.queue, odd.word) for odd in moved.odd).items():
            reason = _WORDS.get(word, f"RQ has it as {word}: taken out of the registry, not pushed")
            log.warning(
                "native_jobs_odd", queue=text(queue), count=count, first=text(first[queue, word]), reason=reason
            )

    def _say_well(self) -> None:
        if self._refusal is not None:
            log.info("native_resumed", after=self._refusal)
        self._refusal = None

    def _say_refused(self, reason: str) -> None:
        if self._refusal is None:
            log.warning("native_refused", reason=reason)
        self._refusal = reason
