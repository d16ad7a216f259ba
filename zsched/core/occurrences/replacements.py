"""
Runs that were pushed later for occurrences that did not run or failed: backfilled and retried. Lists of what did not
run, or failed, show them, so that nothing is made up twice.

Not guaranteed: that all are known. Readers read the newest ``READ`` of each kind.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from zsched.core.clock import LAST_MS, from_ms
from zsched.core.occurrences.changes import BACKFILL, Change
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run import UNSUCCESSFUL, Run

READ: Final = 2000  # of each kind


class Replacement(NamedTuple):
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
    """
    Runs by what they are in place of: ``backfilled`` by schedule and nominal time, ``retried`` by run id. ``since_ms``:
    the time since when ``search_retries`` let its caller read retries.
    """

    backfilled: dict[str, dict[int, Run]] = field(default_factory=lambda: defaultdict(dict))
    retried: dict[str, Change] = field(default_factory=dict)
    since_ms: int = LAST_MS

    def search_retries(self, runs: Iterable[Run | None]) -> dict[str, Any] | None:
        """
        Return the search of the history by which the caller shall read retries, and ``add`` them, to know all of
        *runs*: back to the earliest end of those that did not succeed. None if that was asked before.
        """
        failed = (run for run in runs if run is not None and run.status in UNSUCCESSFUL)
        ends_ms = (run.ended_ms for run in failed if run.ended_ms is not None)
        since_ms, until_ms = min(ends_ms, default=LAST_MS), self.since_ms
        if since_ms >= until_ms:
            return None
        self.since_ms = since_ms
        until = None if until_ms == LAST_MS else from_ms(until_ms)
        return {"status": What.RETRIED, "since": from_ms(since_ms), "until": until, "limit": READ}

    def add(self, one: Change) -> None:
        """Add the run of an occurrence, if it is in place of another. The newest come first, and count."""
        if one.run is None:
            return
        if one.what is What.RETRIED:
            self.retried.setdefault(one.why, one)
        elif one.why == BACKFILL and one.nominal_ms is not None:
            self.backfilled[one.id].setdefault(one.nominal_ms, one.run)

    def of(self, one: Change) -> Replacement | None:
        """Return the runs in place of *one*: ``retried: succeeded``, ``3 of 10 backfilled``."""
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

    def last_retry(self, run: Run) -> dict[str, Any] | None:
        """Return the last retry of *run* for JSON, or None."""
        retry = self.of_run(run.id)
        return None if retry is None else retry.run.to_dict()

    def shown(self, one: Change) -> dict[str, Any]:
        """Return an occurrence for JSON, with the last retry of its run, or None."""
        return one.shown_occurrence() | {"retried": None if one.run is None else self.last_retry(one.run)}

    def _last(self, run: Run) -> Run:
        seen = set[str]()
        while run.id not in seen and (later := self.retried.get(run.id)) is not None and later.run is not None:
            seen.add(run.id)
            run = later.run
        return run
