"""The durable copies: what archives, and the last audit, tell of themselves, to people and to programs."""

from __future__ import annotations

from typing import Any, Final

from zsched.cli.times import relative_text
from zsched.core.clock import LAST_MS
from zsched.core.model import iso
from zsched.storage.archivers import ArchiveState, Audited, Report, remembered
from zsched.storage.overview import Overview

_PUTS_BACK: Final = "Redis lost something that this archive has, and it is being put back"


def shown(overview: Overview) -> list[Report]:
    """The archives that were heard of lately, by place: who reported last changes from call to call."""
    lately = remembered(overview.archives, overview.now_ms)
    return sorted(lately, key=lambda report: (report.place, report.archive))


def trouble_of(report: Report) -> str | None:
    """What keeps it from following, in its own words."""
    if report.state is ArchiveState.LOST and not report.awaits_people:
        return _PUTS_BACK  # what it told of troubles before is no matter now
    trouble = report.about.get("trouble")
    return None if trouble is None else str(trouble)


def archive_dict(report: Report, overview: Overview) -> dict[str, Any]:
    """All of it for programs; the keys are a promise."""
    return {
        "id": report.archive,
        "host": report.about.get("host"),
        "path": report.about.get("path"),
        "state": report.state.value,
        "position": report.position.id if report.position else None,
        "behind": overview.behind(report),
        "complete_since": _complete_since(report, "start"),
        "told_at": iso(report.told_ms),
        "trouble": trouble_of(report),
    }


def archive_text(report: Report, overview: Overview) -> str:
    """One line for people."""
    behind, since = overview.behind(report), _complete_since(report, "the beginning")
    parts = [report.place, "its daemon has stopped" if report.is_stopped else report.state.value]
    if report.position is None:
        parts.append("nothing on its disk yet")
    elif behind is None:
        parts.append(f"at {report.position.id}, which this log does not have")
    else:
        parts.append(f"{entries_text(behind)} behind" if behind else "up to date")
    if since is not None:
        parts.append(f"complete since {since}")
    if not report.is_recent(overview.now_ms):
        parts.append(f"heard of {relative_text(report.told_ms, overview.now_ms)}")
    return ", ".join(parts) + (f": {trouble}" if (trouble := trouble_of(report)) else "")


def entries_text(number: int) -> str:
    """``1 entry``, ``2,000 entries``."""
    return f"{number:,} {'entry' if number == 1 else 'entries'}"


def audit_dict(audit: Audited) -> dict[str, Any]:
    """All of it for programs; the keys are a promise."""
    return {"at": iso(audit.at_ms), "checked": audit.checked, "alarms": audit.alarms, "repaired": audit.repaired}


def audit_text(audit: Audited, now_ms: int) -> str:
    """One line for people."""
    found = f"{audit.alarms:,} alarms, {audit.repaired:,} put right" if audit.alarms else "nothing wrong"
    return f"{relative_text(audit.at_ms, now_ms)}, of {audit.checked:,} schedules: {found}"


def _complete_since(report: Report, beginning: str) -> str | None:
    """A time, *beginning* when it has the whole log, or None when it knows nothing yet."""
    from zsched.archive import START  # which costs the other commands 15 ms

    since = str(report.about.get("complete_since"))
    if since == START:
        return beginning
    return iso(min(int(since) // 1000, LAST_MS)) if since.isascii() and since.isdigit() else None
