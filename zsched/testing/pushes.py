"""Pushed runs, by the log: those that a test is given, and when each was fired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from zsched.core.changes import Change, What
from zsched.core.clock import from_ms
from zsched.core.log import Entry, Position, changes
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.rqjob import Encoder

_PUSHES: Final = (What.FIRED, What.ENQUEUED)
_PAGE: Final = 500  # entries in one read


@dataclass(frozen=True, slots=True)
class Fired:
    """
    A run that went to its queue because its time had come. ``id``: RQ's job id. ``func``: the dotted path. The instants
    are aware, in UTC; ``at`` is when it was pushed, which is later than ``nominal_at`` only for what was missed, or has
    jitter.
    """

    id: str
    schedule_id: str
    func: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    queue: str
    nominal_at: datetime
    at: datetime


@dataclass(frozen=True, slots=True)
class Push:
    """A run that was pushed, by its time or by somebody. ``deadline_ms``: by when it must begin, or None."""

    change: Change
    run_id: str
    queue: str
    data: bytes
    deadline_ms: int | None


@dataclass
class Pushes:
    """Reads the log on from where it came to. ``last``: its newest entry; ``fired_us``: by run, when it was pushed."""

    wire: Wire
    keys: Keys
    last: Position | None = None
    fired_us: dict[str, int] = field(default_factory=dict)

    def new(self) -> list[Push]:
        """Return the runs that were pushed since the last call, in order."""
        found = [change for entry in self._entries() for change in changes(entry, self.keys.run_suffix)]
        return [self._push(change) for change in found if change.what in _PUSHES]

    def _entries(self) -> list[Entry]:
        log, found, page = Log(self.wire, self.keys), list[Entry](), list[Entry]()
        while not found or len(page) == _PAGE:
            page = log.read("-" if self.last is None else f"({self.last.id}", _PAGE)
            if not page:
                break
            found += page
            self.last = page[-1].position
        return found

    def _push(self, change: Change) -> Push:
        run_id = change.run_id or ""
        self.fired_us[run_id] = change.at_us
        job_key = self.keys.rq.job(run_id)
        queue, data, deadline_ms = self.wire.execute("HMGET", job_key, "origin", "data", "zs_deadline")
        return Push(change, run_id, (queue or b"").decode(), data or b"", int(deadline_ms) if deadline_ms else None)


def fired(pushes: Sequence[Push], encoder: Encoder) -> list[Fired]:
    """Return the runs among *pushes* that fired by their time."""
    return [_fired(push, encoder) for push in pushes if push.change.what is What.FIRED]


def _fired(push: Push, encoder: Encoder) -> Fired:
    change = push.change
    func, args, kwargs = encoder.open(push.data, runs=True)
    return Fired(
        id=push.run_id,
        schedule_id=change.id,
        func=func,
        args=args,
        kwargs=kwargs,
        queue=push.queue,
        nominal_at=from_ms(change.nominal_ms or 0),
        at=from_ms(change.at_us // 1000),
    )
