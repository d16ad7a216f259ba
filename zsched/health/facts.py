"""
Facts, which checks judge. A view has some of them, and shows the checks that need one of these:

    DaemonHealth   what a daemon knows of its own main loop            /readyz, status line
    RedisUnseen    that Redis gave no answer                           /readyz, status line
    Overview       counts, leader, archives: one look at Redis         status line, status, doctor
    Recent         the last minutes, from the log in Redis             status, doctor
    StalledQueues  queues from which nobody takes jobs                 status, doctor
    Probe          Redis itself, for questions of a check's own        doctor
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from zsched.core.clock import Clock
from zsched.core.recent import Recent
from zsched.errors import RedisRefused
from zsched.storage.overview import Overview
from zsched.storage.queues import StalledQueues
from zsched.storage.reader import Reader

# Redis' timeouts in one pass of a daemon's main loop: for a connection to one address and to another, for a reply, and
# for the rest.
TIMEOUTS: Final = 5


class DaemonHealth:
    """
    Health of a daemon's main loop. Only that loop writes it, but for ``failing``; any thread reads it.

    ``last_pass_ms``: when a pass ended, by the monotonic clock, led or not, with Redis or without. ``leads``: whether
    its term is on. ``trouble``: the reason why it neither leads nor stands by, or None.
    ``failing``: the threads and chores beside the main loop that fail at present, with reasons (``daemon.failures``).
    """

    def __init__(self, clock: Clock) -> None:
        self.last_pass_ms = clock.monotonic_ms()
        self.leads = False
        self.trouble: str | None = "it starts: Redis has not said yet whether it may lead"
        self.failing: dict[str, str] = {}


class RedisUnseen(NamedTuple):
    """Redis gave no answer, or refused one."""

    reason: str


class QueuesUnknown(NamedTuple):
    """This user may not ask who takes jobs from queues."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One look at a namespace, without asking an archive: nobody waits for one that is ill."""

    overview: Overview
    recent: Recent
    queues: StalledQueues | QueuesUnknown

    @classmethod
    def look(cls, reader: Reader, clock: Clock) -> Facts:
        """
        Look now; at the queues with the namespace's runs, or which its schedules use.

        Raises:
            RedisUnavailable, RedisRefused.
        """
        queues: StalledQueues | QueuesUnknown
        try:
            queues = reader.stalled_queues().of_ours
        except RedisRefused:  # the doctor says which right is missing
            queues = QueuesUnknown()
        recent = reader.recent(clock)
        return cls(reader.overview(), recent, queues)  # the overview comes last: the verdict is of now
