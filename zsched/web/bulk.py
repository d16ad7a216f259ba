"""``/schedules:batch``, ``:pause``, ``:resume``, ``:release`` and ``:cancel``: many schedules in one request."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from zsched.core.options.arguments import ScheduleFilters
from zsched.errors import InvalidSchedule
from zsched.web import actions, schemas
from zsched.web.batch import BatchResponse
from zsched.web.calls import Admitted, routes
from zsched.web.reading import aware, only, read_object
from zsched.web.rendering import JsonAnswer

router = routes("many schedules")

_TIMES: Final = ("due_after", "due_before")
_FILTERS: Final = tuple(ScheduleFilters.__annotations__)
_OPTIONS: Final = ("dry_run", "limit")


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
    return await _change(request, call, "pause")


@router.post("/schedules:resume", **schemas.bulk("Resume the schedules that a filter finds.", missed=str))
async def resume(request: Request, call: Admitted) -> Response:
    """Resume the paused schedules that `filter` finds, 200 a second; `missed` is fire or skip."""
    return await _change(request, call, "resume")


@router.post("/schedules:release", **schemas.bulk("Put quarantined schedules that a filter finds back.", missed=str))
async def release(request: Request, call: Admitted) -> Response:
    """Put the quarantined schedules that `filter` finds back, 200 a second; `missed` is fire or skip."""
    return await _change(request, call, "release")


@router.post("/schedules:cancel", **schemas.bulk("Cancel the schedules that a filter finds."))
async def cancel(request: Request, call: Admitted) -> Response:
    """Cancel the schedules that `filter` finds: they never fire again. `dry_run` only counts them."""
    return await _change(request, call, "cancel")


async def _change(request: Request, call: Admitted, action: str) -> Response:
    call.demand_write()
    body = only(await read_object(request), "filter", *_OPTIONS, *(name for name, _ in actions.ACTIONS[action][2:]))
    options = {name: body[name] for name in _OPTIONS if name in body}
    return JsonAnswer((await actions.change_all(call, action, _filters(body), body, **options)).to_dict())


def _filters(body: dict[str, Any]) -> dict[str, Any]:
    """Return the filters of *body*, as the client takes them. Raises InvalidSchedule."""
    given = body.get("filter")
    if not isinstance(given, dict):
        raise InvalidSchedule("filter", given, "not a filter", 'give one such as {"tag": "billing"}, or {"match": "*"}')
    filters = only(given, *_FILTERS)
    return {**filters, **{name: aware(name, given[name]) for name in _TIMES if name in given}}
