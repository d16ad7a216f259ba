"""Health of the daemon's main loop, for the status line and the pages of metrics."""

from __future__ import annotations

from typing import Final

from zsched.core.clock import Clock

# Of Redis, that one pass may take: for a connection to one address and to another, for a reply, and what else it does.
TIMEOUTS: Final = 5


class Health:
    """
    Written by the main loop alone, but for ``failing``; read by any thread.

    ``last_pass_ms``: when a pass ended, by the monotonic clock, led or not, with Redis or without. ``leads``: whether
    its term is on. ``trouble``: why it does not do what it is for, lead or stand by; None when it does.
    ``failing``: the threads and chores beside the main loop that fail at present, with reasons (``daemon.failures``).
    """

    def __init__(self, clock: Clock) -> None:
        self.last_pass_ms = clock.monotonic_ms()
        self.leads = False
        self.trouble: str | None = "it starts: Redis has not said yet whether it may lead"
        self.failing: dict[str, str] = {}
