"""``/schedules:batch``, ``:pause``, ``:resume``, ``:release`` and ``:cancel``: many schedules in one request."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from zsched.core.repair import Repaired
from zsched.errors import InvalidSchedule
from zsched.web import actions, schemas
from zsched.web.batch import BatchResponse
from zsched.web.calls import Admitted, routes
from zsched.web.reading import aware, only, read_object
from zsched.web.rendering import JsonAnswer

router = routes("many schedules")

_TIMES: Final = ("due_after", "due_before")
_FILTERS: Final = ("state", "kind", "func", "queue", "tag", "owner", "name", "match", *_TIMES)
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
    body = await _body(request, call, "note")
    return _told(await actions.pause_all(call, _filters(body), body.get("note", ""), **_options(body)))


@router.post("/schedules:resume", **schemas.bulk("Resume the schedules that a filter finds.", missed=str))
async def resume(request: Request, call: Admitted) -> Response:
    """Resume the paused schedules that `filter` finds, 200 a second; `missed` is fire or skip."""
    body = await _body(request, call, "missed")
    return _told(await actions.resume_all(call, _filters(body), body.get("missed", "fire"), **_options(body)))


@router.post("/schedules:release", **schemas.bulk("Put quarantined schedules that a filter finds back.", missed=str))
async def release(request: Request, call: Admitted) -> Response:
    """Put the quarantined schedules that `filter` finds back, 200 a second; `missed` is fire or skip."""
    body = await _body(request, call, "missed")
    return _told(await actions.release_all(call, _filters(body), body.get("missed", "fire"), **_options(body)))


@router.post("/schedules:cancel", **schemas.bulk("Cancel the schedules that a filter finds."))
async def cancel(request: Request, call: Admitted) -> Response:
    """Cancel the schedules that `filter` finds: they never fire again. `dry_run` only counts them."""
    body = await _body(request, call)
    return _told(await actions.cancel_all(call, _filters(body), **_options(body)))


async def _body(request: Request, call: Admitted, *names: str) -> dict[str, Any]:
    call.demand_write()
    return only(await read_object(request), "filter", *_OPTIONS, *names)


def _options(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in _OPTIONS if name in body}


def _told(done: Repaired) -> Response:
    return JsonAnswer(done.to_dict())


def _filters(body: dict[str, Any]) -> dict[str, Any]:
    """Return the filters of *body*, as the client takes them. Raises InvalidSchedule."""
    given = body.get("filter")
    if not isinstance(given, dict):
        raise InvalidSchedule("filter", given, "not a filter", 'give one such as {"tag": "billing"}, or {"match": "*"}')
    filters = only(given, *_FILTERS)
    return {**filters, **{name: aware(name, given[name]) for name in _TIMES if name in given}}
