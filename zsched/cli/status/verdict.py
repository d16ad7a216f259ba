"""
What is wrong with a namespace, the worst first, each with what to do about it.

A *problem* makes it unhealthy: something does not fire, or a lost Redis could not be rebuilt. A *warning* is for people
to look at in daylight, and leaves the exit code alone; else one broken schedule would hide the next outage.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from zsched.cli.status.copies import audit_text, last_audit, shown, trouble_of
from zsched.cli.texts import plural
from zsched.core.durations import duration_text
from zsched.core.recent import Recent
from zsched.core.runs import BAD
from zsched.core.sentences import duration_text as rough_text
from zsched.storage.archivers import ArchiveState, Report
from zsched.storage.daemons import DaemonSeen
from zsched.storage.reader import Overview

LATE_MS: Final = 10_000  # something overdue for longer is no passing hiccup: a take-over is over by then

# When failures are no single bad job any more, as in deploy/prometheus/alerts.yml: so many, and so large a share of the
# runs that ended lately.
_FAILING: Final = 3
_FAILING_SHARE: Final = 0.1
_LATELY_MS: Final = 300_000

_START: Final = "start one: systemctl start zsched, or zsched daemon"
_REMEDIES: Final = {
    ArchiveState.REFUSED: "give its daemon an [archive] path of its own, or move the file away",
    ArchiveState.FAILED: "make room on its disk, or mend it: it goes on by itself, and Redis keeps what it lacks",
}
_AWAITS_PEOPLE: Final = "zsched recover --dry-run shows what is missing, zsched recover puts it back"
_PUTS_BACK: Final = "wait: a million schedules take about a minute; until then clients do not see all of them"


class Problem(NamedTuple):
    """Something that is wrong. ``name`` is for programs, ``text`` names the object and ``remedy`` says what to do."""

    name: str
    text: str
    remedy: str

    def to_dict(self) -> dict[str, str]:
        """As JSON can say it; the keys, and the names, are a promise."""
        return {"name": self.name, "problem": self.text, "remedy": self.remedy}


def problems(overview: Overview) -> list[Problem]:
    """What makes it unhealthy, the worst first."""
    lost = _ailing(overview, ArchiveState.LOST)
    others = _ailing(overview, ArchiveState.FAILED, ArchiveState.REFUSED)
    return [*_nobody_leads(overview), *lost, *_late(overview), *others, *_no_archive(overview), *_audit(overview)]


def warnings(overview: Overview, recent: Recent) -> list[Problem]:
    """What should be looked at."""
    return [*_failing(recent), *_quarantined(overview), *_differing(overview.daemons)]


def _nobody_leads(overview: Overview) -> Iterator[Problem]:
    if overview.leader is not None:
        return
    running = [daemon for daemon in overview.daemons if daemon.is_running]
    if running:
        which = "; ".join(daemon.place for daemon in running)
        text = f"nobody leads; heard of within 30 s: {which}"
        remedy = f"one that runs leads soon, or its log says why not (leading_refused, redis_refused); else {_START}"
        yield Problem("no_leader", text, remedy)
    else:
        remedy = f"{_START}; until then nothing fires, and nothing is lost"
        yield Problem("no_leader", "nobody leads: no daemon of this namespace is running", remedy)


def _late(overview: Overview) -> Iterator[Problem]:
    if overview.late_ms <= LATE_MS:
        return
    if overview.leader is None:
        remedy = "it fires when a daemon leads"
    elif overview.hold_ms > overview.now_ms:
        hold_ms = overview.hold_ms - overview.now_ms
        remedy = f"nothing fires for {duration_text(hold_ms)} more, after a loss or a restart of Redis"
    else:
        remedy = "look for redis_refused and clock_jumped in the leader's log, and how busy it and Redis are"
    yield Problem("late", f"the oldest due schedule is {rough_text(overview.late_ms)} late", remedy)


def _ailing(overview: Overview, *states: ArchiveState) -> Iterator[Problem]:
    recent = [one for one in shown(overview) if one.is_recent(overview.now_ms) and not one.is_stopped]
    for state in states:
        for report in recent:
            if report.state is state:
                text = f"archive {report.place} {state.value}: {trouble_of(report) or 'it gives no reason'}"
                yield Problem(f"archive_{state.value}", text, _remedy(report))


def _no_archive(overview: Overview) -> Iterator[Problem]:
    if overview.leader is not None and not any(report.is_alive(overview.now_ms) for report in overview.archives):
        remedy = "see archive_failed and archiver_refused in the daemons' logs; without one a lost Redis stays lost"
        yield Problem("no_archive", "no archive follows the log", remedy)


def _remedy(report: Report) -> str:
    if report.state is ArchiveState.LOST:
        return _AWAITS_PEOPLE if report.awaits_people else _PUTS_BACK
    return _REMEDIES[report.state]


def _audit(overview: Overview) -> Iterator[Problem]:
    audit = last_audit(overview)
    if audit is not None and audit.alarms > audit.repaired:
        text = f"the last audit: {audit_text(audit, overview.now_ms)}; the daemon's log says what"
        remedy = "there are schedule_missing, occurrence_missing, occurrence_overdue; zsched why ID tells more"
        yield Problem("audit", text, remedy)


def _failing(recent: Recent) -> Iterator[Problem]:
    stretch = next((one for one in reversed(recent.stretches) if one.span_ms <= _LATELY_MS), recent.stretches[0])
    ended, bad = sum(stretch.ended.values()), sum(stretch.ended.get(status, 0) for status in BAD)
    if bad >= _FAILING and bad > _FAILING_SHARE * ended:
        of = f"{plural(ended, 'run')} that ended in the last {rough_text(stretch.span_ms)}"
        text = f"{bad:,} of {of} failed or were lost"
        remedy = "zsched history --status failed (or lost) lists them, zsched why ID tells of one schedule"
        yield Problem("failing", text, remedy)


def _quarantined(overview: Overview) -> Iterator[Problem]:
    if overview.quarantined:
        text = f"{plural(overview.quarantined, 'schedule')} in quarantine: broken, and not fired"
        remedy = "zsched ls --state quarantined lists them, zsched why ID says why; schedule them again, or cancel them"
        yield Problem("quarantined", text, remedy)


def _differing(daemons: list[DaemonSeen]) -> Iterator[Problem]:
    running = [daemon for daemon in daemons if daemon.is_running]
    if which := _groups((daemon.version, daemon) for daemon in running):
        yield Problem("versions", f"daemons of different versions: {which}", "restart those of the older one")
    if which := _groups((daemon.tzdata, daemon) for daemon in running):
        remedy = "update tzdata everywhere and restart: by the next leader's rules what waits is moved to other times"
        yield Problem("tzdata", f"daemons plan by different time zone rules: {which}", remedy)


def _groups(told: Iterator[tuple[str | None, DaemonSeen]]) -> str:
    """Who says what, when they do not all say the same; those that say nothing are left out."""
    groups = defaultdict(list)
    for value, daemon in told:
        if value is not None:
            groups[value].append(daemon.place)
    return ", ".join(f"{value} ({'; '.join(groups[value])})" for value in sorted(groups)) if len(groups) > 1 else ""
