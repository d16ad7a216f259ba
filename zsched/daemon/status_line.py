"""
The line that ``systemctl status`` shows: the role (or the reason for none), the backlog, and the lateness.

A background thread reads Redis every few seconds, as `zsched status` does, so the daemon's own loops need not. Without
a service manager there is no thread.
"""

from __future__ import annotations

from zsched.core.wording import duration_text
from zsched.daemon.loop import Failures, Loop
from zsched.daemon.supervisor import Supervisor
from zsched.errors import RedisUnavailable, ZschedError
from zsched.health.checks_daemons import check_no_leader
from zsched.health.facts import DaemonHealth
from zsched.health.verdict import problems
from zsched.storage.overview import Overview
from zsched.storage.reader import Reader

_EVERY_S = 2.0
_SHOWN_ELSEWHERE = ("no_leader", "late", "writes")  # problems that the line expresses itself


class StatusLine:
    """Sends *supervisor* the state of daemon *id*, from *reader* and *health*, from ``start`` to ``stop``."""

    def __init__(self, supervisor: Supervisor, reader: Reader, health: DaemonHealth, id: str) -> None:
        self._supervisor, self._reader, self._health, self._id = supervisor, reader, health, id
        self._loop = Loop("status", self._tell, Failures(health.failing))

    def start(self) -> None:
        """Start the thread, if there is a service manager."""
        if self._supervisor.listens:
            self._loop.start()

    def stop(self) -> None:
        """Stop. This call does not wait for a read in progress."""
        self._loop.stop()

    def _tell(self) -> float:
        try:
            text = text_of(self._reader.overview(), self._id, self._health)
        except ZschedError as error:
            text = unseen_text(error, self._health)
        self._supervisor.status(text)
        return _EVERY_S


def text_of(overview: Overview, id: str, health: DaemonHealth) -> str:
    """Summarise *overview* for daemon *id*, with the worst problem; refused writes come first."""
    own, found = next(iter(problems(health)), None), problems(overview.server, overview)
    refused = next((problem.text for problem in found if problem.name == "writes"), None)
    others = [problem.text for problem in found if problem.name not in _SHOWN_ELSEWHERE]
    if refused:
        role = refused
    elif overview.leader == id:
        role = f"leading in epoch {overview.epoch}" + (f", but {own.text}" if own else "")
    elif own:
        role = own.text
    elif overview.leader is None:
        role = check_no_leader.alert
    else:
        role = f"standing by for {overview.leader}"
    held = f", held for {duration_text(overview.held_ms)}" if overview.held_ms else ""
    due, waiting = sum(overview.overdue.values()), sum(overview.waiting.values())
    late = f", the oldest {duration_text(overview.late_ms)} late" if due else ""
    return "; ".join([f"{role}{held}", f"{due:,} due{late}", f"{waiting:,} waiting", *others[:1]])


def unseen_text(error: ZschedError, health: DaemonHealth) -> str:
    """Return the reason why Redis could not be read, or why the daemon does not work."""
    if isinstance(error, RedisUnavailable):
        return str(error)
    return next((own.text for own in problems(health)), f"cannot read the status: {error}")
