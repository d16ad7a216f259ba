"""``zsched status``: is somebody leading, does it keep up, and is there a durable copy?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from zsched.cli.exits import DONE, UNHEALTHY
from zsched.cli.invocation import Invocation, connect, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.tables import pairs
from zsched.cli.times import relative_text
from zsched.config.redaction import redact
from zsched.core.clock import LAST_MS
from zsched.core.durations import duration_text
from zsched.core.model import Priority, iso
from zsched.storage.archivers import ArchiveState, Report
from zsched.storage.limits import HeldBack
from zsched.storage.reader import Overview

LATE_MS: Final = 10_000  # something overdue for longer is no passing hiccup: a take-over is over by then
FORGOTTEN_MS: Final = 3_600_000  # an archive that reported nothing for longer is not shown: it has moved or is gone
_TROUBLED: Final = (ArchiveState.FAILED, ArchiveState.REFUSED, ArchiveState.LOST)
_AUDIT: Final = ("at", "checked", "alarms", "repaired")
_PUTS_BACK: Final = "Redis lost something that this archive has, and it is being put back"


@click.command(cls=Subcommand)
@pass_invocation
def status(invocation: Invocation) -> int:
    """
    Show who leads, what waits and how late it is, and how far the archives are. Exit code 4 when nobody leads,
    something is overdue by more than 10 seconds, no archive follows the log, or one has failed, or has what Redis
    lost: then it says whether that is being put back, or `zsched recover` is awaited.

    \b
    Example:
      zsched status --json | jq .problems
    """
    settings = invocation.settings()
    overview = connect(settings).overview()
    problems = _problems(overview)
    place = {"namespace": settings.namespace, "redis": redact(settings.redis.url)}
    invocation.answer(place | _to_dict(overview, problems), *pairs([*place.items(), *_fields(overview, problems)]))
    return UNHEALTHY if problems else DONE


def _late_ms(overview: Overview) -> int:
    """How late the oldest waiting schedule is; 0 when none is."""
    return 0 if overview.oldest_due_ms is None else max(overview.now_ms - overview.oldest_due_ms, 0)


def _problems(overview: Overview) -> list[str]:
    problems = []
    if overview.leader is None:
        problems.append("nobody leads: no daemon of this namespace is running")
    if _late_ms(overview) > LATE_MS:
        problems.append(f"the oldest due schedule is {duration_text(_late_ms(overview))} late")
    problems += [
        f"archive {place_of(report)} {report.state.value}: {_trouble(report) or 'it gives no reason'}"
        for report in _shown(overview)
        if report.state in _TROUBLED and report.is_recent(overview.now_ms)
    ]
    if overview.leader is not None and not any(report.is_alive(overview.now_ms) for report in overview.archives):
        problems.append("no archive follows the log")
    if (audit := _audit(overview)) is not None and audit["alarms"] > audit["repaired"]:
        problems.append(f"the last audit: {_audit_text(audit, overview)}; the daemon's log says what")
    return problems


# -- archives: what they tell of themselves is free text, and shown with care -------------------------


def _shown(overview: Overview) -> list[Report]:
    """The archives that were heard of lately, by place: who reported last changes from call to call."""
    lately = [report for report in overview.archives if report.is_recent(overview.now_ms, FORGOTTEN_MS)]
    return sorted(lately, key=lambda report: (place_of(report), report.archive))


def place_of(report: Report) -> str:
    """Where an archive is: host and path."""
    return f"{report.about.get('host', '?')}:{report.about.get('path', '?')}"


def awaits_people(report: Report) -> bool:
    """Whether an archive has what Redis lost, and waits for ``zsched recover``: [archive] recovery = "manual"."""
    return report.state is ArchiveState.LOST and report.about.get("awaits_people") is True


def _trouble(report: Report) -> str | None:
    if report.state is ArchiveState.LOST and not awaits_people(report):
        return _PUTS_BACK  # what it told of troubles before is no matter now
    trouble = report.about.get("trouble")
    return None if trouble is None else str(trouble)


def _complete_since(report: Report, beginning: str) -> str | None:
    """A time, *beginning* when it has the whole log, or None when it knows nothing yet."""
    from zsched.archive import START  # which costs the other commands 15 ms

    since = str(report.about.get("complete_since"))
    if since == START:
        return beginning
    return iso(min(int(since) // 1000, LAST_MS)) if since.isascii() and since.isdigit() else None


def _archive_to_dict(report: Report, overview: Overview) -> dict[str, Any]:
    return {
        "id": report.archive,
        "host": report.about.get("host"),
        "path": report.about.get("path"),
        "state": report.state.value,
        "position": report.position.id if report.position else None,
        "behind": overview.behind(report),
        "complete_since": _complete_since(report, "start"),
        "told_at": iso(report.told_ms),
        "trouble": _trouble(report),
    }


def _archive_text(report: Report, overview: Overview) -> str:
    behind, since = overview.behind(report), _complete_since(report, "the beginning")
    parts = [place_of(report), report.state.value]
    if report.position is None:
        parts.append("nothing on its disk yet")
    elif behind is None:
        parts.append(f"at {report.position.id}, which this log does not have")
    else:
        parts.append(f"{behind:,} {'entry' if behind == 1 else 'entries'} behind" if behind else "up to date")
    if since is not None:
        parts.append(f"complete since {since}")
    if not report.is_recent(overview.now_ms):
        parts.append(f"heard of {relative_text(report.told_ms, overview.now_ms)}")
    return ", ".join(parts) + (f": {trouble}" if (trouble := _trouble(report)) else "")


# -- the last audit -----------------------------------------------------------------------------------


def _audit(overview: Overview) -> dict[str, int] | None:
    """What the last audit found: at (ms), checked, alarms, repaired; None when nobody told of one."""
    told = [report.about.get("audit") for report in _shown(overview)]
    audits = [
        {name: audit[name] for name in _AUDIT}
        for audit in told
        if isinstance(audit, dict) and all(type(audit.get(name)) is int for name in _AUDIT)
    ]
    return max((audit for audit in audits if 0 <= audit["at"] <= LAST_MS), key=lambda audit: audit["at"], default=None)


def _audit_text(audit: dict[str, int], overview: Overview) -> str:
    found = f"{audit['alarms']:,} alarms, {audit['repaired']:,} put right" if audit["alarms"] else "nothing wrong"
    return f"{relative_text(audit['at'], overview.now_ms)}, of {audit['checked']:,} schedules: {found}"


def _held_back_text(held: HeldBack) -> str:
    if held.per_second is None:
        return f"{held.waiting:,}, by a limit of queue {held.queue} that has ended: they go now"
    return f"{held.waiting:,}, by [queues.{held.queue}] max_per_second = {held.per_second:g}"


# -- all of it ----------------------------------------------------------------------------------------


def _to_dict(overview: Overview, problems: list[str]) -> dict[str, Any]:
    return {
        "healthy": not problems,
        "problems": problems,
        "now": iso(overview.now_ms),
        "leader": overview.leader,
        "lease_ms": overview.lease_ms,
        "epoch": overview.epoch,
        "waiting": {lane.value: overview.waiting[lane] for lane in Priority},
        "overdue": {lane.value: overview.overdue[lane] for lane in Priority},
        "oldest_due_at": iso(overview.oldest_due_ms),
        "late_ms": _late_ms(overview),
        "held_back": [
            {"queue": held.queue, "max_per_second": held.per_second, "waiting": held.waiting}
            for held in overview.held_back
        ],
        "recurring": overview.recurring,
        "paused": overview.paused,
        "quarantined": overview.quarantined,
        "log_length": overview.log_length,
        "hold_until": iso(overview.hold_ms or None),
        "archives": [_archive_to_dict(report, overview) for report in _shown(overview)],
        "audit": (audit := _audit(overview)) and audit | {"at": iso(audit["at"])},
    }


def _fields(overview: Overview, problems: list[str]) -> Iterator[tuple[str, str]]:
    leader = "nobody"
    if overview.leader is not None:
        leader = f"{overview.leader}, epoch {overview.epoch}, lease for {overview.lease_ms} ms more"
    yield "leader", leader
    for lane in Priority:
        yield f"{lane.value} lane", f"{overview.waiting[lane]:,} waiting, {overview.overdue[lane]:,} of them due"
    for held in overview.held_back:
        yield "held back", _held_back_text(held)
    late_ms = _late_ms(overview)
    yield "late", duration_text(late_ms) if late_ms else "nothing is overdue"
    yield (
        "schedules",
        f"{overview.recurring:,} recurring, {overview.paused:,} paused, {overview.quarantined:,} quarantined",
    )
    yield "log", f"{overview.log_length:,} entries"
    for report in _shown(overview):
        yield "archive", _archive_text(report, overview)
    if (audit := _audit(overview)) is not None:
        yield "audit", _audit_text(audit, overview)
    if overview.hold_ms > overview.now_ms:
        yield "hold", f"nothing fires for {duration_text(overview.hold_ms - overview.now_ms)} more"
    yield "health", "; ".join(problems) or "good"
