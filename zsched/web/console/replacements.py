"""
Runs that were pushed later for occurrences that did not run or failed: backfilled and retried. Lists of what did not
run, or failed, show them, so that nothing is made up twice.

Not guaranteed: that all are known. The newest 2,000 of each kind are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from zsched.aio.client import AsyncClient
from zsched.core.changes import BACKFILL, What
from zsched.core.clock import from_ms
from zsched.core.lookback import Occurrence
from zsched.core.runs import Run

_READ: Final = 2000  # of each kind


@dataclass(frozen=True, slots=True)
class Replacement:
    """Runs in place of an occurrence, or of several that were left out together. ``run``: the last of them."""

    words: str
    run: Run
    is_whole: bool


@dataclass(slots=True)
class Replacements:
    """Runs by what they are in place of: ``backfilled`` by schedule and nominal time, ``retried`` by run id."""

    backfilled: dict[str, dict[int, Run]] = field(default_factory=lambda: defaultdict(dict))
    retried: dict[str, Run] = field(default_factory=dict)

    @classmethod
    async def since(cls, client: AsyncClient, ms: int, id: str | None = None, **filters: Any) -> Replacements:
        """Return those that were pushed since *ms*: of schedule *id*, or of all that *filters* find."""
        found = cls()
        for what in (What.ENQUEUED, What.RETRIED):
            async for one in client.iter_history(id, status=what, since=from_ms(ms), limit=_READ, **filters):
                found.add(one)
        return found

    def add(self, one: Occurrence) -> None:
        """Add the run of an occurrence, if it is in place of another. The newest come first, and count."""
        if one.run is None:
            return
        if one.what is What.RETRIED:
            self.retried.setdefault(one.why, one.run)
        elif one.why == BACKFILL and one.nominal_ms is not None:
            self.backfilled[one.id].setdefault(one.nominal_ms, one.run)

    def of(self, one: Occurrence) -> Replacement | None:
        """Return what was run in place of *one*: ``retried: succeeded``, ``3 of 10 backfilled``."""
        if one.run is not None:
            return self.of_run(one.run.id)
        first_ms, last_ms = (one.nominal_ms if ms is None else ms for ms in (one.first_ms, one.last_ms))
        by_time: Mapping[int, Run] = self.backfilled.get(one.id, {})
        times = [ms for ms in by_time if first_ms is not None and last_ms is not None and first_ms <= ms <= last_ms]
        if not times:
            return None
        run = self._last(by_time[max(times)])
        words = f"backfilled: {run.status.value}" if one.count == 1 else f"{len(times):,} of {one.count:,} backfilled"
        return Replacement(words, run, len(times) >= one.count)

    def of_run(self, run_id: str) -> Replacement | None:
        """Return the retry of a run; of a retry that was retried, the last one."""
        run = self.retried.get(run_id)
        return None if run is None else Replacement(f"retried: {self._last(run).status.value}", self._last(run), True)

    def _last(self, run: Run) -> Run:
        seen = set[str]()
        while run.id in self.retried and run.id not in seen:
            seen.add(run.id)
            run = self.retried[run.id]
        return run
