"""The status of a namespace, read at one moment, and its form for programs: ``zsched status`` and the HTTP API."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from zsched.config.settings import Settings
from zsched.config.urls import redact
from zsched.core.clock import SystemClock
from zsched.core.entry import START
from zsched.core.known import Known
from zsched.core.listing import Filter, select
from zsched.core.model import Schedule, iso, json_of
from zsched.core.occurrences.recent import RecentActivity
from zsched.core.options.choices import Priority, ScheduleState
from zsched.core.wording import plural, rough_duration
from zsched.errors import RedisRefused
from zsched.health.facts import Finding, QueuesUnknown
from zsched.health.verdict import HealthVerdict, judge_health
from zsched.storage.archivers import Audited, Report, last_audit
from zsched.storage.connection import Link
from zsched.storage.keys import keys_of
from zsched.storage.overview import SILENT_MS, DaemonRole, Overview
from zsched.storage.queues import StalledQueues, stalled_queues
from zsched.storage.reader import Reader
from zsched.storage.shell import Shell
from zsched.storage.workers import SlotWaits, slot_waits

NEXT: Final = 10  # schedules that fire next
_OF_NEXT: Final = ("id", "next_at", "kind", "func", "queue", "priority")
_OF_AUDIT: Final = ("at", "checked", "alarms", "repaired")
_OF_ARCHIVE: Final = (*("id", "host", "path", "state", "position", "behind", "complete_since", "told_at", "trouble"),)


@dataclass(frozen=True, slots=True)
class StatusView:
    """
    A namespace: one reading of its facts, the verdict on them, and the next fires (None: this user may not run the
    script that reads schedules). ``redis``: its address, without a password. No archive is asked, so a failing archive
    delays nothing.
    """

    namespace: str
    redis: str
    overview: Overview
    recent: RecentActivity
    queues: StalledQueues | QueuesUnknown
    slots: SlotWaits
    known: Sequence[Known]
    verdict: HealthVerdict
    next: list[Schedule] | None

    @property
    def audit(self) -> Audited | None:
        """Return the last audit, if it is recent."""
        return last_audit(self.overview.archives, self.overview.now_ms)

    @property
    def in_short(self) -> str:
        """The state of a healthy namespace in a line."""
        overview = self.overview
        standbys = len(overview.of_role(DaemonRole.STANDS_BY))
        standby = f"{standbys} stand{'s' if standbys == 1 else ''} by" if standbys else "no standby"
        alive = (one for one in overview.archives if one.is_alive(overview.now_ms))
        following = sum(one.is_recent(overview.now_ms, SILENT_MS) for one in alive)
        archives = f"; {plural(following, 'archive')} follow{'s' if following == 1 else ''}" if following else ""
        late = f"more than {rough_duration(overview.late_ms)} late" if overview.late_ms else "overdue"
        return f"one daemon leads, {standby}; nothing is {late}{archives}"

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON. It always has every key."""
        overview, queues = self.overview, self.queues
        return {
            **json_of(self, "namespace", "redis"),
            "healthy": self.verdict.is_healthy,
            "problems": [problem.text for problem in self.verdict.problems],
            "alarms": [_finding(problem) for problem in self.verdict.problems],
            "warnings": [_finding(warning) for warning in self.verdict.warnings],
            "now": iso(overview.now_ms),
            "leader": overview.leader,
            "led_since": iso(overview.led_since_ms),
            **json_of(overview, "lease_s", "epoch"),
            "daemons": [daemon.to_dict() for daemon in overview.known_daemons],
            "waiting": {lane.value: overview.waiting[lane] for lane in Priority},
            "overdue": {lane.value: overview.overdue[lane] for lane in Priority},
            **json_of(overview, "oldest_due_at", "late_s"),
            "held_back": [held.to_dict() for held in overview.held_back],
            "rate_limited": [one.to_dict() for one in self.slots.limits],
            "unheard": None if isinstance(queues, QueuesUnknown) else [one.to_dict() for one in queues.unheard],
            "suspended": None if isinstance(queues, QueuesUnknown) else queues.is_suspended,
            **json_of(overview, "recurring", "paused", "quarantined"),
            **json_of(overview, "troubled", "log_length", troubled=overview.troubles.to_dict()),
            "hold_until": iso(overview.hold_ms or None),
            "recent": self.recent.to_dict(),
            "failures": [failure.to_dict() for failure in self.recent.failures],
            "known_failures": [one.to_dict() for one in self.known],
            "next": None if self.next is None else [json_of(schedule, *_OF_NEXT) for schedule in self.next],
            "archives": [_archive(report, overview) for report in overview.known_archives],
            "sinks": [sink.to_dict() for sink in overview.sinks],
            "audit": self.audit and json_of(self.audit, *_OF_AUDIT, at=iso(self.audit.at_ms)),
        }


def looking(settings: Settings, link: Link) -> Callable[[], StatusView]:
    """Return a function that reads Redis over *link* at each call. It raises RedisUnavailable, RedisRefused."""
    reader = Reader.by_settings(settings, link)
    shell = Shell(link, settings.rq.serializer, keys_of(settings).rq.prefix)

    def look() -> StatusView:
        upcoming: list[Schedule] | None = None
        with suppress(RedisRefused):
            upcoming = list(select(Filter(state=ScheduleState.ACTIVE, limit=NEXT), reader))
        recent = reader.recent(SystemClock())
        queues: StalledQueues | QueuesUnknown = QueuesUnknown()
        with suppress(RedisRefused):  # the doctor says which right is missing
            queues = reader.on_wire(stalled_queues).of_ours.after(recent)
        slots = SlotWaits(0)
        with suppress(RedisRefused):
            slots = reader.on_wire(slot_waits)
        known = reader.known()
        overview = reader.overview(known)  # read last: the verdict needs the latest state
        verdict = judge_health(overview.server, overview, recent, queues, slots, shell=shell)
        where = settings.namespace, redact(settings.redis.url)
        return StatusView(*where, overview, recent, queues, slots, known, verdict, upcoming)

    return look


def complete_since(report: Report, beginning: str) -> str | None:
    """Return a time, *beginning* if it has the whole log, or None if it has nothing yet."""
    since = str(report.about.get("complete_since"))
    if since == START:
        return beginning
    return iso(int(since) // 1000) if since.isascii() and since.isdigit() else None


def _finding(finding: Finding) -> dict[str, str]:
    return {"name": finding.name, "problem": finding.text, "remedy": finding.remedy}


def _archive(report: Report, overview: Overview) -> dict[str, Any]:
    given = {"id": report.archive, "host": report.about.get("host"), "path": report.about.get("path")}
    given |= {"position": report.position and report.position.id, "behind": overview.behind(report)}
    return json_of(report, *_OF_ARCHIVE, **given, complete_since=complete_since(report, "start"))
