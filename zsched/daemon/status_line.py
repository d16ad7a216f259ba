"""
The one line that ``systemctl status`` shows: leader or standby or why neither, what is due, and how late.

A thread looks at Redis every few seconds, as `zsched status` does; the daemon's own loops have better things to do.
Without a service manager there is no thread.
"""

from __future__ import annotations

from zsched.core.durations import duration_text
from zsched.daemon.failures import Failures
from zsched.daemon.health import Health
from zsched.daemon.loop import Loop
from zsched.daemon.supervisor import Supervisor
from zsched.errors import RedisUnavailable, ZschedError
from zsched.storage.overview import Overview
from zsched.storage.reader import Reader

_EVERY_S = 2.0


class StatusLine:
    """Tells *supervisor* from ``start`` to ``stop`` what *reader* sees of daemon *id*, and what *health* says of it."""

    def __init__(self, supervisor: Supervisor, reader: Reader, health: Health, id: str) -> None:
        self._supervisor, self._reader, self._health, self._id = supervisor, reader, health, id
        self._loop = Loop("status", self._tell, Failures(health.failing))

    def start(self) -> None:
        """Begin to tell, if somebody listens."""
        if self._supervisor.listens:
            self._loop.start()

    def stop(self) -> None:
        """Say no more. A look that is on ends by itself."""
        self._loop.stop()

    def _tell(self) -> float:
        try:
            text = text_of(self._reader.overview(), self._id, self._health.trouble)
        except RedisUnavailable as error:
            text = str(error)
        except ZschedError as error:
            text = self._health.trouble or f"cannot look: {error}"
        self._supervisor.status(text)
        return _EVERY_S


def text_of(overview: Overview, id: str, trouble: str | None) -> str:
    """*overview* in the words of daemon *id*, which has *trouble*."""
    if overview.leader == id:
        role = f"leading in epoch {overview.epoch}" + (f", but {trouble}" if trouble else "")
    elif trouble:
        role = trouble
    elif overview.leader is None:
        role = "nobody leads"
    else:
        role = f"standing by for {overview.leader}"
    held = f", held for {duration_text(overview.held_ms)}" if overview.held_ms else ""
    due, waiting = sum(overview.overdue.values()), sum(overview.waiting.values())
    late = f", the oldest {duration_text(overview.late_ms)} late" if due else ""
    return f"{role}{held}; {due:,} due{late}; {waiting:,} waiting"
