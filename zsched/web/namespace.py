"""
The namespace: ``/status``, ``/daemons`` and ``/queues`` as they are now; its ``/known-failures``; and its
``/calendars``. All callers read those calendars; one with limits changes none.
"""

from typing import Final

from fastapi import Request
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.core.options.forms import TEXT
from zsched.core.triggers.calendar_definition import MOST_DATES, PARTS
from zsched.web import schemas
from zsched.web.answers import JsonAnswer, Problem
from zsched.web.calls import Admitted, Body, PathId, routes

router, health = routes("calendars"), routes("health")

_ONE: Final = "/calendars/{name:plain}"
_KNOWN: Final = dict.fromkeys(("func", "error", "note", "for"), TEXT)
_LIST: Final = {"type": "array", "items": TEXT, "maxItems": MOST_DATES}


@health.get("/status", **schemas.route("The verdict, its reasons and remedies, and counts.", "Status"))
async def get_status(request: Request, call: Admitted) -> Response:
    """Return the output of `zsched status --json`: the verdict with remedies, daemons, backlog, activity, archives."""
    call.demand_all("the status")
    return JsonAnswer((await run(request.app.state.look)).to_dict())


@health.get("/daemons", **schemas.answering("The daemons of the last hour.", daemons=schemas.array_of("Daemon")))
async def list_daemons(call: Admitted) -> Response:
    """Return the daemons that reported within an hour, the leader first."""
    overview = await call.client._overview()
    return JsonAnswer({"daemons": [daemon.to_dict() for daemon in overview.known_daemons]})


@health.get(
    "/queues",
    **schemas.answering("The queues in use, with workers and waiting jobs.", queues=schemas.array_of("Queue")),
)
async def list_queues(request: Request, call: Admitted) -> Response:
    """Return the queues that schedules use, that RQ knows, or that workers listen to; without those beyond limits."""
    found = await run(request.app.state.reader.queues, (await call.client._overview()).held_back)
    return JsonAnswer({"queues": [one.to_dict() for one in found if call.account.limits.has_queue(one.queue)]})


# -- known failures ---------------------------------------------------------------------------------


@health.get("/known-failures", **schemas.answering("All of them.", known_failures=schemas.array_of("KnownFailure")))
async def list_known_failures(call: Admitted) -> Response:
    """Return the failures that the status and messages leave out, the first to end first."""
    call.demand_all("known failures")
    return JsonAnswer({"known_failures": [one.to_dict() for one in await call.client.known_failures()]})


@health.post("/known-failures", **schemas.action("Make failures known.", "KnownFailure", **_KNOWN))
async def ack_failures(call: Admitted, body: Body) -> Response:
    """
    Make failed, lost or refused runs known by the globs `func` and `error`, or one of them, `for` a time such as `7d`.
    """
    call.demand_all("known failures")
    body = {"for_" if name == "for" else name: value for name, value in body.items()}
    return JsonAnswer((await call.client.ack(**body)).to_dict())


@health.delete(
    "/known-failures/{name:plain}", **schemas.route("What became of it.", "Result", failures=schemas.FAILED_WRITES)
)
async def delete_known_failure(name: PathId, call: Admitted) -> Response:
    """Take a known failure back."""
    call.demand_write()
    call.demand_all("known failures")
    if not await call.client.remove_ack(name):
        raise Problem(404, "not-found", f"no known failure {name[:64]!r}", "GET /api/v1/known-failures lists them")
    return JsonAnswer({"id": name, "outcome": "deleted"})


# -- calendars --------------------------------------------------------------------------------------


@router.get("/calendars", **schemas.answering("All calendars.", calendars=schemas.by_name("Calendar")))
async def list_calendars(call: Admitted) -> Response:
    """Return the calendars by name, each with its parts and owner."""
    return JsonAnswer({"calendars": await call.client.calendars()})


@router.get(_ONE, **schemas.route("A calendar.", "NamedCalendar"))
async def get_calendar(name: PathId, call: Admitted) -> Response:
    """Return the parts and the owner of a calendar."""
    if (found := (await call.client.calendars()).get(name)) is None:
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
