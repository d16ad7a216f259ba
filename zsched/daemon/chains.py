"""
Chains of runs: the leader sees to it that with ``overlap`` *queue* none waits for ever, and that with
*cancel_previous* the last one wins.

The runs of such a schedule that may be open stand in a chain, oldest first (lua/lib/chain.lua); ``advance`` puts the
new one at its end. With **queue** a run waits as RQ's deferred job, and RQ's worker releases it when the one before it
finished or failed, in the same step or a few ms later. RQ never does when that one

- was cancelled, stopped or deleted, or expired in its queue. So when all runs before a deferred one are over or gone,
  and that is so in a second look a while later (RQ comes first), this chore releases it;
- has a worker that died: its job says ``started`` until its heartbeat lapses, 60 to 90 s later. But RQ's workers listen
  to a channel of their own, and so do their work horses, which inherit the connection: when nobody listens for some
  seconds, neither of them is there any more, and the next run need not wait. A worker that is stopped (SIGSTOP) keeps
  its connection. After a restart of Redis workers take a while to come back, so a connection of ours has to be older
  than that before anybody is taken for dead.

With **cancel_previous** all runs but the last are withdrawn while they wait, and the workers of those that run are told
to stop them: one that had just taken a run out of its queue could not be told by ``advance``. Told again they are after
ten seconds, not sooner: RQ's worker that hears of the same run twice while it files it kills itself.

One script does it (unblock.lua), which compares with what was seen. A round costs a look at the first runs of each
chain; nothing when there is none. No archive is needed.

Not guaranteed: that a run whose worker died, and which ``daemon/lost`` then puts back into its queue (``on_lost``, a
retry left), does not overlap with those that followed it: it has left its chain, as nobody was to wait for it. Nor that
runs beside a chain do not: retried, backfilled, pushed again by a recovery. RQ's SimpleWorker does not stop a run when
it is told to: with *cancel_previous* that goes on to its end beside the next. A worker of another make, which does not
listen to a channel, is taken for dead.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from zsched.core.clock import Clock
from zsched.core.untrusted import in_a_line
from zsched.storage.chains import GONE, Chain, Chains, Seen, Unblocking
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 500.0  # from one round to the next
_REST: Final = 10.0  # of a long round's own time: a tenth of Redis and of the interpreter at most
_STEP_MS: Final = 250.0  # before other chores have their turn
_AT_ONCE: Final = 50  # chains per script: Redis does nothing else meanwhile

_OPEN: Final = frozenset({"queued", "started", "scheduled", "deferred"})
_ENDS: Final = {
    GONE: "is gone: it expired, or somebody deleted it",
    "canceled": "was cancelled",
    "stopped": "was stopped",
}


@dataclass(frozen=True, slots=True)
class ChainDelays:
    """
    In ms: ``settled_ms`` how long all runs before one must be over, ``silent_ms`` how long nobody listened to a
    worker's channel, ``wire_ms`` how old a connection must be that says so.
    """

    settled_ms: float = 1500.0
    silent_ms: float = 3000.0
    wire_ms: float = 10_000.0


USUAL: Final = ChainDelays()


class ChainKeeper:
    """What a leader does about chains. ``name`` and ``every_ms`` are for the ``ChoreThread``."""

    name: Final = "chains"

    def __init__(self, keys: Keys, clock: Clock, patience: ChainDelays = USUAL) -> None:
        self._keys, self._clock, self._patience = keys, clock, patience

    def over(self, wire: Wire) -> ChainKeeper:
        """The same, asking over *wire* from now on, and knowing nothing of before."""
        self._chains = Chains(wire, self._keys)
        self.every_ms = _EVERY_MS
        self._opened_ms = self._clock.monotonic_ms()
        self._cursor, self._round_ms = "0", 0.0
        self._needed, self._silent = _Lasting(), _Lasting()  # what chains need; workers to whom nobody listens
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
            self._cursor, chains = self._chains.page(self._cursor)
            self._look_after(term, chains, now_ms)
            now_ms, is_done = self._clock.monotonic_ms(), self._cursor == "0"
        self._round_ms += now_ms - began_ms
        if is_done:
            self._needed.turn()
            self._silent.turn()
            self.every_ms, self._round_ms = max(_EVERY_MS, _REST * self._round_ms), 0.0
        return not is_done

    def _look_after(self, term: Term, chains: Sequence[Chain], now_ms: float) -> None:
        """Do what *chains* need."""
        needs = [_need(chain) for chain in chains]
        self._unblock(term, [one for one in needs if one is not None and self._is_settled(one, now_ms)])
        waiting = [chain for chain, need in zip(chains, needs, strict=True) if need is None]
        dead = self._dead({worker for chain in waiting for worker in _workers(chain)}, now_ms)
        self._unblock(term, [_after_death(one) for one in waiting if _workers(one) and dead.issuperset(_workers(one))])

    def _is_settled(self, need: Unblocking, now_ms: float) -> bool:
        """Whether that was needed for long enough; nobody else withdraws what another run took the place of."""
        return not need.chain.is_queue or now_ms - self._needed.since(need.name, now_ms) >= self._patience.settled_ms

    def _dead(self, workers: set[str], now_ms: float) -> set[str]:
        """Those of *workers* to whom nobody has listened for long enough."""
        silent = self._chains.silent(sorted(workers))
        long = {one for one in silent if now_ms - self._silent.since(one, now_ms) >= self._patience.silent_ms}
        return long if now_ms - self._opened_ms >= self._patience.wire_ms else set()

    def _unblock(self, term: Term, needed: Sequence[Unblocking]) -> None:
        for first in range(0, len(needed), _AT_ONCE):
            part = needed[first : first + _AT_ONCE]
            why = {one.released: one.why for one in part}
            for run_id in self._chains.unblock(term, part):
                log.info("run_released", run_id=run_id, reason=why[run_id])


class _Lasting:
    """Since when things are so that are met in every round."""

    def __init__(self) -> None:
        self._now: dict[Hashable, float] = {}
        self._before: dict[Hashable, float] = {}  # in the round before

    def since(self, thing: Hashable, now_ms: float) -> float:
        """*thing* is so, at *now_ms*."""
        return self._now.setdefault(thing, self._before.get(thing, now_ms))

    def turn(self) -> None:
        """A round is over: what was not met in it is not so any more."""
        self._now, self._before = {}, self._now


def _need(chain: Chain) -> Unblocking | None:
    """What *chain* needs, when it does not have to wait for what runs."""
    statuses = tuple(one.status for one in chain.seen)
    if not chain.is_queue:
        return Unblocking(chain, ())
    if statuses[-1] != "deferred":  # nobody waits: what is over leaves
        return Unblocking(chain, statuses)
    before, _, status = chain.seen[-1].by.rpartition(" ")
    if any(one in _OPEN for one in (*statuses[:-1], status)):
        return None
    before = in_a_line(before)
    why = (
        f"{before} {_ENDS.get(status, 'is over, and RQ did not say so')}"
        if before
        else "nobody knows what it waits for"
    )
    return Unblocking(chain, statuses[:-1], chain.runs[len(statuses) - 1], why)


def _running(chain: Chain) -> list[tuple[str, Seen]]:
    """The runs before one that waits that are not over."""
    return [(run, one) for run, one in zip(chain.runs, chain.seen[:-1], strict=False) if one.status in _OPEN]


def _workers(chain: Chain) -> set[str]:
    """Whom a run that waits has to wait for; empty when one before it is with no worker."""
    running = [one for _, one in _running(chain)]
    return {one.by for one in running} if all(one.status == "started" and one.by for one in running) else set()


def _after_death(chain: Chain) -> Unblocking:
    """The next run of *chain* goes on, as the workers of those before it are dead."""
    run, seen = _running(chain)[-1]
    worker = in_a_line(seen.by)
    *ahead, (status, _) = chain.seen
    assert status == "deferred"  # as _need saw
    return Unblocking(
        chain, tuple(one.status for one in ahead), chain.runs[len(ahead)], f"the worker {worker} of {run} died"
    )
