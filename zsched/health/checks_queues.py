"""Checks of RQ's queues: does anybody take jobs from them?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from zsched.core.wording import some
from zsched.health.check import Finding, fine, health_check, problem, warning
from zsched.health.facts import QueuesUnknown
from zsched.storage.queues import StalledQueue, StalledQueues, waiting_text

_NAMED: Final = 4  # queues in a command


@health_check("queues_unknown", QueuesUnknown, "queues")
def check_queues_unknown(_: QueuesUnknown) -> Iterator[Finding]:
    """This user may not ask."""
    remedy = "ask as a user who may, zsched-dashboard of deploy/redis/users.acl; zsched doctor says what is refused"
    yield warning("whether workers take jobs from queues cannot be told", remedy)


@health_check("suspended", StalledQueues, "queues")
def check_suspended(queues: StalledQueues) -> Iterator[Finding]:
    """RQ's workers are suspended."""
    if queues.is_suspended:
        waiting = queues.suspended
        where = f": {waiting_text(waiting)} in {_named(waiting)}" if waiting else ""
        said = problem if any(one.is_stuck for one in waiting) else warning
        yield said(f"RQ's workers are suspended{where}", "rq resume, or", "redis-cli", "DEL", queues.suspended_by)


@health_check("unheard", StalledQueues, "queues")
def check_unheard(queues: StalledQueues) -> Iterator[Finding]:
    """Jobs wait in queues without workers for so long that this does not pass by itself."""
    if stuck := [one for one in queues.unheard if one.is_stuck]:
        yield _without_workers(problem, stuck)


@health_check("no_worker", StalledQueues, "queues")
def check_no_worker(queues: StalledQueues) -> Iterator[Finding]:
    """Queues without workers, in which nothing waits for long."""
    if waiting := [one for one in queues.unheard if one.waiting and not one.is_stuck]:
        yield _without_workers(warning, waiting)
    if empty := [one for one in queues.unheard if not one.waiting]:
        yield _without_workers(warning, empty)
    if not queues.unheard and not queues.is_suspended:
        yield fine(f"somebody listens to every queue in use ({queues.used})" if queues.used else "no queue is used")


def _without_workers(said: Callable[..., Finding], queues: list[StalledQueue]) -> Finding:
    what = f"where {waiting_text(queues)}" if queues[0].waiting else "which schedules use"
    names = [one.queue for one in queues[:_NAMED]]
    remedy = "workers that ran when Redis lost its data are not registered: restart them, or start one"
    return said(f"nobody listens to {_named(queues)}, {what}", remedy, "rq", "worker", *names)


def _named(queues: list[StalledQueue]) -> str:
    names = some([one.queue for one in queues])
    return f"queue {names}" if len(queues) == 1 else f"{len(queues)} queues ({names})"
