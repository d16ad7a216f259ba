"""A namespace's standing as JSON; the keys are a promise."""

from __future__ import annotations

from typing import Any

from zsched.cli.status.copies import archive_dict, audit_dict, shown
from zsched.cli.status.standing import Standing
from zsched.cli.status.verdict import problems, warnings
from zsched.core.model import Priority, Schedule, iso
from zsched.storage.archivers import last_audit
from zsched.storage.listeners import Untaken


def to_dict(standing: Standing) -> dict[str, Any]:
    """All of *standing*; ``problems`` has the texts of ``alarms``."""
    overview, attendance = standing.overview, standing.attendance
    alarms, audit = problems(standing), last_audit(overview.archives, overview.now_ms)
    return {
        "namespace": standing.namespace,
        "redis": standing.redis,
        "healthy": not alarms,
        "problems": [alarm.text for alarm in alarms],
        "alarms": [alarm.to_dict() for alarm in alarms],
        "warnings": [warning.to_dict() for warning in warnings(standing)],
        "now": iso(overview.now_ms),
        "leader": overview.leader,
        "led_since": iso(overview.led_since_ms),
        "lease_ms": overview.lease_ms,
        "epoch": overview.epoch,
        "daemons": [daemon.to_dict() for daemon in standing.daemons],
        "waiting": {lane.value: overview.waiting[lane] for lane in Priority},
        "overdue": {lane.value: overview.overdue[lane] for lane in Priority},
        "oldest_due_at": iso(overview.oldest_due_ms),
        "late_ms": overview.late_ms,
        "held_back": [
            {"queue": held.queue, "max_per_second": held.per_second, "waiting": held.waiting}
            for held in overview.held_back
        ],
        "unheard": None if attendance is None else [_unheard_dict(one) for one in attendance.unheard],
        "suspended": None if attendance is None else attendance.is_suspended,
        "recurring": overview.recurring,
        "paused": overview.paused,
        "quarantined": overview.quarantined,
        "log_length": overview.log_length,
        "hold_until": iso(overview.hold_ms or None),
        "recent": standing.recent.to_dict(),
        "failures": [failure.to_dict() for failure in standing.recent.failures],
        "next": None if standing.next is None else [_next_dict(schedule) for schedule in standing.next],
        "archives": [archive_dict(report, overview) for report in shown(overview)],
        "audit": None if audit is None else audit_dict(audit),
    }


def _unheard_dict(one: Untaken) -> dict[str, Any]:
    waits_s = None if one.waits_ms is None else one.waits_ms // 1000
    return {"queue": one.queue, "waiting": one.waiting, "waits_s": waits_s}


def _next_dict(schedule: Schedule) -> dict[str, Any]:
    told = schedule.to_dict()
    return {name: told[name] for name in ("id", "next_at", "kind", "func", "queue", "priority")}
