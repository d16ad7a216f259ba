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
    """
    Runs in place of an occurrence, or of several that were left out together. ``run``: the last of them; ``by``: the
    account that retried it.
    """

    words: str
    run: Run
    is_whole: bool
    by: str | None = None


@dataclass(slots=True)
class Replacements:
    """Runs by what they are in place of: ``backfilled`` by schedule and nominal time, ``retried`` by run id."""

    backfilled: dict[str, dict[int, Run]] = field(default_factory=lambda: defaultdict(dict))
    retried: dict[str, Occurrence] = field(default_factory=dict)

    @classmethod
    async def since(cls, client: AsyncClient, ms: int, id: str | None = None, **filters: Any) -> Replacements:
        """Return those that were pushed since *ms*: of schedule *id*, or of all that *filters* find."""
        found = await cls.retries_since(client, ms, id, **filters)
        return await found._read(client, What.ENQUEUED, ms, id, filters)

    @classmethod
    async def retries_since(cls, client: AsyncClient, ms: int, id: str | None = None, **filters: Any) -> Replacements:
        """Return only the retries, which is quicker."""
        return await cls()._read(client, What.RETRIED, ms, id, filters)

    async def _read(
        self, client: AsyncClient, what: What, ms: int, id: str | None, filters: Mapping[str, Any]
    ) -> Replacements:
        async for one in client.iter_history(id, status=what, since=from_ms(ms), limit=_READ, **filters):
            self.add(one)
        return self

    def add(self, one: Occurrence) -> None:
        """Add the run of an occurrence, if it is in place of another. The newest come first, and count."""
        if one.run is None:
            return
        if one.what is What.RETRIED:
            self.retried.setdefault(one.why, one)
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
        first = self.retried.get(run_id)
        if first is None or first.run is None:
            return None
        last = self._last(first.run)
        return Replacement(f"retried: {last.status.value}", last, True, first.by)

    def _last(self, run: Run) -> Run:
        seen = set[str]()
        while run.id not in seen and (later := self.retried.get(run.id)) is not None and later.run is not None:
            seen.add(run.id)
            run = later.run
        return run
