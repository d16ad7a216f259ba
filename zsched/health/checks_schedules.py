"""Checks of schedules: do their runs fail or block them, and is one paused past its time?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zsched.core.runs.cells import lasting, with_short_workers
from zsched.core.runs.run import RunStatus
from zsched.health.check import Finding, fine, health_check, warning
from zsched.storage.overview import Overview
from zsched.storage.troubled import Troubled

_LISTS: Final = "zsched status --json lists the schedules"


@health_check("schedules_failing", Overview, "schedules", alert="schedules whose last runs failed")
def check_schedules_failing(overview: Overview) -> Iterator[Finding]:
    """Report recurring schedules whose last runs failed."""
    failing = overview.troubles.failing
    if not failing.count:
        yield fine("no recurring schedule fails again and again")
        return
    text = f"{failing.counted} whose last runs failed: {failing.named()}"
    yield warning(text, f"zsched why ID shows the error, zsched history --status failed lists the runs; {_LISTS}")


@health_check("schedules_blocked", Overview, "schedules", alert="schedules are skipped, because a run is not over")
def check_schedules_blocked(overview: Overview) -> Iterator[Finding]:
    """Report recurring schedules that are skipped for overlap again and again, while a worker has their run."""
    blocked = overview.troubles.blocked_by(RunStatus.RUNNING)
    if not blocked.count:
        yield fine("no recurring schedule is blocked by its own run")
        return
    runs = overview.troubles.in_the_way
    more = {id: f", {lasting(run, overview.now_ms)}" for id, run in runs.items()}
    text = f"{blocked.counted} skipped, because a run does not end: {with_short_workers(blocked.named(more=more))}"
    remedy = f"zsched why ID names the run, zsched cancel-run RUN_ID stops it; {_LISTS}"
    if blocked.count == 1 and (run := runs.get(blocked.worst[0][0])):
        yield warning(text, "if it hangs, stop it", "zsched", "cancel-run", run.id)
    else:
        yield warning(text, remedy)


@health_check("schedules_waiting", Overview, "schedules")
def check_schedules_waiting(overview: Overview) -> Iterator[Finding]:
    """Report recurring schedules that are skipped for overlap again and again, while their run waits, by queue."""
    runs = overview.troubles.in_the_way
    by_place: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for id, number in overview.troubles.blocked_by(RunStatus.QUEUED).worst:
        by_place.setdefault((runs[id].queue, runs[id].limit), []).append((id, number))
    for (queue, limit), worst in by_place.items():
        waiting = Troubled(len(worst), tuple(worst))
        more = {id: f", {lasting(runs[id], overview.now_ms)}" for id, _ in worst}
        place = f"for a slot of RQ's limit {limit}" if limit else f"in queue {queue}"
        text = f"{waiting.counted} skipped, because a run waits {place}: {waiting.named(more=more)}"
        if limit:
            found = warning(text, "see which run has the slot", "zsched", "why", worst[0][0])
        else:
            remedy = "its workers are busy, or it waits for another run; if there are too few, start one more"
            found = warning(text, remedy, "rq", "worker", queue)
        yield replace(found, queues=frozenset({queue}))


@health_check("overdue_paused", Overview, "schedules", alert="paused schedules are past their time")
def check_overdue_paused(overview: Overview) -> Iterator[Finding]:
    """Report paused schedules whose due time has passed."""
    late = overview.troubles.overdue_paused
    if not late.count:
        yield fine("no paused schedule is past its time")
        return
    which = f"{'' if late.is_all else 'at least '}{late.count:,} paused schedule"
    text = f"{which} is past its time" if late.count == 1 else f"{which}s are past their time"
    remedy = "zsched resume ID lets it fire, zsched cancel ID removes it; zsched ls --state paused lists all"
    yield warning(f"{text}: {late.named(in_a_row=False)}", remedy)
