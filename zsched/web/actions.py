"""
Actions of a caller on schedules and runs: each checks their rights and limits, then calls the client.

The API and the console share these actions, so a check is written once. A limit is checked on the schedule as it was
found; the change then names that version (``access``).
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from zsched.core.model import Schedule
from zsched.core.occurrences.backfill import Backfill
from zsched.core.repair import Repaired
from zsched.errors import NOT_GIVEN, InvalidSchedule, ScheduleNotFound, VersionConflict
from zsched.storage.keys import keys_of
from zsched.storage.refusals import contended, not_found
from zsched.web.access import Caller
from zsched.web.answers import Problem
from zsched.web.reading import rfc3339

ATTEMPTS: Final = 3
T = TypeVar("T")

# On one schedule, or on all that filters find; with the word for a changed schedule.
ACTIONS: Final = {"pause": "paused", "resume": "resumed", "release": "released", "cancel": "cancelled"}
_ARGUMENTS: Final = {
    "pause": ("note", "until"), "resume": ("missed",), "release": ("missed",), "cancel": (),
    "skip": ("at", "next", "note"), "unskip": ("at", "note"),
}  # fmt: skip


async def found_of(call: Caller, id: str) -> Schedule:
    """Return schedule *id*. Raises ScheduleNotFound, also if it is beyond the limits: that tells nothing of it."""
    return call.own(await call.client.get(id))


async def coming_of(call: Caller, id: str, **options: Any) -> list[datetime]:
    """Return the next times of schedule *id*, as ``Client.preview`` does; none if it has fired for the last time."""
    try:
        return list(await call.client.preview(id, **options))
    except ScheduleNotFound:
        return []


# -- one schedule -----------------------------------------------------------------------------------


async def change(
    call: Caller, action: str, id: str, given: Mapping[str, Any], version: str | None = None
) -> Schedule | str | None:
    """
    Do *action* (``ACTIONS``, skip or unskip) with schedule *id*, if it has *version*, and return the result of
    ``Client.pause`` and the others. *given*: its arguments; texts for times. Raises as they do; Problem.
    """
    call.demand_write()
    if call.is_limited:
        version = version or (await found_of(call, id)).version
    arguments = _arguments(action, given)
    result: Schedule | str | None = await getattr(call.client, action)(id, **arguments, if_version=version)
    if result == "not_found":
        raise not_found(id, keys_of(call.settings))
    return result


def _arguments(action: str, given: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: given[name] for name in _ARGUMENTS[action] if name in given}
    return {name: rfc3339(name, value) if name in ("at", "until") else value for name, value in found.items()}


async def run_now(call: Caller, id: str, op: str | None = None) -> str:
    """
    Push a run of schedule *id* at once, as the operation *op* if any, and return the run's id. Raises as
    ``Client.run_now``, Problem.
    """
    call.demand_write()
    found = await found_of(call, id)
    return await call.client._run_now_as(op, id, found.version if call.is_limited else None)


async def backfill(call: Caller, id: str, start: datetime | None, end: datetime | None, **options: Any) -> Backfill:
    """Backfill schedule *id*, as ``Client.backfill`` does; None for a missing time is refused. Raises Problem."""
    call.demand_write()
    found = await found_of(call, id)
    call.demand_new(found.func, _kept(found))
    if start is None or end is None:
        name = "start" if start is None else "end"
        raise InvalidSchedule(name, NOT_GIVEN, "it is missing", "give both times, in the past")
    return await call.client.backfill(id, start, end, **options)


async def update(
    call: Caller, id: str, changes: Mapping[str, Any], version: str | None, act: Callable[..., Awaitable[T]]
) -> T:
    """
    Change options of schedule *id*, if it has *version*, by *act*: ``Client.update``, or ``Client.difference``, which
    only looks. Raises as they do, Problem.
    """
    call.demand_write()
    version = version or changes.get("if_version")
    for _ in range(ATTEMPTS):
        found = await found_of(call, id)
        wanted: dict[str, Any] = {**_kept(found), **changes}
        call.demand_new(wanted.pop("func"), wanted)
        known = version or (found.version if call.is_limited else None)
        condition: dict[str, Any] = {} if known is None else {"if_version": known}
        try:
            return await act(id, **{**changes, **condition})
        except VersionConflict:
            if version is not None:
                raise
    raise contended(id)


def _kept(found: Schedule) -> dict[str, Any]:
    """Return the options of *found* that access is about: those that a change does not name stay."""
    return {**found.limited_by.functions, "queue": found.queue, "tags": found.tags}


# -- many schedules -----------------------------------------------------------------------------------


async def change_all(
    call: Caller, action: str, filters: dict[str, Any], given: Mapping[str, Any], **options: Any
) -> Repaired:
    """
    Do *action* (``ACTIONS``) with the schedules that *filters* find, as ``Client.pause_many`` and the others do;
    *given*: its note, or what to do with missed times. Raises Problem.
    """
    call.demand_write()
    done: Repaired = await getattr(call.client, f"{action}_many")(**_arguments(action, given), **filters, **options)
    return done


# -- runs ---------------------------------------------------------------------------------------------


async def change_run(call: Caller, action: str, run_id: str, op: str | None = None) -> str:
    """
    ``retry`` (as the operation *op* if any) or ``cancel_run`` a run of this caller, and return the result. Raises as
    ``Client.retry``, Problem.
    """
    call.demand_write()
    await call.client.get_run(run_id)  # else it is not this caller's
    act = partial(call.client._retry_as, op) if action == "retry" else call.client.cancel_run
    return await act(run_id)


async def retry_all(call: Caller, status: str, **given: Any) -> Repaired:
    """Retry the runs that *given* finds, as ``Client.retry_many`` does. Raises Problem."""
    call.demand_write()
    call.demand_all("a search for runs")
    return await call.client.retry_many(status, **given)


def unknown_action(action: str, remedy: str) -> Problem:
    """Return the problem of a path with an action that there is not."""
    return Problem(404, "not-found", f"no such action: {action[:40]}", remedy)
