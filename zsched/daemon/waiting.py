"""
Runs that wait for another run of their schedule: the leader launches the next one when the runs before it are over.

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

from __future__ import annotations

from typing import Final

import structlog

from zsched.core.clock import Clock
from zsched.daemon.native import NextLook
from zsched.storage.dispatch import Dispatch, Stopped, Window
from zsched.storage.lease import Term

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 250.0  # from one round to the next while runs wait
_CALM_MS: Final = 5000.0  # while none waits: to drop finished runs, and because a restore may add waiting runs
_SHARE_MS: Final = 25.0  # between two calls while other runs are due
_REST: Final = 10.0  # of a round's own time, before the next one: a tenth of Redis at most


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
            self._waits, self._next_ms = True, self._clock.monotonic_ms() + _EVERY_MS

    def look_if_due(self, term: Term, window: Window, now_ms: int, *, is_busy: bool) -> NextLook:
        """
        Call the script at most once. *now_ms*: TIME just now; *is_busy*: other runs are due.

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
        left_ms = max(due_ms - self._clock.monotonic_ms(), 0.0)
        next_ms = now_ms + int(left_ms) + 1 if self._waits else None
        return NextLook(has_more=self._cursor != "0", next_ms=next_ms)

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
            self._next_ms = max(self._rested_ms, began_ms + (_EVERY_MS if self._waits else _CALM_MS))
            self._round_ms = 0.0
