"""
The namespace: ``/status``, ``/daemons`` and ``/queues`` as they are now; ``/log`` and ``/events``, all changes of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated

import structlog
from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from zsched.aio.bridge import run
from zsched.core.log.shown import changes_or_problem, entry_for_json
from zsched.errors import ZschedError
from zsched.web import schemas
from zsched.web.calls import Admitted, QueryTime, routes
from zsched.web.events import Events, IsAdmitted, position_of_event
from zsched.web.problems import Problem
from zsched.web.reading import rfc3339
from zsched.web.rendering import STREAMED, JsonAnswer
from zsched.web.results import array_of, ref

log = structlog.get_logger(__name__)
router, health = routes("changes"), routes("health")

_STREAM = STREAMED | {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter for nginx
_ENTRIES, _MOST = 50, 1000


@health.get("/status", **schemas.route("The verdict, its reasons and remedies, and counts.", "Status"))
async def get_status(request: Request, call: Admitted) -> Response:
    """Return the output of `zsched status --json`: the verdict with remedies, daemons, backlog, activity, archives."""
    call.demand_all("the status")
    return JsonAnswer((await run(request.app.state.look)).to_dict())


@health.get("/daemons", **schemas.answering("The daemons of the last hour.", daemons=array_of(ref("Daemon"))))
async def list_daemons(call: Admitted) -> Response:
    """Return the daemons that reported within an hour, the leader first."""
    overview = await call.client._overview()
    return JsonAnswer({"daemons": [daemon.to_dict() for daemon in overview.known_daemons]})


@health.get(
    "/queues", **schemas.answering("The queues in use, with workers and waiting jobs.", queues=array_of(ref("Queue")))
)
async def list_queues(request: Request, call: Admitted) -> Response:
    """Return the queues that schedules use, that RQ knows, or that workers listen to; without those beyond limits."""
    held = (await call.client._overview()).held_back
    found = await run(request.app.state.reader.queues, held)
    return JsonAnswer({"queues": [one.to_dict() for one in found if call.sees_queue(one.queue)]})


@router.get(
    "/log", **schemas.answering("Entries of the log, in order.", entries=array_of(ref("Entry")), source=ref("Source"))
)
async def list_entries(
    request: Request, call: Admitted, since: QueryTime = None, limit: Annotated[int, Query(ge=1, le=_MOST)] = _ENTRIES
) -> Response:
    """Return the entries since `since`, or the newest `limit`, with what each changed; without arguments."""
    call.demand_all("the log")
    found, source = await call.client.log(rfc3339("since", since), limit=limit)
    suffix, shown = request.app.state.run_suffix, []
    async for entry in found:
        shown.append(entry_for_json(entry, *changes_or_problem(entry, suffix)))
        if len(shown) >= limit:
            break
    return JsonAnswer({"entries": shown, "source": source.to_dict()})


@router.get(
    "/events",
    **schemas.streamed("Every change as a server-sent event.", "text/event-stream", "Entry", ["Last-Event-ID"]),
)
async def follow_events(request: Request, call: Admitted) -> Response:
    """
    Stream the changes from now on, or after `Last-Event-ID`: `id` is `<epoch>-<seq>-<t>`, `data` an entry as in `/log`.
    `event: reset` means that entries are missing: read again what you show. `event: beat` comes at least every 5
    seconds if nothing else does.
    """
    call.demand_all("the log")
    given = request.headers.get("last-event-id")
    hub: Events = request.app.state.events
    after = None if given is None else position_of_event(given)
    return await streamed(request, partial(hub.stream, after))


async def streamed(request: Request, events: Callable[[IsAdmitted], AsyncIterator[bytes]]) -> Response:
    """Return *events* as a stream, as long as the token of *request* may read them."""
    stream = events(partial(_is_admitted, request))
    first = await anext(stream)  # raises what goes wrong at the start, before anything was answered
    told = request.app.state.meter.counted(_until_trouble(first, stream))
    return StreamingResponse(told, media_type="text/event-stream", headers=_STREAM)


def _is_admitted(request: Request) -> bool:
    """Return True if the token of *request* still reads events."""
    try:
        request.app.state.access.caller(request).demand_all("the log")
    except Problem:
        return False
    return True


async def _until_trouble(first: bytes, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a stream, which ends without Redis: the client connects again, with the id of its last event."""
    yield first
    try:
        async for text in stream:
            yield text
    except ZschedError as error:
        log.warning("stream_ended", reason=str(error))
