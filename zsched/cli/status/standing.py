"""Everything that ``zsched status`` shows, read at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zsched.client import Client
from zsched.config import Settings
from zsched.config.redaction import redact
from zsched.core.model import Schedule, ScheduleState
from zsched.core.recent import Recent
from zsched.errors import RedisRefused
from zsched.storage.archivers import FORGOTTEN_MS
from zsched.storage.daemons import DaemonRole, DaemonSeen
from zsched.storage.listeners import Attendance
from zsched.storage.overview import Overview

NEXT: Final = 10  # schedules that fire next


@dataclass(frozen=True, slots=True)
class Standing:
    """
    A namespace: its counts, what happened lately, and what fires next (None: this user may not run the script that
    reads schedules). ``attendance``: of the queues with its runs, or which its schedules use; None where that cannot be
    told, mostly as this user may not ask.
    """

    namespace: str
    redis: str  # where it is, without a password
    overview: Overview
    recent: Recent
    next: list[Schedule] | None
    attendance: Attendance | None

    @classmethod
    def of(cls, client: Client, settings: Settings) -> Standing:
        """
        Look now; no archive is asked, so that nobody waits for one that is ill.

        Raises:
            RedisUnavailable, RedisRefused.
        """
        next, attendance, recent = _next(client), _attendance(client), client.recent()
        overview = client.overview()  # the verdict is of the last look
        return cls(settings.namespace, redact(settings.redis.url), overview, recent, next, attendance)

    @property
    def daemons(self) -> list[DaemonSeen]:
        """Those that were heard of lately; the leader always."""
        now_ms = self.overview.now_ms
        return [one for one in self.overview.daemons if one.is_running or abs(now_ms - one.told_ms) <= FORGOTTEN_MS]

    @property
    def leader(self) -> DaemonSeen | None:
        """Who leads, if it told of itself."""
        return next((one for one in self.overview.daemons if one.role is DaemonRole.LEADS), None)

    @property
    def standbys(self) -> int:
        """How many daemons could take over."""
        return sum(one.role is DaemonRole.STANDS_BY for one in self.overview.daemons)

    @property
    def barred(self) -> list[DaemonSeen]:
        """Those that run and could not."""
        return [one for one in self.overview.daemons if one.role is DaemonRole.BARRED]


def _next(client: Client) -> list[Schedule] | None:
    try:
        return list(client.list(state=ScheduleState.ACTIVE, limit=NEXT))
    except RedisRefused:
        return None


def _attendance(client: Client) -> Attendance | None:
    try:
        return client.attendance().of_ours
    except RedisRefused:  # doctor says what, and what to do
        return None
