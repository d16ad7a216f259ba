"""
The tracker: the leader finds out which runs are over, and writes it into the log, so that every archive learns it.

It needs nothing in the worker and nothing where runs are fired: its archive knows which runs are open, RQ's job
hash says how each of them is. A pass asks about the oldest open runs, which end first, and about as many more from
a cursor through the rest, so that old ones that never end (lost, or waiting for a worker that nobody started) do
not keep the others from being noticed. So its cost grows with what ends, not with what waits.

What it says must be true of the history in which the runs were fired. The archive's last entry goes with every
question, and Redis answers LOST when its log lacks it: that a Redis which lost the runs has no jobs of theirs tells
nothing. And it begins when the archive has this term's first entry, and goes on when it has what was written last,
so that no run's end is told twice.

Not guaranteed: that an end is told once, when a leader dies before its archive has it and another one's has not
either; a run that RQ forgot (``result_ttl``) before anybody looked is ``gone``, whatever became of it.
"""

from __future__ import annotations

from typing import Final

from zsched.archive.openruns import Place, open_runs
from zsched.core.log import Position
from zsched.daemon.archiver import Archiver
from zsched.storage.dispatch import Dispatch
from zsched.storage.lease import Term

_OLDEST: Final = 1000  # open runs that every pass asks about
_BEHIND: Final = 1000  # and behind them, in turn
_AT_ONCE: Final = 200  # runs per script, which keeps Redis from others for so long
_MANY: Final = 200  # ends in one pass, after which the next follows at once
_CATCH_UP_S: Final = 1.0  # for the archive to have what a pass wrote


class Tracker:
    """What a leader does about runs that end, over one wire. ``name`` and ``every_ms`` are for the warden."""

    name: Final = "tracker"
    every_ms: Final = 500.0

    def __init__(self, dispatch: Dispatch, archiver: Archiver) -> None:
        self._dispatch, self._archiver = dispatch, archiver
        self._token = ""  # of the term in which the following is so
        self._written: Position | None = None  # the last entry that it wrote
        self._cursor: Place | None = None

    def step(self, term: Term) -> bool:
        """
        One pass; True when so many had ended that there are more.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused, ArchiveError.
        """
        if self._token != term.token:
            self._token, self._written, self._cursor = term.token, None, None
        path = self._archiver.path
        if path is None:
            return False
        open = open_runs(path, _OLDEST, _BEHIND, self._cursor)
        if open.as_of is None or not self._is_late_enough(open.as_of, term):
            return False
        self._cursor = open.behind[-1] if len(open.behind) == _BEHIND else None
        ended = self._track(term, open.as_of, [f"{id}-{run}" for _, id, run in (*open.oldest, *open.behind)])
        self._archiver.wait_until(self._written, _CATCH_UP_S)
        return ended >= _MANY

    def _is_late_enough(self, as_of: Position, term: Term) -> bool:
        """Whether an archive that ends with *as_of* has what was told of runs until now: by earlier terms, by this."""
        return as_of.epoch == term.epoch and (self._written is None or as_of.order >= self._written.order)

    def _track(self, term: Term, as_of: Position, run_ids: list[str]) -> int:
        """How many of *run_ids* had ended."""
        ended = 0
        for first in range(0, len(run_ids), _AT_ONCE):
            tracked = self._dispatch.track(term, as_of, run_ids[first : first + _AT_ONCE])
            if tracked is None:  # the archive will notice that Redis lost something, and say so
                break
            ended += tracked.ended
            self._written = tracked.entry or self._written
        return ended
