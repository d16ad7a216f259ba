"""``/log`` and ``/events``: all changes of the namespace."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from zsched.core.log.shown import shown_entry
from zsched.web import schemas
from zsched.web.calls import Admitted, QueryText
from zsched.web.events import Events, position_of_event
from zsched.web.problems import Problem
from zsched.web.reading import rfc3339

router = APIRouter(tags=["changes"])

_STREAM = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter for nginx
_ENTRIES, _MOST = 50, 1000


@router.get("/log", **schemas.page("Entry", "Entries of the log, in order."))
async def entries(
    request: Request,
    call: Admitted,
    since: QueryText = None,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = _ENTRIES,
) -> Response:
    """Return the entries since `since`, or the newest `limit`, with what each changed; without arguments."""
    call.demand_all("the log")
    found, source = await call.client.log(rfc3339("since", since), limit=limit)
    suffix, shown = request.app.state.run_suffix, []
    async for entry in found:
        shown.append(shown_entry(entry, suffix))
        if len(shown) >= limit:
            break
    return JSONResponse({"entries": shown, "source": source.to_dict()})


@router.get("/events", **schemas.event_stream("Every change as a server-sent event."))
async def events(request: Request, call: Admitted) -> Response:
    """
    Stream the changes from now on, or after `Last-Event-ID`: `id` is `<epoch>-<seq>-<t>`, `data` an entry as in `/log`.
    `event: reset` means that entries are missing: read again what you show.
    """
    call.demand_all("the log")
    given = request.headers.get("last-event-id")
    hub: Events = request.app.state.events
    after = None if given is None else position_of_event(given)

    async def is_admitted() -> bool:
        try:
            (await request.app.state.access.caller(request)).demand_all("the log")
        except Problem:
            return False
        return True

    stream = request.app.state.meter.counted(hub.stream(after, is_admitted))
    return StreamingResponse(stream, media_type="text/event-stream", headers=_STREAM)
