"""
Chains of runs: the leader ensures that no run waits forever for another run of its schedule.

The runs of some schedules wait for each other, or replace each other (``overlap``). Runs that may be open form a chain,
the oldest first; ``advance`` appends the new run. RQ's worker releases the next run when the previous one finished or
failed, in the same step or a few ms later. RQ does not release it if the previous run was cancelled, stopped, deleted
or expired in its queue, or if its worker was killed. So the leader checks all chains twice a second.

The schedule's policy (lua/lib/overlap.lua) decides the next action of a chain. This chore calls two scripts: survey.lua
and unblock.lua. An action that only zsched can take happens at once. An action that RQ may still take happens after 1.5
s: RQ comes first. lua/lib/liveness.lua is the one place that decides if a worker is dead. A run of a dead worker that
returns to its queue (``on_lost``, a retry left) keeps its place, and its successors keep waiting.

A round reads the first runs of each chain, and costs nothing without chains. It needs no archive. The exception is the
return of a dead worker's run: lost.lua does that, or RQ itself.

Not guaranteed: runs outside a chain may overlap with it (retried, backfilled, pushed again by a recovery). RQ's
SimpleWorker ignores the request to stop a run: that run continues beside its replacement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from zsched.core.clock import Clock
from zsched.core.pages import pages_of
from zsched.storage.chains import ChainNeed, Chains
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term

log = structlog.get_logger(__name__)

SETTLED_MS: Final = 1500.0  # how long an action must be needed before it is taken here: RQ comes first
_EVERY_MS: Final = 500.0  # from one round to the next
_REST: Final = 10.0  # of a long round's own time: a tenth of Redis and of the interpreter at most
_STEP_MS: Final = 250.0  # before other chores continue
_AT_ONCE: Final = 50  # chains per script: Redis does nothing else meanwhile


class ChainKeeper:
    """A leader's chore for chains. ``name`` and ``every_ms`` are for the ``ChoreThread``."""

    name: Final = "chains"

    def __init__(self, keys: Keys, clock: Clock, settled_ms: float = SETTLED_MS) -> None:
        self._keys, self._clock, self._settled_ms = keys, clock, settled_ms

    def over(self, wire: Wire) -> ChainKeeper:
        """Use *wire* from now on, and forget all earlier findings."""
        self._chains = Chains(wire, self._keys)
        self.every_ms = _EVERY_MS
        self._cursor, self._round_ms = "0", 0.0
        self._since_ms: dict[
            tuple[str, str], float
        ] = {}  # needed actions in this round, and since when they are needed
        self._before_ms: dict[tuple[str, str], float] = {}  # in the round before
        return self

    def step(self, term: Term) -> bool:
        """
        Do a part of a round through all chains; return whether more of it is left.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused.
        """
        began_ms = now_ms = self._clock.monotonic_ms()
        is_done = False
        while not is_done and now_ms - began_ms < _STEP_MS:
            self._cursor, needs = self._chains.page(self._cursor)
            self._unblock(term, [one for one in needs if self._is_settled(one, now_ms)])
            now_ms, is_done = self._clock.monotonic_ms(), self._cursor == "0"
        self._round_ms += now_ms - began_ms
        if is_done:
            self._since_ms, self._before_ms = {}, self._since_ms
            self.every_ms, self._round_ms = max(_EVERY_MS, _REST * self._round_ms), 0.0
        return not is_done

    def _is_settled(self, need: ChainNeed, now_ms: float) -> bool:
        """
        Return True if the action is to be taken now. The need also lasts when the next run changes: the first may
        expire.
        """
        key = need.id, need.what
        since_ms = self._since_ms.setdefault(key, self._before_ms.get(key, now_ms))
        return need.is_urgent or now_ms - since_ms >= self._settled_ms

    def _unblock(self, term: Term, needs: Sequence[ChainNeed]) -> None:
        for part in pages_of(needs, _AT_ONCE):
            why = {one.run: one.why for one in part}
            for run_id in self._chains.unblock(term, part):
                log.info("run_released", run_id=run_id, reason=why[run_id])
