"""``/schedules:batch``, ``:pause``, ``:resume`` and ``:cancel``: many schedules in one request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from zsched.client.portions import ChangeOptions, demand_filter
from zsched.core.model import ScheduleState
from zsched.core.repair import IdOutcome, Repaired, Tally
from zsched.errors import InvalidSchedule, ScheduleNotFound, ZschedError
from zsched.web import schemas
from zsched.web.batch import BatchResponse
from zsched.web.calls import Admitted, routes
from zsched.web.reading import aware, only, read_object
from zsched.web.rendering import JsonAnswer

router = routes("many schedules")

_TIMES: Final = ("due_after", "due_before")
_FILTERS: Final = ("state", "kind", "func", "queue", "tag", "owner", "match", *_TIMES)
_OPTIONS: Final = ("filter", "dry_run", "limit")

ChangeAll = Callable[..., Awaitable[Repaired]]  # changes what filters find
ChangeOne = Callable[[str, str | None], Awaitable[str]]  # changes a schedule of a version; returns the outcome


@router.post("/schedules:batch", **schemas.batch("Put many schedules, a line of JSON each."))
async def batch(request: Request, call: Admitted) -> Response:
    """
    Put the schedules in the body: a line of JSON each (NDJSON), with `func` and options. A row without `id` gets one.
    The answer has a line for each row, with its number. The lines come as the rows are done.
    """
    call.demand_write()
    return BatchResponse(request, call)


@router.post("/schedules:pause", **schemas.bulk("Pause the schedules that a filter finds.", note=str))
async def pause(request: Request, call: Admitted) -> Response:
    """Pause the active schedules that `filter` finds; `note` is the reason. `dry_run` only counts them."""
    body = await _body(request, call, "note")
    note, client = body.get("note", ""), call.client

    async def one(id: str, version: str | None) -> str:
        await client.pause(id, note, if_version=version)
        return "paused"

    async def many(**given: Any) -> Repaired:
        return await client.pause_many(note, **given)

    return await _changed(call, body, many, one, state=ScheduleState.ACTIVE)


@router.post("/schedules:resume", **schemas.bulk("Resume the schedules that a filter finds.", missed=str))
async def resume(request: Request, call: Admitted) -> Response:
    """Resume the paused schedules that `filter` finds, 200 a second; `missed` is fire or skip."""
    body = await _body(request, call, "missed")
    missed, client = body.get("missed", "fire"), call.client

    async def one(id: str, version: str | None) -> str:
        await client.resume(id, missed, if_version=version)
        return "resumed"

    async def many(**given: Any) -> Repaired:
        return await client.resume_many(missed, **given)

    return await _changed(call, body, many, one, state=ScheduleState.PAUSED)


@router.post("/schedules:cancel", **schemas.bulk("Cancel the schedules that a filter finds."))
async def cancel(request: Request, call: Admitted) -> Response:
    """Cancel the schedules that `filter` finds: they never fire again. `dry_run` only counts them."""
    body = await _body(request, call)

    async def one(id: str, version: str | None) -> str:
        return await call.client.cancel(id, if_version=version)

    return await _changed(call, body, call.client.cancel_many, one)


async def _body(request: Request, call: Admitted, *names: str) -> dict[str, Any]:
    call.demand_write()
    return only(await read_object(request), *_OPTIONS, *names)


async def _changed(call: Admitted, body: dict[str, Any], many: ChangeAll, one: ChangeOne, **usual: Any) -> Response:
    """
    Change the schedules that the filter finds, by *many*. Of a limited caller, change those within the limits, each by
    *one* as it was found. *usual*: filters that hold unless others are given.
    """
    filters = _filters(body)
    given: dict[str, Any] = {name: body[name] for name in ("dry_run", "limit") if name in body}
    if not call.is_limited:
        return JsonAnswer((await many(**filters, **given)).to_dict())
    options = ChangeOptions.taken(given)
    demand_filter(filters)
    found = [each async for each in call.client.list(**(usual | filters)) if call.sees(each)][: options.limit]
    tally = Tally([each.id for each in found])
    if options.dry_run:
        return JsonAnswer(tally.result(is_dry_run=True).to_dict())
    for each in found:
        try:
            tally.add({each.id: IdOutcome(await one(each.id, each.version))})
        except ScheduleNotFound:
            tally.add({each.id: IdOutcome("not_found")})
        except ZschedError as error:
            tally.add({each.id: IdOutcome("", error=error)})
    return JsonAnswer(tally.result().to_dict())


def _filters(body: dict[str, Any]) -> dict[str, Any]:
    """Return the filters of *body*, as the client takes them. Raises InvalidSchedule."""
    given = body.get("filter")
    if not isinstance(given, dict):
        raise InvalidSchedule("filter", given, "not a filter", 'give one such as {"tag": "billing"}, or {"match": "*"}')
    filters = only(given, *_FILTERS)
    return {**filters, **{name: aware(name, given[name]) for name in _TIMES if name in given}}
