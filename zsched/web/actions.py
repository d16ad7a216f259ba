"""
Actions of a caller on schedules and runs: each checks their rights and limits, then calls the client.

The API and the console share these actions, so a check is written once. A limit is checked on the schedule as it was
found; the change then names that version (``access``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from zsched.client.portions import ChangeOptions, demand_filter
from zsched.core.arguments import check_id
from zsched.core.backfill import Backfill
from zsched.core.choices import ScheduleState
from zsched.core.model import Schedule, Scheduled
from zsched.core.repair import IdOutcome, Repaired, Tally
from zsched.core.runs import Run
from zsched.errors import NOT_GIVEN, Contended, InvalidSchedule, ScheduleNotFound, VersionConflict, ZschedError
from zsched.web.access import Caller

T = TypeVar("T")

ATTEMPTS: Final = 3

ChangeAll = Callable[..., Awaitable[Repaired]]  # changes what filters find
ChangeOne = Callable[[str, str | None], Awaitable[str]]  # changes a schedule of a version; returns the outcome


async def found_of(call: Caller, id: str) -> Schedule:
    """Return schedule *id*, which this caller may see. Raises ScheduleNotFound, Problem."""
    found = await call.client.get(check_id(id))
    call.demand(found)
    return found


async def found_run(call: Caller, run_id: str) -> Run:
    """
    Return a run whose schedule is within the caller's limits, and was when the run was pushed: its id may have had
    another function before. Raises RunNotFound, Problem, ScheduleNotFound: a limited caller's schedule is gone.
    """
    run, _ = await call.client.get_run(run_id)
    await demand_run(call, run)
    return run


async def demand_run(call: Caller, run: Run) -> None:
    """Check that the caller may see *run*, as ``found_run`` does."""
    if not call.is_limited:
        return
    schedule = await call.client.get(run.schedule_id)
    call.demand(schedule)
    if run.fired_us is None or schedule.updated_ms is None or run.fired_us <= schedule.updated_ms * 1000:
        call.demand_all("a run from before its schedule's last change")


# -- one schedule -----------------------------------------------------------------------------------


async def pause(call: Caller, id: str, note: Any = "", version: str | None = None) -> Schedule:
    """Pause schedule *id*, if it has *version*. Raises as ``Client.pause``, Problem."""
    return await _changed(call, id, version, lambda known: call.client.pause(id, note, if_version=known))


async def resume(call: Caller, id: str, missed: Any, version: str | None = None) -> Schedule | None:
    """Resume schedule *id*, if it has *version*. Return it, as ``Client.resume`` does. Raises Problem."""
    return await _changed(call, id, version, lambda known: call.client.resume(id, missed, if_version=known))


async def release(call: Caller, id: str, missed: Any, version: str | None = None) -> Schedule | None:
    """Put the quarantined schedule *id* back, if it has *version*, as ``Client.release`` does. Raises Problem."""
    return await _changed(call, id, version, lambda known: call.client.release(id, missed, if_version=known))


async def cancel(call: Caller, id: str, version: str | None = None) -> str:
    """Cancel schedule *id*, if it has *version*. Raises ScheduleNotFound, VersionConflict, Problem."""
    outcome = await _changed(call, id, version, lambda known: call.client.cancel(id, if_version=known))
    if outcome == "not_found":
        raise ScheduleNotFound(f"no schedule {id!r}")
    return outcome


async def run_now(call: Caller, id: str) -> str:
    """Push a run of schedule *id* at once, and return the run's id. Raises as ``Client.run_now``, Problem."""
    call.demand_write()
    await found_of(call, id)
    return await call.client.run_now(id)


async def backfill(call: Caller, id: str, start: datetime | None, end: datetime | None, **options: Any) -> Backfill:
    """Backfill schedule *id*, as ``Client.backfill`` does; None for a missing time is refused. Raises Problem."""
    call.demand_write()
    found = await found_of(call, id)
    call.demand_new(found.func, {"queue": found.queue, "tags": found.tags})
    if start is None or end is None:
        name = "start" if start is None else "end"
        raise InvalidSchedule(name, NOT_GIVEN, "it is missing", "give both times, in the past")
    return await call.client.backfill(id, start, end, **options)


async def update(call: Caller, id: str, changes: Mapping[str, Any], version: str | None = None) -> Scheduled:
    """Change options of schedule *id*, if it has *version*. Raises as ``Client.update``, Problem."""
    call.demand_write()
    for _ in range(ATTEMPTS):
        found = await found_of(call, id)
        wanted: dict[str, Any] = {"func": found.func, "queue": found.queue, "tags": found.tags, **changes}
        call.demand_new(wanted.pop("func"), wanted)
        known = version or (found.version if call.is_limited else None)
        condition: dict[str, Any] = {} if known is None else {"if_version": known}
        try:
            return await call.client.update(id, **{**changes, **condition})
        except VersionConflict:
            if version is not None:
                raise
    raise contended(id)


