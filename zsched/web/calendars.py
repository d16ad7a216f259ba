"""``/calendars``: the calendars of the namespace. All callers read them; one with limits changes none."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from zsched.core.options.forms import TEXT
from zsched.core.triggers.calendar_definition import MOST_DATES, PARTS
from zsched.web import schemas
from zsched.web.calls import Admitted, Body, PathId, routes
from zsched.web.problems import Problem
from zsched.web.rendering import JsonAnswer
from zsched.web.results import ref

router = routes("calendars")

_ONE: Final = "/calendars/{name:plain}"
_LIST: Final = {"type": "array", "items": TEXT, "maxItems": MOST_DATES}


@router.get(
    "/calendars",
    **schemas.answering("All calendars.", calendars={"type": "object", "additionalProperties": ref("Calendar")}),
)
async def list_calendars(call: Admitted) -> Response:
    """Return the calendars by name, each with its parts and owner."""
    return JsonAnswer({"calendars": await call.client.calendars()})


@router.get(_ONE, **schemas.route("A calendar.", "NamedCalendar"))
async def get_calendar(name: PathId, call: Admitted) -> Response:
    """Return the parts and the owner of a calendar."""
    found = (await call.client.calendars()).get(name)
    if found is None:
        raise _unknown(name)
    return JsonAnswer({"id": name, **found})


@router.put(
    _ONE,
    **schemas.action(
        "Put a calendar.", "Result", **dict.fromkeys(PARTS, _LIST), owner={**TEXT, "type": ["string", "null"]}
    ),
)
async def put_calendar(name: PathId, call: Admitted, body: Body) -> Response:
    """Put a calendar, or replace it. Schedules that name it are planned anew within seconds."""
    call.demand_all("a calendar")
    return JsonAnswer({"id": name, "outcome": await call.client.put_calendar(name, **body)})


@router.delete(_ONE, **schemas.route("What became of it.", "Result", failures=schemas.FAILED_WRITES))
async def delete_calendar(name: PathId, call: Admitted) -> Response:
    """Delete a calendar that no schedule names."""
    call.demand_write()
    call.demand_all("a calendar")
    if not await call.client.delete_calendar(name):
        raise _unknown(name)
    return JsonAnswer({"id": name, "outcome": "deleted"})


def _unknown(name: str) -> Problem:
    return Problem(404, "not-found", f"no calendar {name[:64]!r}", "GET /api/v1/calendars lists them")
