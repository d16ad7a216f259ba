"""
Checks of the last minutes: was Redis rebuilt, was its clock right, do runs fail, and are they in time?

Checks of schedules: do their runs fail or block them, and is one paused past its time?
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.recent import RecentActivity, Stretch
from zsched.core.pages import grouped
from zsched.core.runs.cells import lasting, remark, with_short_workers
from zsched.core.runs.job import DEFAULT_TIMEOUT_S
from zsched.core.runs.run import FAILURES, RunStatus
from zsched.core.wording import plural, relative_text, rough_duration, some
from zsched.health.facts import Finding, fine, health_check, warning
from zsched.storage.overview import Overview
from zsched.storage.troubled import Troubled

# Failures that are worth a warning: their number, and their share of the runs that ended lately. The same values are in
# deploy/prometheus/alerts.yml.
_FAILING: Final = 3
_FAILING_SHARE: Final = 0.1
_LATELY_MS: Final = 300_000
_NAMED: Final = 4  # schedules
_PUT_BACK: Final = {
    What.RESTORED: "restored",
    What.PUSHED_AGAIN: "pushed again",
    What.HELD: "held by RQ already",
    What.RAN_AGAIN: "ran again, although over",
    What.SKIPPED: "skipped as uncertain",
    What.WITHDRAWN: "withdrawn, as they were over",
    What.QUARANTINED: "in quarantine",
}


@health_check("rebuilt", RecentActivity, "loss")
def check_rebuilt(recent: RecentActivity) -> Finding:
    """Report that Redis lost data and was rebuilt."""
    if recent.rebuilt is None:
        return fine(f"Redis lost nothing in the last {rough_duration(recent.stretches[-1].span_ms)}")
    changes = recent.rebuilt.changes
    parts = [f"{count:,} {_PUT_BACK[what]}" for what in _PUT_BACK if (count := changes.get(what, 0))]
    became = ", ".join(parts) or "nothing had to be restored"
    text = f"Redis lost something and was rebuilt at {_clock(recent.rebuilt.at_ms)}: "
    return warning(
        f"{text}{'at least ' if recent.is_cut else ''}{became}",
        "zsched history --status pushed_again (or ran_again, held, skipped) lists runs that happened twice, may happen "
        "twice, or not at all; "
        "zsched doctor says whether Redis keeps its data on a disk",
    ).about(("zsched", "doctor"), since_ms=recent.rebuilt.at_ms)


@health_check("clock_was_ahead", RecentActivity, "clock")
def check_clock_was_ahead(recent: RecentActivity) -> Iterator[Finding]:
    """Report that the clock of Redis was ahead, and that schedules have been silent since."""
    ahead = recent.ahead
    if ahead is not None and ahead.times:
        names, until = sorted(ahead.times), _clock(max(ahead.times.values()))
        which = f"{plural(len(names), 'recurring schedule')}: {some(names, _NAMED)}"
        who = f"until {until} at the latest it keeps silent {which}"
        text = f"the clock of Redis was ahead, came to {_clock(ahead.until_ms)}, and is right again; {who}"
        remedy = "give each another rule and then its own again: zsched set ID --every 2, zsched set ID --every 1"
        yield warning(text, remedy).about(ids=names[:_NAMED], since_ms=ahead.until_ms)


@health_check("failing", RecentActivity, "runs")
def check_failing(recent: RecentActivity) -> Finding:
    """Report that a tenth of the latest runs failed or were lost."""
    stretch = _lately(recent)
    ended, bad = stretch.unknown(*stretch.ended), stretch.unknown(*FAILURES)
    lately = f"in the last {rough_duration(stretch.span_ms)}"
    of = f"{bad:,} of {plural(ended, 'run')} that ended {lately} failed or were lost"
    if bad >= _FAILING and bad > _FAILING_SHARE * ended:
        told = (one for one in recent.failures if one.run.status in FAILURES and one.run.error)
        most = max(told, key=lambda one: one.times, default=None)
        which = f"; most often {most.run.schedule_id}, {remark(most.run)}" if most else ""
        remedy = "zsched history --status failed (or lost) lists them, zsched why ID explains one schedule"
        return warning(of + which, remedy).about(_runs(RunStatus.FAILED), ids=[most.run.schedule_id] if most else ())
    return fine(of)


@health_check("default_timeout", RecentActivity, "runs")
def check_default_timeout(recent: RecentActivity) -> Iterator[Finding]:
    """Report runs that RQ stopped at its default time limit, without a timeout of their own."""
    stopped = (one.run for one in recent.failures if one.run.is_timed_out)
    if names := sorted({run.schedule_id for run in stopped if run.timeout_s == DEFAULT_TIMEOUT_S}):
        text = f"RQ stopped runs after {DEFAULT_TIMEOUT_S} s, its default without a timeout: {some(names, _NAMED)}"
        found = warning(text, "give more: zsched set ID --timeout 1h; a one-shot gets it when it is scheduled")
        yield found.about(ids=names[:_NAMED])


@health_check("too_late", RecentActivity, "runs")
def check_too_late(recent: RecentActivity) -> Iterator[Finding]:
    """Report runs and occurrences that came too late."""
    stretch = _lately(recent)
    counts = (
        (stretch.ended.get(RunStatus.EXPIRED, 0), "run", "expired in a queue"),
        (stretch.happened.get(What.EXPIRED, 0), "occurrence", "expired before firing"),
        (stretch.happened.get(What.DEADLINE_MISSED, 0), "occurrence", "missed a deadline"),
        (stretch.missed, "occurrence", "passed and will not fire (paused, or no daemon led)"),
    )
    if parts := [f"{plural(count, noun)} {became}" for count, noun, became in counts if count]:
        text = f"in the last {rough_duration(stretch.span_ms)} {', '.join(parts)}"
        remedy = "zsched history --status expired (or skipped, deadline_missed) lists them, zsched why ID explains one"
        yield warning(text, remedy).about(_runs(RunStatus.EXPIRED))


@health_check("refused", RecentActivity, "runs")
def check_refused(recent: RecentActivity) -> Iterator[Finding]:
    """Report runs that guarded workers refused."""
    stretch = _lately(recent)
    if count := stretch.unknown(RunStatus.REFUSED):
        runs = f"workers refused {plural(count, 'run')} in the last {rough_duration(stretch.span_ms)}"
        text = f"{runs}: they are not signed, or not allowed"
        remedy = "zsched history --status refused lists them, zsched why ID has the reason"
        yield warning(text, remedy).about(_runs(RunStatus.REFUSED))


def _lately(recent: RecentActivity) -> Stretch:
    """Return the last five minutes, or the known part of them."""
    return next((one for one in reversed(recent.stretches) if one.span_ms <= _LATELY_MS), recent.stretches[0])


def _runs(status: RunStatus) -> tuple[str, ...]:
    """Return the command that lists the runs in *status*."""
    return "zsched", "history", "--status", status.value


def _clock(at_ms: int) -> str:
    return f"{from_ms(at_ms):%H:%M:%S} UTC"


# -- schedules ----------------------------------------------------------------------------------------

_LISTS: Final = "zsched status --json lists the schedules"


@health_check("schedules_failing", Overview, "schedules", alert="schedules whose last runs failed")
def check_schedules_failing(overview: Overview) -> Finding:
    """Report recurring schedules whose last runs failed."""
    failing = overview.troubles.failing
    if not failing.count:
        return fine("no recurring schedule fails again and again")
    text = f"{failing.counted} whose last runs failed: {failing.named()}"
    remedy = f"zsched why ID shows the error, zsched history --status failed lists the runs; {_LISTS}"
    return warning(text, remedy).about(_runs(RunStatus.FAILED), ids=failing.ids)


@health_check("schedules_blocked", Overview, "schedules", alert="schedules are skipped, because a run is not over")
def check_schedules_blocked(overview: Overview) -> Finding:
    """Report recurring schedules that are skipped for overlap again and again, while a worker has their run."""
    blocked = overview.troubles.blocked_by(RunStatus.RUNNING)
    if not blocked.count:
        return fine("no recurring schedule is blocked by its own run")
    runs = overview.troubles.in_the_way
    more = {id: f", {lasting(run, overview.now_ms)}" for id, run in runs.items()}
    text = f"{blocked.counted} skipped, because a run does not end: {with_short_workers(blocked.named(more=more))}"
    remedy = f"zsched why ID names the run, zsched cancel-run RUN_ID stops it; {_LISTS}"
    if blocked.count == 1 and (run := runs.get(blocked.worst[0][0])):
        found = warning(text, "if it hangs, stop it", "zsched", "cancel-run", run.id)
        return found.about(ids=(*blocked.ids, run.id), since_ms=run.since_ms)
    return warning(text, remedy).about(ids=blocked.ids)


@health_check("schedules_waiting", Overview, "schedules", follows=("writes",))
def check_schedules_waiting(overview: Overview) -> Iterator[Finding]:
    """Report recurring schedules that are skipped for overlap again and again, while their run waits, by queue."""
    runs = overview.troubles.in_the_way
    blocked = overview.troubles.blocked_by(RunStatus.QUEUED).worst
    for (queue, limit), worst in grouped(((runs[one[0]].queue, runs[one[0]].limit), one) for one in blocked).items():
        waiting = Troubled(len(worst), tuple(worst))
        more = {id: f", {lasting(runs[id], overview.now_ms)}" for id, _ in worst}
        place = f"for a slot of RQ's limit {limit}" if limit else f"in queue {queue}"
        text = f"{waiting.counted} skipped, because a run waits {place}: {waiting.named(more=more)}"
        if limit:
            found = warning(text, "see which run has the slot", "zsched", "why", worst[0][0])
        else:
            remedy = "its workers are busy, or it waits for another run; if there are too few, start one more"
            found = warning(text, remedy, "rq", "worker", queue)
        yield replace(found, waits_in=frozenset({queue}), ids=waiting.ids)


@health_check("deadlines_at_risk", Overview, "schedules")
def check_deadlines_at_risk(overview: Overview) -> Finding:
    """Report deadlines that will be missed if the next runs last as long as the last twenty of their schedules."""
    now_ms = overview.now_ms
    risks = [risk for report in overview.archives if report.is_alive(now_ms) for risk in report.at_risk]
    if not risks:
        return fine("no deadline is at risk")
    told = [f"{id}, {relative_text(at_ms, now_ms)}, and it takes {rough_duration(ms)}" for id, at_ms, ms in risks]
    remedy = "zsched why ID shows where its run is: start another worker for its queue, or stop what is before it"
    found = warning(f"{plural(len(risks), 'deadline')} at risk: {some(told, _NAMED)}", remedy)
    return found.about(ids=[id for id, _, _ in risks[:_NAMED]])


@health_check("overdue_paused", Overview, "schedules", alert="paused schedules are past their time")
def check_overdue_paused(overview: Overview) -> Finding:
    """Report paused schedules whose due time has passed."""
    late = overview.troubles.overdue_paused
    if not late.count:
        return fine("no paused schedule is past its time")
    which = f"{'' if late.is_all else 'at least '}{late.count:,} paused schedule"
    text = f"{which} is past its time" if late.count == 1 else f"{which}s are past their time"
    remedy = "zsched resume ID lets it fire, zsched cancel ID removes it; zsched ls --state paused lists all"
    id, due_ms = late.worst[0]
    act = ("zsched", "resume", id) if late.count == 1 else ("zsched", "ls", "--state", "paused")
    return warning(f"{text}: {late.named(in_a_row=False)}", remedy).about(act, ids=late.ids, since_ms=due_ms)