def contended(id: str) -> Contended:
    """Return the error of a change that met another writer at every attempt."""
    return Contended(f"schedule {id!r} was changed by another writer at every attempt; call again")


async def _changed(call: Caller, id: str, version: str | None, change: Callable[[str | None], Awaitable[T]]) -> T:
    """Change schedule *id* by *change*, which takes a version."""
    call.demand_write()
    if call.is_limited:
        found = await found_of(call, id)
        version = version or found.version
    return await change(version)


# -- many schedules -----------------------------------------------------------------------------------


async def pause_all(call: Caller, filters: dict[str, Any], note: Any, **options: Any) -> Repaired:
    """Pause the active schedules that *filters* find, as ``Client.pause_many`` does. Raises Problem."""

    async def one(id: str, version: str | None) -> str:
        await call.client.pause(id, note, if_version=version)
        return "paused"

    async def many(**given: Any) -> Repaired:
        return await call.client.pause_many(note, **given)

    return await _changed_all(call, filters, options, many, one, state=ScheduleState.ACTIVE)


async def resume_all(call: Caller, filters: dict[str, Any], missed: Any, **options: Any) -> Repaired:
    """Resume the paused schedules that *filters* find, as ``Client.resume_many`` does. Raises Problem."""

    async def one(id: str, version: str | None) -> str:
        await call.client.resume(id, missed, if_version=version)
        return "resumed"

    async def many(**given: Any) -> Repaired:
        return await call.client.resume_many(missed, **given)

    return await _changed_all(call, filters, options, many, one, state=ScheduleState.PAUSED)


async def release_all(call: Caller, filters: dict[str, Any], missed: Any, **options: Any) -> Repaired:
    """Put the quarantined schedules that *filters* find back, as ``Client.release_many`` does. Raises Problem."""

    async def one(id: str, version: str | None) -> str:
        await call.client.release(id, missed, if_version=version)
        return "resumed"

    async def many(**given: Any) -> Repaired:
        return await call.client.release_many(missed, **given)

    return await _changed_all(call, filters, options, many, one, state=ScheduleState.QUARANTINED)


async def cancel_all(call: Caller, filters: dict[str, Any], **options: Any) -> Repaired:
    """Cancel the schedules that *filters* find, as ``Client.cancel_many`` does. Raises Problem."""

    async def one(id: str, version: str | None) -> str:
        return await call.client.cancel(id, if_version=version)

    return await _changed_all(call, filters, options, call.client.cancel_many, one)


async def _changed_all(
    call: Caller, filters: dict[str, Any], given: dict[str, Any], many: ChangeAll, one: ChangeOne, **usual: Any
) -> Repaired:
    """
    Change the schedules that *filters* find, by *many*. Of a limited caller, change those within the limits, each by
    *one* as it was found. *usual*: filters that hold unless others are given.
    """
    call.demand_write()
    if not call.is_limited:
        return await many(**filters, **given)
    options = ChangeOptions.taken(given)
    demand_filter(filters)
    found = [each async for each in call.client.list(**(usual | filters)) if call.sees(each)][: options.limit]
    tally = Tally([each.id for each in found])
    if options.dry_run:
        return tally.result(is_dry_run=True)
    for each in found:
        try:
            tally.add({each.id: IdOutcome(await one(each.id, each.version))})
        except ScheduleNotFound:
            tally.add({each.id: IdOutcome("not_found")})
        except ZschedError as error:
            tally.add({each.id: IdOutcome("", error=error)})
    return tally.result()


# -- runs ---------------------------------------------------------------------------------------------


async def retry(call: Caller, run_id: str) -> str:
    """Run a finished run once more, and return the new run's id. Raises as ``Client.retry``, Problem."""
    call.demand_write()
    await found_run(call, run_id)
    return await call.client.retry(run_id)


async def cancel_run(call: Caller, run_id: str) -> str:
    """Cancel a queued run, or stop a running one, and return the outcome. Raises as ``Client.cancel_run``, Problem."""
    call.demand_write()
    await found_run(call, run_id)
    return await call.client.cancel_run(run_id)


async def retry_all(call: Caller, status: str, **given: Any) -> Repaired:
    """Retry the runs that *given* finds, as ``Client.retry_many`` does. Raises Problem."""
    call.demand_write()
    call.demand_all("a search for runs")
    return await call.client.retry_many(status, **given)
