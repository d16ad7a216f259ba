"""
Which daemons a namespace has, as they told with the reports of their archives: every daemon has an archiver, which
reports at least every 3 s, whether it leads or stands by, and once more when it stops.

Not guaranteed: that a daemon is there which reported within SILENT_MS, if it was killed; that one is known which has
told nothing yet, or never could. A daemon of before there was more to tell says its id and host alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from zsched.core.clock import LAST_MS
from zsched.core.model import iso
from zsched.storage.archivers import ArchiveState, Report

SILENT_MS: Final = 10_000  # without a report: three should have come, so that a slow disk is not taken for a death


class DaemonRole(Enum):
    """What a daemon does."""

    LEADS = "leader"
    STANDS_BY = "standby"
    BARRED = "barred"  # it runs and may not lead, so takes over from nobody
    SILENT = "silent"  # it has not reported for SILENT_MS: killed, cut off, or its Redis refuses the report
    STOPPED = "stopped"  # in order


@dataclass(frozen=True, slots=True)
class DaemonSeen:
    """
    One daemon, by its last report at *told_ms* (the server's time). What it did not tell is None. ``started_ms`` is by
    the clock of its host; ``tzdata`` is the version of the zones' rules that it plans by; ``may_not_lead``, why it is
    BARRED; ``failing``, its threads, chores and kinds of questions that fail at present, each with the reason.
    """

    id: str
    role: DaemonRole
    host: str | None
    pid: int | None
    started_ms: int | None
    told_ms: int
    version: str | None
    python: str | None
    redis_py: str | None
    rq: str | None
    tzdata: str | None
    may_not_lead: str | None
    failing: Mapping[str, str]

    @property
    def is_running(self) -> bool:
        """Whether it leads, stands by, or is BARRED."""
        return self.role in (DaemonRole.LEADS, DaemonRole.STANDS_BY, DaemonRole.BARRED)

    @property
    def place(self) -> str:
        """``<host>, pid <pid>``, as far as they are known."""
        return f"{self.host or '?'}, pid {'?' if self.pid is None else self.pid}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON can say it; the keys are a promise."""
        return {
            "id": self.id,
            "role": self.role.value,
            "host": self.host,
            "pid": self.pid,
            "started_at": iso(self.started_ms),
            "told_at": iso(self.told_ms),
            "version": self.version,
            "python": self.python,
            "redis_py": self.redis_py,
            "rq": self.rq,
            "tzdata": self.tzdata,
            "may_not_lead": self.may_not_lead,
            "failing": dict(self.failing),
        }


def daemons_of(reports: Iterable[Report], leader: str | None, now_ms: int) -> list[DaemonSeen]:
    """Who told *reports*: the *leader* first, then by role, host and id."""
    order = list(DaemonRole)
    seen = [_seen(report, leader, now_ms) for report in reports if isinstance(report.about.get("daemon"), str)]
    return sorted(seen, key=lambda one: (order.index(one.role), one.host or "", one.id))


def _seen(report: Report, leader: str | None, now_ms: int) -> DaemonSeen:
    about = report.about
    if about["daemon"] == leader:  # it holds the lease, whatever it told when
        role = DaemonRole.LEADS
    elif report.is_stopped:
        role = DaemonRole.STOPPED
    elif not report.is_recent(now_ms, SILENT_MS):
        role = DaemonRole.SILENT
    else:
        role = DaemonRole.STANDS_BY if _bar(report) is None else DaemonRole.BARRED
    pid, started_ms = about.get("pid"), about.get("started")
    return DaemonSeen(
        id=about["daemon"],
        role=role,
        host=_text(about.get("host")),
        pid=pid if type(pid) is int else None,
        started_ms=started_ms if type(started_ms) is int and 0 <= started_ms <= LAST_MS else None,
        told_ms=report.told_ms,
        version=_text(about.get("version")),
        python=_text(about.get("python")),
        redis_py=_text(about.get("redis_py")),
        rq=_text(about.get("rq")),
        tzdata=_text(about.get("tzdata")),
        may_not_lead=_bar(report) if role is DaemonRole.BARRED else None,
        failing=_texts(about.get("failing")),
    )


def _bar(report: Report) -> str | None:
    """Why its daemon may not lead; None when it may. Where a newer format leads, the archive may say so first."""
    reason = _text(report.about.get("may_not_lead"))
    if reason is None and report.state is ArchiveState.OUTDATED:
        return _text(report.about.get("trouble")) or "a newer zsched leads"
    return reason


def _texts(told: object) -> dict[str, str]:
    """Return the texts in *told*, which another writer may have left. Drop everything else."""
    pairs = told.items() if isinstance(told, dict) else ()
    return {part: reason for part, reason in pairs if isinstance(part, str) and isinstance(reason, str)}


def _text(told: object) -> str | None:
    return told if isinstance(told, str) else None
