"""
The past as a caller with limits sees it: of a schedule, what happened while it was within them.

An id may have had another schedule before, or the same one with another function. So the history of a limited caller
begins with the first put of the last unbroken series of puts within the limits (``history_begins``). What was before,
and what is told later of runs that were pushed before, is left out as if it had never been.

Not guaranteed: that nothing more is left out. The series is looked for in the newest changes, and ends at a put that
this version cannot read, and at a recovery. A retry is left out if the run that it repeats is not among these changes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Self, TypeVar

from zsched.core.clock import LAST_MS
from zsched.core.occurrences.changes import Change, Wanted
from zsched.core.occurrences.outcomes import OF_RUNS, RESTORED_RUNS, Outcome, What
from zsched.core.options.allowed import Limits
from zsched.core.runs.run import Run
from zsched.core.runs.run_id import RunId
from zsched.core.story.story import Chronicle
from zsched.storage.connection import Link
from zsched.storage.folded import FoldedLog
from zsched.storage.history_reader import HistoryPage, HistoryReader
from zsched.storage.keys import Keys
from zsched.storage.reader import Reader

C = TypeVar("C", bound=Change)

_LOOKED_AT: Final = 200  # changes of a schedule
_NEVER: Final = LAST_MS * 1000  # µs
_OF_A_RUN: Final = OF_RUNS | RESTORED_RUNS | {What.RETRIED, What.WITHDRAWN}  # pushed earlier
_BREAKS: Final = RESTORED_RUNS | {What.RESTORED, What.FOUND, What.WITHDRAWN}  # Redis or an archive lost something


class Extent(NamedTuple):
    """The seen part of a schedule's history: changes from *since_us* on, and the *runs* that were pushed since."""

    since_us: int
    runs: set[str | None]

    @classmethod
    def of(cls, since_us: int, changes: Sequence[Change]) -> Self:
        """Return the extent that begins at *since_us*, by the known *changes*, in order."""
        runs = set[str | None]()
        for one in changes:
            is_push = one.what in (What.FIRED, What.ENQUEUED) or (one.what is What.RETRIED and one.why in runs)
            if is_push and one.at_us >= since_us:
                runs.add(one.run_id)
        return cls(since_us, runs)

    def seen(self, changes: Sequence[C]) -> list[C]:
        """Return the visible *changes*, without their parts about other schedules."""
        return [self._told(change) for change in changes if self._has(change)]

    def _has(self, change: Change) -> bool:
        is_of_rule_before = change.what is What.SKIPPED and change.why == Outcome.RULE_CHANGED.reason
        is_known = change.what not in _OF_A_RUN or change.run_id in self.runs
        return is_known and change.at_us >= self.since_us + is_of_rule_before

    def _told(self, change: C) -> C:
        if change.at_us == self.since_us:
            return replace(change, changed=())
        is_by_daemon = change.what in (What.FIRED, What.SKIPPED)
        others = is_by_daemon and set(filter(RunId.parse, change.why.split())) - self.runs
        return replace(change, why=change.why.partition(":")[0] if ":" in change.why else "") if others else change


def history_begins(chronicle: Chronicle, present: Reader, limits: Limits) -> int:
    """Return the time in µs since when the history of a schedule is within *limits*; ``_NEVER`` if it is not now."""
    found = present.find(chronicle.id)
    if found is None or limits.refusal(found.limited_by) is not None:
        return _NEVER
    updated_ms = found.updated_ms
    since_us = _NEVER if updated_ms is None else (updated_ms + 1) * 1000  # unless its put is among the changes
    for change in reversed(chronicle.changes):
        if chronicle.left_out and change.entry == chronicle.changes[0].entry:
            break
        is_put = change.what is What.PUT
        if is_put and change.limited_by is not None and limits.refusal(change.limited_by) is None:
            since_us = change.at_us
        elif is_put or change.what in _BREAKS or (change.what is What.ENQUEUED and not change.why):
            return max(since_us, change.at_us + 1)
    return since_us


class LimitedHistoryReader(HistoryReader):
    """Questions about the past of schedules within *limits*, as *reader* finds them now."""

    _is_limited = True

    def __init__(self, link: Link, keys: Keys, folded: FoldedLog, reader: Reader, limits: Limits) -> None:
        super().__init__(link, keys, folded)
        self._reader, self._limits = reader, limits

    def chronicle(self, id: str, newest: int = _LOOKED_AT) -> Chronicle:
        """Return the visible part of the *newest* changes of schedule *id*, or of some more."""
        whole, extent = self._extent(id, newest)
        if not (seen := extent.seen(whole.changes)):
            return Chronicle(id, whole.source, [])
        since_us = seen[0].at_us if whole.left_out else extent.since_us
        source = replace(whole.source, complete_since_ms=since_us // 1000, is_untrimmed=False)
        return replace(whole, source=source, changes=seen, left_out=0)

    def search(self, wanted: Wanted, after: str | None = None) -> Iterator[HistoryPage]:
        """Yield the seen of the *wanted* occurrences, as ``HistoryReader.search`` does, if they are of one schedule."""
        if wanted.id is None:
            yield from super().search(wanted, after)
            return
        _, extent = self._extent(wanted.id)
        bounded = replace(wanted, since_us=max(extent.since_us, wanted.since_us or 0))
        for part in super().search(bounded, after):
            yield part._replace(occurrences=extent.seen(part.occurrences))

    def in_rq(self, run_ids: Sequence[str]) -> list[Run]:
        """Return no runs: RQ does not know in whose time they were pushed."""
        return []

    def heard_queues(self) -> None:
        """Return None: other queues are beyond the limits."""

    def slot_holders(self, run: Run) -> list[Run]:
        """Return no runs: they may be of any schedule."""
        return []

    def _extent(self, id: str, newest: int = _LOOKED_AT) -> tuple[Chronicle, Extent]:
        whole = super().chronicle(id, max(newest, _LOOKED_AT))
        return whole, Extent.of(history_begins(whole, self._reader, self._limits), whole.changes)
