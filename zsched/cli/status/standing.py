"""Everything that ``zsched status`` shows, read at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zsched.client import Client
from zsched.config import Settings
from zsched.config.redaction import redact
from zsched.core.model import Schedule, ScheduleState
from zsched.core.recent import Recent
from zsched.storage.daemons import DaemonSeen
from zsched.storage.reader import Overview

NEXT: Final = 10  # schedules that fire next
FORGOTTEN_MS: Final = 3_600_000  # what reported nothing for longer is not shown: it has moved or is gone


@dataclass(frozen=True, slots=True)
class Standing:
    """A namespace: its counts, what happened lately, and what fires next."""

    namespace: str
    redis: str  # where it is, without a password
    overview: Overview
    recent: Recent
    next: list[Schedule]

    @classmethod
    def of(cls, client: Client, settings: Settings) -> Standing:
        """
        Look now; no archive is asked, so that nobody waits for one that is ill.

        Raises:
            RedisUnavailable, RedisRefused.
        """
        next = list(client.list(state=ScheduleState.ACTIVE, limit=NEXT))
        recent, overview = client.recent(), client.overview()  # the verdict is of the last look
        return cls(settings.namespace, redact(settings.redis.url), overview, recent, next)

    @property
    def daemons(self) -> list[DaemonSeen]:
        """Those that were heard of lately; the leader always."""
        now_ms = self.overview.now_ms
        return [one for one in self.overview.daemons if one.is_running or abs(now_ms - one.told_ms) <= FORGOTTEN_MS]
