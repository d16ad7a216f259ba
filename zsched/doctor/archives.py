"""Is what happens copied to a disk beside Redis', and how far?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zsched.core.durations import duration_text
from zsched.doctor.finding import Finding, fine, problem, warning
from zsched.doctor.patient import Patient
from zsched.storage.archivers import ArchiveState, Report, remembered
from zsched.storage.log import Log

_FAR: Final = 100_000  # entries behind: more than a few seconds' work
_TROUBLES: Final = {
    ArchiveState.FAILED: ("has failed", "see to its disk: until then, what happens is copied by the others alone"),
    ArchiveState.REFUSED: (
        "is of another data set than this Redis",
        "if this Redis was rebuilt or moved: zsched recover --from its file --force; else give its daemon another path",
    ),
    ArchiveState.LOST: (
        "has what Redis lost",
        'it is put back by itself; with [archive] recovery = "manual" run zsched recover',
    ),
}


def look_at_archives(patient: Patient) -> Iterator[Finding]:
    """What every archive told last, and whether any follows the log."""
    now_ms = patient.now_ms()
    reports = remembered(patient.reports(), now_ms)
    last = next(iter(Log(patient.wire, patient.keys).read_back("+", 1)), None)
    is_fine, alive = True, 0
    for report in reports:
        for finding in _of(report, now_ms, last.position.seq if last else 0):
            is_fine = False
            yield finding
        alive += report.is_alive(now_ms)
    if alive and is_fine:
        yield fine("one archive follows the log" if alive == 1 else f"{alive} archives follow the log")
    elif not alive and not reports and not patient.has_begun():
        yield warning("there is none yet", "start a daemon: each keeps one")
    elif not alive:
        yield problem(
            "no archive follows the log: what Redis loses is lost, and no daemon can tell why a run is missing",
            "start a daemon; of one that runs, the log tells what its archive lacks",
        )


def _of(report: Report, now_ms: int, last_seq: int) -> Iterator[Finding]:
    """What is to be said of one archive."""
    place = f"the archive {report.place}"
    if not report.is_recent(now_ms):
        if report.is_stopped:
            return
        silent_ms = (now_ms - report.told_ms) // 1000 * 1000
        yield warning(f"{place} is silent since {duration_text(silent_ms)}", "see whether its daemon runs")
        return
    if report.state in _TROUBLES:
        said, remedy = _TROUBLES[report.state]
        trouble = report.about.get("trouble")
        yield problem(f"{place} {said}: {trouble}" if trouble else f"{place} {said}", remedy)
    if report.state is ArchiveState.OUTDATED:
        yield warning(
            f"{place} stands back: {report.about.get('trouble')}", "upgrade that daemon; it goes on by itself"
        )
    behind = last_seq - report.position.seq if report.position else 0
    if report.state is ArchiveState.FOLLOWING and behind > _FAR:
        yield warning(f"{place} is {behind:,} entries behind", "see what slows its disk")
    unreadable = report.unreadable_entries
    if unreadable:
        yield warning(
            f"{place} could not read {unreadable:,} of the log's entries; another writer broke them",
            "it reads from Redis what they did, within a minute; find who writes to the log by hand",
        )
    if (unknown := report.unknown_entries - unreadable) > 0:
        yield warning(
            f"{place} keeps {unknown:,} entries that its zsched cannot read", "upgrade that daemon: a newer one led"
        )
