"""
The tracker: the leader finds out which runs are over, and writes it into the log, so that every archive learns it.

It needs nothing in the worker and nothing where runs are fired: its archive knows which runs are open, RQ's job
hash says how each of them is. Every pass asks Redis about some:

- of those pushed while it leads, which it reads from the history, in order, and remembers up to a bound (what comes
  behind stays on disk until there is room): the oldest, which end first, and in turn the rest, so that old ones that
  never end (lost, or waiting for a worker that nobody started) do not keep the others from being noticed;
- and of a part of the state, which it looks through round after round: so it finds what was pushed before it led, and
  what it did not remember.

What it says must be true of the history in which the runs were fired. The archive's last entry goes with every
question, and Redis answers LOST when its log lacks it: that a Redis which lost the runs has no jobs of theirs tells
nothing. And it begins when the archive has this term's first entry, and goes on when it has what was written last,
so that no run's end is told twice.

Not guaranteed: that a run which RQ forgot (``result_ttl``) before anybody looked is told of more than ``gone``.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from zsched.archive.openruns import OpenRuns, Run
from zsched.core.log import Position
from zsched.daemon.archiver import Archiver
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch
from zsched.storage.keys import Keys
from zsched.storage.lease import Term

_REMEMBERED: Final = 10_000  # runs that were pushed, at most
_LEARNT: Final = 2000  # of them, in one pass, about
_LEARNT_FROM: Final = 2000  # entries of the history, at most
_OLDEST: Final = 1000  # remembered ones that every pass asks about
_BEHIND: Final = 1000  # and behind them, in turn
_AROUND: Final = 1000  # and in the state, round after round
_LOOKED_AT: Final = 5000  # rows of the state, of which most may wait: 2.5 ms (measured)
_EVERY_MS: Final = 500.0  # from one pass to the next
# While nothing ends: a pass takes some 40 ms of the interpreter from the thread that fires (p99 of lateness: measured).
_SELDOM_MS: Final = 4000.0
_LOOKED_AT_FIRST: Final = 20_000  # in a term's first round, which finds what ended when nobody led
_AT_ONCE: Final = 200  # runs per script: Redis does nothing else meanwhile
_MANY: Final = 200  # ends in one pass, after which the next follows at once
_FEW: Final = 10  # ends in one pass, with which those that are remembered do not move on
_CATCH_UP_S: Final = 1.0  # for the archive to have what a pass wrote


class Tracker:
    """What a leader does about runs that end. ``name`` and ``every_ms`` are for the warden."""

    name: Final = "tracker"

    def __init__(self, archiver: Archiver, keys: Keys) -> None:
        self._archiver, self._keys = archiver, keys
        self.every_ms = _EVERY_MS
        self._around: Run | None = None  # where the look through the state goes on: also in another term
        self._forget(None)

    def over(self, wire: Wire) -> Tracker:
        """The same, asking over *wire* from now on."""
        self._dispatch = Dispatch(wire, self._keys)
        return self

    def step(self, term: Term) -> bool:
        """
        One pass; True when so many had ended that there are more.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused, ArchiveError.
        """
        path = self._archiver.path
        if path is None:
            return False
        with OpenRuns(path) as runs:
            as_of = runs.position
            if runs.life is None or as_of is None or not self._is_late_enough(as_of, term):
                return False
            if self._of != (term.token, runs.life):
                self._forget((term.token, runs.life))
            asked = self._choose(runs)
        ended = self._track(term, as_of, asked)
        self._make_room(ended)
        is_in_vain = asked and not ended and not self._first_rounds
        self.every_ms = min(2 * self.every_ms, _SELDOM_MS) if is_in_vain else _EVERY_MS
        self._archiver.wait_until(self._written, _CATCH_UP_S)
        return ended >= _MANY

    def _forget(self, of: tuple[str, int] | None) -> None:
        """Begin anew, in a term and with a state."""
        self._of = of
        self._written: Position | None = None  # the last entry that it wrote
        self._remembered: dict[Run, None] = {}  # in the order in which they were pushed
        self._n: int | None = None  # the entry up to which they are
        self._has_more = False  # behind that entry
        self._turn = 0  # of the remembered ones
        self._first_rounds = 1 if self._around is None else 2  # until all of the state was seen once

    def _is_late_enough(self, as_of: Position, term: Term) -> bool:
        """Whether an archive that ends with *as_of* has what was told of runs until now: by earlier terms, by this."""
        is_this_term = self._of is not None and self._of[0] == term.token
        written = self._written if is_this_term else None
        return as_of.epoch == term.epoch and (written is None or as_of.order >= written.order)

    def _choose(self, runs: OpenRuns) -> list[Run]:
        """Open runs to ask about."""
        self._learn(runs)
        behind = max(len(self._remembered) - _OLDEST, 0)
        self._turn = self._turn if self._turn < behind else 0
        turn = islice(self._remembered, _OLDEST + self._turn, _OLDEST + self._turn + _BEHIND)
        mine = [*islice(self._remembered, _OLDEST), *turn]
        self._turn += _BEHIND
        open = dict.fromkeys(runs.open_of(mine))
        for run in mine:
            if run not in open:
                del self._remembered[run]
        looked_at = _LOOKED_AT_FIRST if self._first_rounds else _LOOKED_AT
        found, self._around = runs.open_among(self._around, looked_at, _AROUND)
        if self._around is None:
            self._first_rounds = max(self._first_rounds - 1, 0)
        return [*open, *(run for run in found if run not in open)]

    def _learn(self, runs: OpenRuns) -> None:
        """What was pushed meanwhile, as far as there is room."""
        if self._n is None:
            self._n = runs.last_n
        if len(self._remembered) < _REMEMBERED:
            pushed, self._n = runs.pushed_behind(self._n, _LEARNT, _LEARNT_FROM)
            self._remembered.update(dict.fromkeys(pushed))
        self._has_more = self._n < runs.last_n

    def _make_room(self, ended: int) -> None:
        """Where those that are remembered seem never to end, look at later ones: the others' turn comes around."""
        if ended < _FEW and self._has_more and len(self._remembered) >= _REMEMBERED:
            for run in list(islice(self._remembered, _BEHIND)):
                del self._remembered[run]

    def _track(self, term: Term, as_of: Position, runs: list[Run]) -> int:
        """How many of *runs* had ended."""
        ended = 0
        for first in range(0, len(runs), _AT_ONCE):
            run_ids = [f"{id}-{run}" for id, run in runs[first : first + _AT_ONCE]]
            tracked = self._dispatch.track(term, as_of, run_ids)
            if tracked is None:  # the archive will notice that Redis lost something, and say so
                break
            ended += tracked.ended
            self._written = tracked.entry or self._written
        return ended
