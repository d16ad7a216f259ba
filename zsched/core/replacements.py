"""
Runs that were pushed later for occurrences that did not run or failed: backfilled and retried. Lists of what did not
run, or failed, show them, so that nothing is made up twice.

Not guaranteed: that all are known. Readers read the newest ``READ`` of each kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zsched.core.changes import BACKFILL, What
from zsched.core.lookback import Occurrence
from zsched.core.runs import Run

READ: Final = 2000  # of each kind


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
