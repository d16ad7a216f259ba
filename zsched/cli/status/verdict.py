"""
What is wrong with a namespace, the worst first, each with what to do about it.

A *problem* makes it unhealthy: something does not fire or is not run, or a lost Redis could not be rebuilt. A *warning*
is for people to look at in daylight, and leaves the exit code alone; else one broken schedule would hide the next
outage.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from zsched.cli.status.copies import audit_text, entries_text, shown, trouble_of
from zsched.cli.status.standing import Standing
from zsched.core.changes import What
from zsched.core.clock import from_ms
from zsched.core.durations import duration_text
from zsched.core.recent import Recent, Stretch
from zsched.core.runs import BAD, RunStatus
from zsched.core.sentences import duration_text as rough_text
from zsched.core.wording import plural, some
from zsched.storage.archivers import ArchiveState, Report, last_audit
from zsched.storage.daemons import SILENT_MS, DaemonSeen
from zsched.storage.listeners import Attendance, Untaken, waiting_text
from zsched.storage.meta import moving_away
from zsched.storage.overview import Overview

LATE_MS: Final = 10_000  # something overdue for longer is no passing hiccup: a take-over is over by then

# When failures are no single bad job any more, as in deploy/prometheus/alerts.yml: so many, and so large a share of the
# runs that ended lately.
_FAILING: Final = 3
_FAILING_SHARE: Final = 0.1
_LATELY_MS: Final = 300_000

_QUEUES: Final = 4  # named in a remedy
_PUT_BACK: Final = {
    What.RESTORED: "put back",
    What.PUSHED_AGAIN: "pushed again",
    What.HELD: "held by RQ already",
    What.SKIPPED: "skipped as uncertain",
    What.WITHDRAWN: "withdrawn, as they were over",
    What.QUARANTINED: "in quarantine",
}
_START: Final = "start one: systemctl start zsched, or zsched daemon"
_REMEDIES: Final = {
    ArchiveState.REFUSED: "if this Redis was rebuilt or moved: zsched recover --from its file --force; else give its "
    "daemon another path",
    ArchiveState.OUTDATED: "upgrade its daemon: it goes on by itself, and newer ones have what it lacks",
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


def problems(standing: Standing) -> list[Problem]:
    """What makes it unhealthy, the worst first."""
    overview = standing.overview
    lost = _ailing(overview, ArchiveState.LOST)
    others = _ailing(overview, ArchiveState.FAILED, ArchiveState.REFUSED)
    late = [*_late(overview), *_nobody_takes(standing.attendance)]
    found = [*_nobody_leads(overview), *lost, *late, *others, *_no_archive(overview), *_audit(overview)]
    return [*found, *_wrong_types(overview)]


def warnings(standing: Standing) -> list[Problem]:
    """What should be looked at."""
    overview, recent = standing.overview, standing.recent
    return [
        *_rebuilt(recent),
        *_clock_was_ahead(overview, recent),
        *_failing(recent),
        *_too_late(recent),
        *_no_standby(standing),
        *_nobody_takes_yet(standing.attendance),
        *_quarantined(overview),
        *_ailing(overview, ArchiveState.OUTDATED),
        *_failing_inside(overview.daemons),
        *_unknown(overview),
        *_differing(overview.daemons),
    ]


def _nobody_leads(overview: Overview) -> Iterator[Problem]:
    if overview.leader is not None:
        return
    running = [daemon for daemon in overview.daemons if daemon.is_running]
    if running:
        which = "; ".join(daemon.place for daemon in running)
        text = f"nobody leads; heard of within {SILENT_MS // 1000} s: {which}"
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
    elif overview.held_ms:
        remedy = f"nothing fires for {duration_text(overview.held_ms)} more, after a loss or a restart of Redis"
    else:
        remedy = "look for redis_refused and clock_jumped in the leader's log, and how busy it and Redis are"
    yield Problem("late", f"the oldest due schedule is {rough_text(overview.late_ms)} late", remedy)


def _nobody_takes(attendance: Attendance | None) -> Iterator[Problem]:
    """Where a job waits for so long that this does not pass by itself."""
    if attendance is None:
        return
    if any(one.is_stuck for one in attendance.suspended):
        yield _suspended(attendance)
    if stuck := [one for one in attendance.unheard if one.is_stuck]:
        yield _unheard("unheard", stuck)


def _nobody_takes_yet(attendance: Attendance | None) -> Iterator[Problem]:
    if attendance is None:
        remedy = "ask as a user who may, zsched-dashboard of deploy/redis/users.acl; zsched doctor says what is refused"
        yield Problem("queues_unknown", "whether workers take jobs from queues cannot be told", remedy)
        return
    if attendance.is_suspended and not any(one.is_stuck for one in attendance.suspended):
        yield _suspended(attendance)
    if waiting := [one for one in attendance.unheard if one.waiting and not one.is_stuck]:
        yield _unheard("no_worker", waiting)
    if empty := [one for one in attendance.unheard if not one.waiting]:
        yield _unheard("no_worker", empty)


def _suspended(attendance: Attendance) -> Problem:
    waiting = attendance.suspended
    where = f": {waiting_text(waiting)} in {_queues(waiting)}" if waiting else ""
    return Problem("suspended", f"RQ's workers are suspended{where}", "rq resume lets them go on")


def _unheard(name: str, queues: list[Untaken]) -> Problem:
    what = f"where {waiting_text(queues)}" if queues[0].waiting else "which schedules use"
    words = shlex.join(["rq", "worker", *(one.queue for one in queues[:_QUEUES])])
    remedy = (
        f"start a worker: {words} (zsched doctor has it in full); workers that ran when Redis lost its data are not "
        "registered: restart them"
    )
    return Problem(name, f"nobody listens to {_queues(queues)}, {what}", remedy)


def _queues(queues: list[Untaken]) -> str:
    names = some([one.queue for one in queues])
    return f"queue {names}" if len(queues) == 1 else f"{len(queues)} queues ({names})"


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
    audit = last_audit(overview.archives, overview.now_ms)
    if audit is not None and audit.alarms > audit.repaired:
        text = f"the last audit: {audit_text(audit, overview.now_ms)}; the daemon's log says what"
        events = "schedule_missing, occurrence_missing, occurrence_overdue, run_suppressed"
        remedy = f"look for {events}; zsched why ID tells more"
        yield Problem("audit", text, remedy)


def _wrong_types(overview: Overview) -> Iterator[Problem]:
    for key in overview.wrong_types:
        text = f"{key} is of a wrong type: another program wrote it; firing goes on without it"
        yield Problem("wrong_type", text, moving_away(key))


def _rebuilt(recent: Recent) -> Iterator[Problem]:
    if recent.rebuilt is not None:
        at = from_ms(recent.rebuilt.at_ms).strftime("%H:%M:%S")
        told = [f"{count:,} {_PUT_BACK[what]}" for what in _PUT_BACK if (count := recent.rebuilt.changes.get(what, 0))]
        what = ", ".join(told) or "nothing had to be put back"
        text = f"Redis lost something and was rebuilt at {at} UTC: {'at least ' if recent.is_cut else ''}{what}"
        remedy = (
            "zsched history --status pushed_again (or skipped, held) lists runs that may happen twice, or not at all; "
            "zsched doctor says whether Redis keeps its data on a disk"
        )
        yield Problem("rebuilt", text, remedy)


def _clock_was_ahead(overview: Overview, recent: Recent) -> Iterator[Problem]:
    """Yield the traces of a clock of Redis that was ahead: silent schedules, and a doubt in the future."""
    ahead = recent.ahead
    if ahead is not None and ahead.times:
        names, until = sorted(ahead.times), _clock(max(ahead.times.values()))
        which = f"{plural(len(names), 'recurring schedule')}: {some(names, _QUEUES)}"
        who = f"until {until} at the latest it keeps silent {which}"
        text = f"the clock of Redis was ahead, came to {_clock(ahead.until_ms)}, and is right again; {who}"
        remedy = "give each another rule and then its own again: zsched set ID --every 2, zsched set ID --every 1"
        yield Problem("clock_was_ahead", text, remedy)
    if overview.doubt_ms > overview.now_ms:
        text = f"the clock of Redis was ahead: all that is due until {_clock(overview.doubt_ms)} counts as uncertain"
        yield Problem("doubt_ahead", text, "start a daemon: the first pass of a leader corrects it")


def _clock(at_ms: int) -> str:
    return f"{from_ms(at_ms):%H:%M:%S} UTC"


def _lately(recent: Recent) -> Stretch:
    """The last five minutes, or what is known of them."""
    return next((one for one in reversed(recent.stretches) if one.span_ms <= _LATELY_MS), recent.stretches[0])


def _too_late(recent: Recent) -> Iterator[Problem]:
    stretch = _lately(recent)
    counts = (
        (stretch.ended.get(RunStatus.EXPIRED, 0), "run", "expired in a queue"),
        (stretch.happened.get(What.EXPIRED, 0), "occurrence", "expired before firing"),
        (stretch.missed, "occurrence", "passed and will not fire (paused, or nobody led)"),
    )
    if told := [f"{plural(count, noun)} {became}" for count, noun, became in counts if count]:
        text = f"in the last {rough_text(stretch.span_ms)} {', '.join(told)}"
        remedy = "zsched history --status expired (or skipped) lists them, zsched why ID tells of one schedule"
        yield Problem("too_late", text, remedy)


def _no_standby(standing: Standing) -> Iterator[Problem]:
    if standing.overview.leader is not None and not standing.standbys:
        barred = "; ".join(f"{one.place} may not lead: {one.may_not_lead}" for one in standing.barred)
        which = f" ({barred})" if barred else ""
        text = f"nobody stands by{which}: when the daemon that leads dies, nothing fires until somebody starts another"
        remedy = f"mend what is said of it, or {_START}" if barred else _START
        yield Problem("no_standby", text, f"{remedy}, on another machine best")


def _failing(recent: Recent) -> Iterator[Problem]:
    stretch = _lately(recent)
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


def _failing_inside(daemons: list[DaemonSeen]) -> Iterator[Problem]:
    """Yield the failing threads and chores of running daemons. No other check sees that their work is not done."""
    for daemon in (one for one in daemons if one.is_running and one.failing):
        which = "; ".join(f"{part}: {reason}" for part, reason in daemon.failing.items())
        remedy = (
            "its log has thread_failed, chore_failed or question_failed with the cause; it is tried again and again"
        )
        yield Problem("daemon_failing", f"daemon {daemon.place} fails in part: {which}", remedy)


def _unknown(overview: Overview) -> Iterator[Problem]:
    for report in shown(overview):
        if report.unknown_entries and report.is_recent(overview.now_ms) and not report.is_stopped:
            number = entries_text(report.unknown_entries)
            text = f"archive {report.place} cannot read {number} of the log; nothing is audited by it"
            is_healing = report.unreadable_entries == report.unknown_entries
            remedy = (
                "it reads from Redis what they did, within a minute; find who writes to the log by hand"
                if is_healing
                else "upgrade its daemon: a newer zsched led; zsched doctor has it in full"
            )
            yield Problem("archive_unknown", text, remedy)


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
