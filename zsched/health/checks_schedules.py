"""Checks of schedules: do their runs fail or block them, and is one paused past its time?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zsched.health.check import Finding, fine, health_check, warning
from zsched.storage.overview import Overview

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


@health_check("schedules_blocked", Overview, "schedules", alert="schedules are skipped, because a run does not end")
def check_schedules_blocked(overview: Overview) -> Iterator[Finding]:
    """Report recurring schedules that are skipped for overlap again and again."""
    blocked = overview.troubles.blocked
    if not blocked.count:
        yield fine("no recurring schedule is blocked by its own run")
        return
    text = f"{blocked.counted} skipped, because a run does not end: {blocked.named()}"
    remedy = f"zsched why ID names the run, zsched cancel-run RUN_ID stops it; {_LISTS}"
    yield warning(text, remedy)


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
