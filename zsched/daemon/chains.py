"""
Chains of runs: the leader sees to it that no run waits for ever for another one of its schedule.

The runs of some schedules wait for each other, or take each other's place (``overlap``). Those that may be open stand
in a chain, the oldest first; ``advance`` puts the new one at its end. RQ's worker releases the next run when the one
before it finished or failed, in the same step or a few ms later. RQ never does when that one was cancelled, stopped or
deleted, expired in its queue, or when its worker was killed. So the leader looks over all chains twice a second.

What a chain needs, and how that is done, says the policy of its schedule (lua/lib/overlap.lua) to the two scripts that
this chore calls: survey.lua and unblock.lua. What nobody else will do is done at once. What RQ may still do has to be
needed for 1.5 s: RQ comes first. A killed worker is found by the one judgement of zsched (lua/lib/liveness.lua). A run
of a dead worker that goes back into its queue (``on_lost``, a retry left) keeps its place: what follows it waits on.

A round costs a look at the first runs of each chain; nothing when there is none. No archive is needed, but for the
return of a run whose worker died: that is lost.lua's, or RQ's own.

Not guaranteed: that runs beside a chain do not overlap with it: retried, backfilled, pushed again by a recovery. RQ's
SimpleWorker does not stop a run when it is told to: that goes on to its end beside the one that took its place.
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

SETTLED_MS: Final = 1500.0  # for so long a chain needs something before it is done here: RQ comes first
_EVERY_MS: Final = 500.0  # from one round to the next
_REST: Final = 10.0  # of a long round's own time: a tenth of Redis and of the interpreter at most
_STEP_MS: Final = 250.0  # before other chores have their turn
_AT_ONCE: Final = 50  # chains per script: Redis does nothing else meanwhile


class ChainKeeper:
    """A leader's chore for chains. ``name`` and ``every_ms`` are for the ``ChoreThread``."""

    name: Final = "chains"

    def __init__(self, keys: Keys, clock: Clock, settled_ms: float = SETTLED_MS) -> None:
        self._keys, self._clock, self._settled_ms = keys, clock, settled_ms

    def over(self, wire: Wire) -> ChainKeeper:
        """The same, asking over *wire* from now on, and knowing nothing of before."""
        self._chains = Chains(wire, self._keys)
        self.every_ms = _EVERY_MS
        self._cursor, self._round_ms = "0", 0.0
        self._since_ms: dict[tuple[str, str], float] = {}  # what chains need in this round, and since when
        self._before_ms: dict[tuple[str, str], float] = {}  # in the round before
        return self

    def step(self, term: Term) -> bool:
        """
        A part of a round through all chains; whether there is more of it.

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
        """Return True if it is to be done now. A need also lasts when another run is the next: the first may expire."""
        key = need.id, need.what
        since_ms = self._since_ms.setdefault(key, self._before_ms.get(key, now_ms))
        return need.is_urgent or now_ms - since_ms >= self._settled_ms

    def _unblock(self, term: Term, needs: Sequence[ChainNeed]) -> None:
        for part in pages_of(needs, _AT_ONCE):
            why = {one.run: one.why for one in part}
            for run_id in self._chains.unblock(term, part):
                log.info("run_released", run_id=run_id, reason=why[run_id])
