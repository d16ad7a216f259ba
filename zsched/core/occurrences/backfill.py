"""
Backfills: the occurrences of a schedule in a stretch of the past, and which of them ran. Pure.

**Occurrences** follow from the present rule. A rule without anchor (cron), ``starts`` and ``count`` has occurrences at
any time, so also before the schedule was created. Other rules have occurrences from their anchor on. From the
schedule's next occurrence on, occurrences are left to its rule.

**Ran** means pushed: fired, backfilled, retried, found to be open, or held by RQ already. An occurrence that was
skipped because a lost Redis may have pushed it counts as ran, too. Occurrences that were skipped for another reason,
coalesced, missed or expired did not run.

Not guaranteed: that a pushed run succeeded. A run that was cancelled or failed counts as ran, and can be retried.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from zsched.core.model import Schedule, iso, json_of
from zsched.core.occurrences.changes import RUN_NOW, Change, is_push
from zsched.core.occurrences.future import Walk
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run_id import RunId
from zsched.core.story.source import Source
from zsched.core.triggers.trigger import build

MOST: Final = 100_000  # occurrences in one call: 45 MB of small jobs in a queue, pushed in 5 s (measured)


class Filled(NamedTuple):
    """A pushed occurrence; without a run id in a dry run, and for an occurrence that ran once more."""

    nominal_ms: int
    run_id: str | None


@dataclass(frozen=True, slots=True)
class Backfill:
    """
    Result of ``client.backfill`` in [start_ms, end_ms); with ``is_dry_run`` a plan.

    ``runs`` were pushed, the oldest first. ``ran`` counts occurrences that were left out: they ran already or are open.
    ``pending`` counts occurrences that the schedule fires anyway. ``source`` is the archive or the log that knew which
    occurrences ran.
    """

    schedule_id: str
    tz: str
    start_ms: int
    end_ms: int
    runs: tuple[Filled, ...]
    ran: int
    pending: int
    source: Source
    is_dry_run: bool

    @property
    def run_ids(self) -> list[str]:
        """Ids of the pushed runs."""
        return [one.run_id for one in self.runs if one.run_id is not None]

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON; the keys are stable."""
        names = "schedule_id", "start", "end", "dry_run", "runs", "ran", "pending", "source"
        return json_of(self, *names, start=iso(self.start_ms), end=iso(self.end_ms), dry_run=self.is_dry_run)


def past_of(schedule: Schedule, start_ms: int, end_ms: int) -> tuple[Walk, int]:
    """
    Return the occurrences of a recurring *schedule* in [start_ms, end_ms), and the number of later ones in it, which
    are left to the schedule.

    Raises:
        InvalidSchedule, TriggerError: its rule cannot be evaluated here.
    """
    assert schedule.trigger is not None
    assert schedule.anchor_ms is not None
    spec, anchor_ms = schedule.trigger, schedule.anchor_ms
    trigger = build(spec, anchor_ms if spec.is_anchored else min(anchor_ms, start_ms - 1))
    until_ms = end_ms if schedule.nominal_ms is None else max(min(end_ms, schedule.nominal_ms), start_ms)
    return Walk(trigger, start_ms - 1, until_ms - 1), trigger.count_between(until_ms - 1, end_ms - 1)


def ran_at(change: Change) -> int | None:
    """Return the nominal time of the occurrence that ran according to *change*; None if there is none."""
    if change.what is What.SKIPPED and change.why == "uncertain":
        return change.nominal_ms
    if change.run_id is None or not (is_push(change) or change.what is What.DUPLICATE):
        return None
    parts = RunId.parse(change.run_id)
    if parts is None or (parts.rerun and change.why == RUN_NOW):  # a run on request has no occurrence
        return None
    return parts.nominal_ms
