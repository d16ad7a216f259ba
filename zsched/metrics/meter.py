"""Measurements that a daemon told while it worked (``daemon.meter``), kept until somebody asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

from zsched.core.log import Entry
from zsched.health.facts import DaemonHealth
from zsched.metrics.distribution import Distribution
from zsched.metrics.tally import LogTally

SCRIPT_S: Final = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)
RENEWAL_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
FIRED: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)  # by one script


class DaemonMeter:
    """
    Notes, a few hundred ns each; what the archive takes in goes to *tally*, and *health* says how the main loop is.
    May be read by any thread.
    """

    def __init__(self, tally: LogTally, health: DaemonHealth) -> None:
        self.tally, self.health = tally, health
        self.terms, self.clock_jumps = 0, 0
        self.renewal_s = Distribution(RENEWAL_S)
        self.script_s = defaultdict[str, Distribution](partial(Distribution, SCRIPT_S))
        self.fired_per_tick = Distribution(FIRED)

    def began(self, epoch: int) -> None:
        """A term began."""
        self.tally.led(epoch)
        self.terms += 1

    def renewed(self, took_ms: float) -> None:
        """The lease was renewed."""
        self.renewal_s.note(took_ms / 1000)

    def ran(self, script: str, took_ms: float, fired: int) -> None:
        """A script ran."""
        self.script_s[script].note(took_ms / 1000)
        if fired:
            self.fired_per_tick.note(fired)

    def jumped(self, by_ms: float) -> None:
        """The server's clock jumped."""
        self.clock_jumps += 1

    def archived(self, entries: Sequence[Entry]) -> None:
        """The archive has these."""
        self.tally.see(entries)
