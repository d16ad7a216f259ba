"""
Taking an import back: what it put is cancelled, and a one-shot that was moved waits again where it was.

A one-shot is first given back and then cancelled here, as it came: one of the two has it at every moment. What is due
within ``SOON_S`` fires here; so does one whose job Redis has forgotten, which is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from zsched.client import Client
from zsched.client.keeper import Keeper
from zsched.core.model import Schedule
from zsched.imports import rqscheduled, rqscheduler
from zsched.imports.jobs import score_of
from zsched.imports.rqscheduled import SOON_S
from zsched.storage.connection import Link
from zsched.storage.rivals import CRON_OWNER
from zsched.storage.rqkeys import RQ_SCHEDULER_JOBS

OWNERS: Final = ("crontab:", CRON_OWNER)  # that have a file or a module behind them


@dataclass(slots=True)
class Undone:
    """Ids: of what is cancelled, of what waits again where it was, and of what stays here, with the reason."""

    cancelled: list[str] = field(default_factory=list)
    given_back: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)


def is_owner(owner: str | None) -> bool:
    """Return True if *owner* is one that imports put as managed_by."""
    return owner in (rqscheduler.OWNER, rqscheduled.OWNER) or (owner or "").startswith(OWNERS)


def owners(client: Client) -> list[str]:
    """The owners of imports that have something here, sorted."""
    return sorted({owner for schedule in client.list() if (owner := schedule.managed_by) and is_owner(owner)})


def owned(client: Client, owner: str) -> list[Schedule]:
    """All that imports of *owner* have put and that is still to fire, or has ended."""
    return [schedule for schedule in client.list() if schedule.managed_by == owner]


def undo(
    client: Client, link: Link, owner: str, now_ms: Callable[[], int], on_progress: Callable[[int, int], None]
) -> Undone:
    """
    Cancel all that *owner* owns. *now_ms* asks for the server's time; *on_progress* is told how many are done, of how
    many.

    Raises:
        RedisUnavailable: in the middle; the same call again goes on from there.
    """
    undone, schedules = Undone(), owned(client, owner)
    for number, schedule in enumerate(schedules, 1):
        if schedule.trigger is None and schedule.kind == "once":
            _give_back(client, link, owner, schedule, now_ms(), undone)
        elif client.cancel(schedule.id) == "cancelled":
            undone.cancelled.append(schedule.id)
        on_progress(number, len(schedules))
    return undone


def _give_back(client: Client, link: Link, owner: str, schedule: Schedule, now_ms: int, undone: Undone) -> None:
    """One that was moved: back to its ZSET, then away from here."""
    id, due_ms = schedule.id, schedule.next_ms
    if due_ms is None or due_ms <= now_ms + SOON_S * 1000:
        undone.kept.append((id, f"it is due within {SOON_S} s, and fires here"))
        return
    rq = Keeper(client).keys.rq
    if not link.execute("EXISTS", rq.job(id)):
        undone.kept.append((id, "Redis has forgotten RQ's job of it; it fires here"))
        return
    origin = RQ_SCHEDULER_JOBS if owner == rqscheduler.OWNER else rq.registry("scheduled", schedule.queue)
    link.execute("PERSIST", rq.job(id))
    link.execute("ZADD", origin, score_of(due_ms), id)
    if client.cancel(id) == "cancelled":
        undone.given_back.append(id)
    else:  # it was cancelled or run by hand just now
        link.execute("ZREM", origin, id)
        undone.kept.append((id, "somebody else took it meanwhile"))
