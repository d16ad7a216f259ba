"""Checks of the archives: does an archive follow the log, and how far is it behind?"""

from collections.abc import Callable, Iterator
from typing import Final

from zsched.core.wording import plural, relative_text
from zsched.health.facts import Finding, HealthCheck, fine, health_check, problem, skipped, warning
from zsched.storage.archivers import ArchiveState, Audited, last_audit
from zsched.storage.overview import Overview

_FAR: Final = 100_000  # entries behind: more than a few seconds' work
_RESTORE: Final = "wait: the archives restore what Redis lost, a million schedules in a minute; then firing continues"


def _of_state(state: ArchiveState, said: Callable[..., Finding], remedy: str) -> HealthCheck[Overview]:
    """Make the check ``archive_<state>``, which finds the archives in *state*."""

    def judge(overview: Overview) -> Iterator[Finding]:
        for report in overview.present_archives:
            if report.state is state:
                waits = state is ArchiveState.LOST and not report.awaits_people
                text = f"archive {report.place} {state.value}: {report.trouble or 'it gives no reason'}"
                yield said(text, _RESTORE if waits else remedy)

    return health_check(f"archive_{state.value}", Overview, "archives")(judge)


check_archive_lost = _of_state(
    ArchiveState.LOST,
    problem,
    "zsched archive recover --dry-run shows what is missing, zsched archive recover restores it",
)
check_archive_failed = _of_state(
    ArchiveState.FAILED,
    problem,
    "make room on its disk, or repair it: the archive then continues, and Redis keeps the missing entries",
)
check_archive_refused = _of_state(
    ArchiveState.REFUSED,
    problem,
    "if this Redis was rebuilt or moved: zsched archive recover --from FILE --force; else give its daemon another path",
)
check_archive_outdated = _of_state(
    ArchiveState.OUTDATED, warning, "upgrade its daemon: the archive then continues; newer daemons have the entries"
)


@health_check("no_archive", Overview, "archives", follows=("writes",), alert="no archive follows the log")
def check_no_archive(overview: Overview) -> Finding:
    """Report that no archive follows a leader's log. Without a leader, check_no_leader has the problem."""
    if alive := sum(report.is_alive(overview.now_ms) for report in overview.archives):
        return fine("one archive follows the log" if alive == 1 else f"{alive} archives follow the log")
    elif overview.leader is not None:
        events = "see archive_failed and archiver_refused in the daemons' logs; a lost Redis cannot be rebuilt now"
        remedy = f"wait while one is bootstrapping; else {events}"
        return problem("no archive follows the log", _RESTORE if overview.held_ms else remedy)
    return skipped("no archive follows the log, as no daemon is leading")


@health_check("audit", Overview, alert="the auditor found a missing or overdue schedule")
def check_audit(overview: Overview) -> Finding:
    """Report alarms of the last audit that it could not repair."""
    if (last := last_audit(overview.archives, overview.now_ms)) is None:
        return fine("there was no audit lately")
    elif last.alarms > last.repaired:
        text = f"the last audit: {audit_text(last, overview.now_ms)}; the daemon's log says what"
        events = "schedule_missing, occurrence_overdue, run_suppressed"
        return problem(text, f"look for {events}; zsched why ID explains")
    return fine(f"the last audit: {audit_text(last, overview.now_ms)}")


@health_check("archive_silent", Overview, "archives", follows=("writes",))
def check_archive_silent(overview: Overview) -> Iterator[Finding]:
    """Report an archive without recent reports, whose daemon did not stop in order."""
    for report in overview.known_archives:
        if not report.is_recent(overview.now_ms) and not report.is_stopped:
            heard, pid = relative_text(report.told_ms, overview.now_ms), report.about.get("pid")
            which = f"its daemon, pid {pid}" if type(pid) is int else "its daemon"
            remedy = f"see whether {which} runs there, and its log (journalctl -u zsched): it may be cut off from Redis"
            found = warning(f"archive {report.place} is silent: last report {heard}", remedy)
            yield found.about(since_ms=report.told_ms)


@health_check("archive_fleeting", Overview, "archives")
def check_archive_fleeting(overview: Overview) -> Iterator[Finding]:
    """Report an archive on a disk that does not stay, of a daemon inside a worker."""
    for report in overview.present_archives:
        if kind := report.about.get("fleeting"):
            text = f"archive {report.place} is on an ephemeral disk, lost with its container or machine ({kind})"
            yield warning(text, "mount a volume there, or give the worker an [archive] path on one")


@health_check("archive_behind", Overview, "archives")
def check_archive_behind(overview: Overview) -> Iterator[Finding]:
    """Report an archive that follows the log far behind."""
    for report in overview.present_archives:
        lacks = overview.behind(report) or 0
        if report.state is ArchiveState.FOLLOWING and lacks > _FAR:
            yield warning(f"archive {report.place} is {entries_text(lacks)} behind", "see what slows its disk")


@health_check("archive_unknown", Overview, "archives")
def check_archive_unknown(overview: Overview) -> Iterator[Finding]:
    """Report an archive that cannot read some entries of the log."""
    for report in overview.present_archives:
        if report.unknown_entries:
            number = entries_text(report.unknown_entries)
            is_healing = report.unreadable_entries == report.unknown_entries
            yield warning(
                f"archive {report.place} cannot read {number} of the log; it audits nothing",
                "it reads their effects from Redis within a minute; find who writes to the log by hand"
                if is_healing
                else "upgrade its daemon: a newer zsched led",
            )


def audit_text(audit: Audited, now_ms: int) -> str:
    """``2m ago, of 5 schedules: nothing wrong``."""
    found = f"{audit.alarms:,} alarms, {audit.repaired:,} repaired" if audit.alarms else "nothing wrong"
    return f"{relative_text(audit.at_ms, now_ms)}, of {audit.checked:,} schedules: {found}"


def entries_text(number: int) -> str:
    """``1 entry``, ``2,000 entries``."""
    return plural(number, "entry").replace("entrys", "entries")
