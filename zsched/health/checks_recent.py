"""Checks of the last minutes: was Redis rebuilt, was its clock right, do runs fail, and are they in time?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.recent import Recent, Stretch
from zsched.core.runs.cells import remark
from zsched.core.runs.job import DEFAULT_TIMEOUT_S
from zsched.core.runs.run import FAILURES, RunStatus
from zsched.core.wording import plural, rough_duration, some
from zsched.health.check import Finding, fine, health_check, warning

# Failures that are worth a warning: their number, and their share of the runs that ended lately. The same values are in
# deploy/prometheus/alerts.yml.
_FAILING: Final = 3
_FAILING_SHARE: Final = 0.1
_LATELY_MS: Final = 300_000
_NAMED: Final = 4  # schedules
_PUT_BACK: Final = {
    What.RESTORED: "put back",
    What.PUSHED_AGAIN: "pushed again",
    What.HELD: "held by RQ already",
    What.RAN_AGAIN: "ran again, although over",
    What.SKIPPED: "skipped as uncertain",
    What.WITHDRAWN: "withdrawn, as they were over",
    What.QUARANTINED: "in quarantine",
}


@health_check("rebuilt", Recent, "loss")
def check_rebuilt(recent: Recent) -> Iterator[Finding]:
    """Report that Redis lost data and was rebuilt."""
    if recent.rebuilt is None:
        yield fine(f"Redis lost nothing in the last {rough_duration(recent.stretches[-1].span_ms)}")
        return
    changes = recent.rebuilt.changes
    parts = [f"{count:,} {_PUT_BACK[what]}" for what in _PUT_BACK if (count := changes.get(what, 0))]
    became = ", ".join(parts) or "nothing had to be put back"
    text = f"Redis lost something and was rebuilt at {_clock(recent.rebuilt.at_ms)}: "
    yield warning(
        f"{text}{'at least ' if recent.is_cut else ''}{became}",
        "zsched history --status pushed_again (or ran_again, held, skipped) lists runs that happened twice, may happen "
        "twice, or not at all; "
        "zsched doctor says whether Redis keeps its data on a disk",
    )


@health_check("clock_was_ahead", Recent, "clock")
def check_clock_was_ahead(recent: Recent) -> Iterator[Finding]:
    """Report that the clock of Redis was ahead, and that schedules have been silent since."""
    ahead = recent.ahead
    if ahead is not None and ahead.times:
        names, until = sorted(ahead.times), _clock(max(ahead.times.values()))
        which = f"{plural(len(names), 'recurring schedule')}: {some(names, _NAMED)}"
        who = f"until {until} at the latest it keeps silent {which}"
        text = f"the clock of Redis was ahead, came to {_clock(ahead.until_ms)}, and is right again; {who}"
        yield warning(
            text, "give each another rule and then its own again: zsched set ID --every 2, zsched set ID --every 1"
        )


@health_check("failing", Recent, "runs")
def check_failing(recent: Recent) -> Iterator[Finding]:
    """Report that a tenth of the latest runs failed or were lost."""
    stretch = _lately(recent)
    ended, bad = sum(stretch.ended.values()), sum(stretch.ended.get(status, 0) for status in FAILURES)
    lately = f"in the last {rough_duration(stretch.span_ms)}"
    of = f"{bad:,} of {plural(ended, 'run')} that ended {lately} failed or were lost"
    if bad >= _FAILING and bad > _FAILING_SHARE * ended:
        told = (one for one in recent.failures if one.run.status in FAILURES and one.run.error)
        most = max(told, key=lambda one: one.times, default=None)
        which = f"; most often {most.run.schedule_id}, {remark(most.run)}" if most else ""
        remedy = "zsched history --status failed (or lost) lists them, zsched why ID explains one schedule"
        yield warning(of + which, remedy)
    else:
        yield fine(of)


@health_check("default_timeout", Recent, "runs")
def check_default_timeout(recent: Recent) -> Iterator[Finding]:
    """Report runs that RQ stopped at its default time limit, which nobody has chosen."""
    stopped = (one.run for one in recent.failures if one.run.is_timed_out)
    if names := sorted({run.schedule_id for run in stopped if run.timeout_s == DEFAULT_TIMEOUT_S}):
        text = f"RQ stopped runs after {DEFAULT_TIMEOUT_S} s, its default without a timeout: {some(names, _NAMED)}"
        yield warning(text, "give more: zsched set ID --timeout 1h; a one-shot gets it when it is scheduled")


@health_check("too_late", Recent, "runs")
def check_too_late(recent: Recent) -> Iterator[Finding]:
    """Report runs and occurrences that came too late."""
    stretch = _lately(recent)
    counts = (
        (stretch.ended.get(RunStatus.EXPIRED, 0), "run", "expired in a queue"),
        (stretch.happened.get(What.EXPIRED, 0), "occurrence", "expired before firing"),
        (stretch.missed, "occurrence", "passed and will not fire (paused, or nobody led)"),
    )
    if parts := [f"{plural(count, noun)} {became}" for count, noun, became in counts if count]:
        text = f"in the last {rough_duration(stretch.span_ms)} {', '.join(parts)}"
        yield warning(
            text, "zsched history --status expired (or skipped) lists them, zsched why ID explains one schedule"
        )


@health_check("refused", Recent, "runs")
def check_refused(recent: Recent) -> Iterator[Finding]:
    """Report runs that guarded workers refused."""
    stretch = _lately(recent)
    if count := stretch.ended.get(RunStatus.REFUSED, 0):
        runs = f"workers refused {plural(count, 'run')} in the last {rough_duration(stretch.span_ms)}"
        text = f"{runs}: they are not signed, or not allowed"
        yield warning(text, "zsched history --status refused lists them, zsched why ID has the reason")


def _lately(recent: Recent) -> Stretch:
    """Return the last five minutes, or the known part of them."""
    return next((one for one in reversed(recent.stretches) if one.span_ms <= _LATELY_MS), recent.stretches[0])


def _clock(at_ms: int) -> str:
    return f"{from_ms(at_ms):%H:%M:%S} UTC"
