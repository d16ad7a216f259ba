"""
Releases besides due schedules: RQ's own delayed jobs, and runs that wait for another run.

**RQ's own delayed jobs:** when the leader checks them, and how many it moves at once.

RQ cuts its due times to whole seconds, and no message wakes a daemon for them. So the leader checks once a second, when
the second of the Redis server's clock begins. native.lua then returns the next due time in milliseconds, so that no job
is early: a retry within that second, all other jobs at its end. If one script cannot move all due jobs, the next ones
follow at once, each in its own pass. Queues without delayed jobs only have their locks renewed, every ten seconds: a
Redis may have thousands of them.

zsched's own runs come first. While some of them wait, RQ's jobs wait too, for at most a second. From then on they get a
script every 25 ms, a tenth of the time, until they have caught up.

At a clean stop the locks are released. Otherwise they would lapse within 30 s. But a worker --with-scheduler started
meanwhile would find them taken, start no scheduler, and check again only with its maintenance, ten minutes
later (RQ 2.8 to 3.0, ``Worker.run_maintenance_tasks``). With a standby, the locks are free until it takes over. A
worker that starts in between serves the queue, and zsched leaves that queue to it.

Not guaranteed: a scheduler of RQ before 2.12 may not notice that it lost its lock in a long pause, because it refreshes
and deletes locks without checking their value. Then both serve the queue for a while.

**Runs that wait for another run** of their schedule: the leader launches the next one when the runs before it are over.

With ``overlap="queue"``, ``advance`` puts a run that must wait into its schedule's list. A round of calls of
unblock.lua goes through all schedules with such lists or with replaced runs, some at a time. It launches the first run
of a list when no run before it is open: finished, failed, cancelled, stopped, deleted, expired, or with a dead worker
(lua/lib/liveness.lua). A run of a dead worker that returns to its queue (``on_lost``, a retry left) is still open.

A round begins four times a second while runs wait. A worker of ``zsched.rq`` publishes on the wake channel when such a
run is over. That ends the leader's sleep, and its next pass begins a round at once. The message has no contents that
count: a forged one costs a pass.

Not guaranteed: runs outside of a chain may overlap with it (run now, retried, backfilled, queued again by hand after
they failed). RQ's SimpleWorker ignores the request to stop a run, which then continues beside its replacement. While no
daemon leads, no waiting run is launched.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

import structlog

from zsched.core.clock import Clock
from zsched.core.entry import text
from zsched.core.pages import pages_of
from zsched.daemon.batch import Batch
from zsched.errors import RedisRefused, ServerChanged, Stale
from zsched.storage.dispatch import Dispatch, MovedJobs, NativeJobs, Stopped, Window
from zsched.storage.lease import Term

log = structlog.get_logger(__name__)

AT_ONCE: Final = 0  # the time of a next look
_EVERY_MS: Final = 1000  # between two checks when nothing is due; RQ's time resolution
_PATIENCE_MS: Final = 1000  # how long RQ's jobs wait for zsched's own
_SHARE_MS: Final = 25  # between two scripts of a kind, while runs are due
_MOST: Final = 500  # jobs per script
_TARGET_MS: Final = 2.5  # per script
_QUEUES: Final = 100  # queues per script; a queue without due jobs costs some 8 µs (measured)
_LOCKS_MS: Final = 10_000  # between two rounds through all queues, which renew the locks of those without jobs, too
_ROUND_MS: Final = 250.0  # from one round to the next while runs wait for others
_CALM_MS: Final = 5000.0  # while none waits: to drop finished runs, and because a restore may add waiting runs
_REST: Final = 10.0  # of a round's own time, before the next one: a tenth of Redis at most
_WORDS: Final = {
    "gone": "its job is missing: removed from the registry",
    "WRONGTYPE": "its key, or one of its rate limit, is of a wrong type: left, and retried every few seconds",
}


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
        """Begin a term: check at once, and log the served queues again."""
        self._parts: deque[list[bytes]] = deque()  # queues not yet done in this round
        self._earliest_ms: int | None = None  # the earliest due time in the parts that are done
        self._round_ends_ms = 0.0  # monotonic: when to read the queues' names again
        self._locks_ms = 0.0  # monotonic: when to renew all locks
        self._next_ms = 0  # server's clock: the next check
        self._latest_ms = 0.0  # the same by the monotonic clock, lest TIME jumps back
        self._reasons: dict[bytes, str | None] = {}  # by queue: the reason why it is not served, or None
        self._refusal: str | None = None

    def look_if_due(self, term: Term, now_ms: int, *, is_busy: bool) -> int | None:
        """
        Run one script at most. *now_ms*: TIME just now; *is_busy*: zsched's own runs wait. Return the time of the next
        look by the server's clock. AT_ONCE: more is due; None: there is none.

        A refusal by Redis is logged once, and the script is tried again a second later. Raises Stale, ServerChanged,
        RedisUnavailable.
        """
        if not self._serves_all and not self._named:
            return None
        patience_ms = (_SHARE_MS if self._parts else _PATIENCE_MS) if is_busy else 0
        if now_ms >= self._next_ms + patience_ms or self._clock.monotonic_ms() >= self._latest_ms + patience_ms:
            try:
                self._look(term, now_ms)
            except RedisRefused as error:
                self._parts, self._earliest_ms = deque(), None
                self._plan(now_ms)
                if self._refusal is None:
                    log.warning("native_refused", reason=str(error))
                self._refusal = str(error)
        return AT_ONCE if self._parts else self._next_ms

    def end(self, term: Term) -> None:
        """Release the locks at a clean stop, so that an RQ scheduler that starts now finds them free."""
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
            if moved.next_ms is not None and moved.next_ms <= now_ms:  # due jobs were left for another call
                self._parts.append(part[1:] + part[:1])  # so that no queue waits for another queue's backlog
            elif moved.next_ms is not None:
                self._earliest_ms = min(moved.next_ms, self._earliest_ms or moved.next_ms)
        if self._refusal is not None:
            log.info("native_resumed", after=self._refusal)
        self._refusal = None
        self._plan(now_ms)

    def _begin_round(self, at_ms: float) -> None:
        names = self._jobs.queues() if self._serves_all else self._named
        self._reasons = {name: self._reasons[name] for name in names if name in self._reasons}
        if at_ms >= self._locks_ms:
            self._locks_ms = at_ms + _LOCKS_MS
        else:
            filled = self._jobs.with_jobs(names)
            names = [name for name in names if name in filled or self._reasons.get(name, "new") is not None]
        self._parts, self._earliest_ms = deque(pages_of(names, _QUEUES)), None
        self._round_ends_ms = at_ms + _EVERY_MS

    def _plan(self, now_ms: int) -> None:
        """Plan the next check, after a check at *now_ms*."""
        second_ms = (now_ms // _EVERY_MS + 1) * _EVERY_MS
        self._next_ms = now_ms if self._parts else min(second_ms, self._earliest_ms or second_ms)
        self._latest_ms = self._clock.monotonic_ms() + _EVERY_MS

    def _tell(self, part: Sequence[bytes], moved: MovedJobs) -> None:
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
                log.info("native_queue_left", queue=text(queue), holder=reason, reason="another process has its lock")
            else:
                log.warning("native_queue_left", queue=text(queue), reason=f"wrong type at {reason}")
        first = {(queue, word): id for queue, id, word in reversed(moved.odd)}
        for (queue, word), count in Counter((queue, word) for queue, _, word in moved.odd).items():
            reason = _WORDS.get(word, f"its status in RQ is {word}: removed from the registry, not pushed")
            log.warning(
                "native_jobs_odd", queue=text(queue), count=count, first=text(first[queue, word]), reason=reason
            )


class WaitingRuns:
    """A leader's rounds. Times are monotonic ms."""

    def __init__(self, dispatch: Dispatch, clock: Clock) -> None:
        self._dispatch, self._clock = dispatch, clock
        self.begin()

    def begin(self) -> None:
        """Begin a term: look at once."""
        self._cursor, self._looked_ms, self._round_ms = "0", 0.0, 0.0  # of the present round
        self._waits, self._waits_in_round = True, False
        self._rested_ms = self._next_ms = 0.0  # a round may begin, on a message; a round begins

    def expect(self) -> None:
        """Note that a run began to wait."""
        if not self._waits:
            self._waits, self._next_ms = True, self._clock.monotonic_ms() + _ROUND_MS

    def look_if_due(self, term: Term, window: Window, now_ms: int, *, is_busy: bool) -> int | None:
        """
        Call the script at most once. *now_ms*: TIME just now; *is_busy*: other runs are due. Return as ``Native``.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused.
        """
        due_ms = self._rested_ms if self._waits else self._next_ms  # of the next round
        if self._cursor != "0":  # a part of a round
            due_ms = self._looked_ms
        if is_busy:
            due_ms = max(due_ms, self._looked_ms + _SHARE_MS)
        if self._clock.monotonic_ms() >= due_ms:
            self._look(term, window)
            due_ms = self._next_ms
        if self._cursor != "0":
            return AT_ONCE
        return now_ms + int(max(due_ms - self._clock.monotonic_ms(), 0.0)) + 1 if self._waits else None

    def _look(self, term: Term, window: Window) -> None:
        began_ms = self._clock.monotonic_ms()
        found = self._dispatch.unblock(term, window, self._cursor)
        self._looked_ms = self._clock.monotonic_ms()
        if isinstance(found, Stopped):  # the next pass learns why
            return
        for run_id, why in found.launched:
            log.info("run_released", run_id=run_id, reason=why)
        self._cursor = found.cursor
        self._waits_in_round |= found.waits
        self._round_ms += self._looked_ms - began_ms
        if self._cursor == "0":
            self._waits, self._waits_in_round = self._waits_in_round, False
            self._rested_ms = self._looked_ms + _REST * self._round_ms
            self._next_ms = max(self._rested_ms, began_ms + (_ROUND_MS if self._waits else _CALM_MS))
            self._round_ms = 0.0
