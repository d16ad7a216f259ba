"""``/status``, ``/daemons`` and ``/queues``: what ``zsched status`` knows, and the queues with their workers."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.web import schemas
from zsched.web.calls import Admitted, routes
from zsched.web.rendering import JsonAnswer

router = routes("health")


@router.get("/status", **schemas.answer("Status", "The verdict, its reasons and remedies, and counts."))
async def status(request: Request, call: Admitted) -> Response:
    """Return what `zsched status --json` prints: the verdict with remedies, daemons, backlog, activity, archives."""
    call.demand_all("the status")
    return JsonAnswer((await run(request.app.state.look)).to_dict())


@router.get("/daemons", **schemas.page("Daemon", "The daemons of the last hour."))
async def daemons(call: Admitted) -> Response:
    """Return the daemons that reported within an hour, the leader first."""
    overview = await call.client.overview()
    return JsonAnswer({"daemons": [daemon.to_dict() for daemon in overview.known_daemons]})


@router.get("/queues", **schemas.page("Queue", "The queues in use, with workers and waiting jobs."))
async def queues(request: Request, call: Admitted) -> Response:
    """Return the queues that schedules use, that RQ knows, or that workers listen to; without those beyond limits."""
    held = (await call.client.overview()).held_back
    found = await run(request.app.state.reader.queues_seen, held)
    return JsonAnswer({"queues": [one.to_dict() for one in found if call.sees_queue(one.queue)]})
