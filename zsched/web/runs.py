"""
``/runs``: list, read, retry and cancel; and the reader of runs that were pushed later for others
(``core.occurrences.replacements``), from the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from zsched.aio.client import AsyncClient
from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.replacements import READ, Replacements
from zsched.core.runs.run import Run
from zsched.web import actions, schemas
from zsched.web.calls import Admitted, Filters, QueryText, QueryTime, routes
from zsched.web.reading import only, read_object, rfc3339
from zsched.web.rendering import JsonAnswer

router = routes("runs")

_PAGE, _MOST = 20, 200


@router.get("/runs", **schemas.page("Runs, the last pushed first.", "Run", "runs", "next_page_token", "source"))
async def list_(
    call: Admitted,
    filters: Filters,
    schedule: QueryText = None,
    status: QueryText = None,
    since: QueryTime = None,
    until: QueryTime = None,
    page_size: Annotated[int, Query(ge=1, le=_MOST)] = _PAGE,
    page_token: QueryText = None,
) -> Response:
    """
    List runs; `retried` is the last retry of a run, or null. `page_token` is the `next_page_token` of the page before,
    with the same filters.
    """
    call.demand_all("a list of runs")
    found = await call.client.runs(
        schedule, status, page_size, after=page_token, since=rfc3339("since", since), until=rfc3339("until", until),
        **filters,
    )  # fmt: skip
    retries = await retries_of(call.client, found, schedule)
    runs = [call.shown(run.to_dict() | {"retried": retries.last_retry(run)}) for run in found]
    return JsonAnswer({"runs": runs, "next_page_token": found.after, "source": found.source.to_dict()})


@router.get("/runs/{run_id:plain}", **schemas.route("A run with its attempts.", "Run"))
async def get(run_id: str, call: Admitted) -> Response:
    """Return a run with all its attempts; `retried` is its last retry, or null."""
    run, source = await call.client.get_run(run_id)
    retries = await retries_of(call.client, [run], run.schedule_id)
    attempts = [attempt.to_dict() for attempt in run.every_attempt]
    shown = call.shown(run.to_dict() | {"attempts": attempts, "retried": retries.last_retry(run)})
    return JsonAnswer({**shown, "source": source.to_dict()})


@router.post("/runs/{run_id:plain}:retry", **schemas.action("Run it once more.", "Result"))
async def retry(run_id: str, request: Request, call: Admitted) -> Response:
    """Run a finished run once more. Returns the id of the new run."""
    call.demand_write()
    only(await read_object(request))
    return JsonAnswer({"id": run_id, "run_id": await actions.retry(call, run_id)})


@router.post("/runs/{run_id:plain}:cancel", **schemas.action("Take it out of its queue, or stop it.", "Result"))
async def cancel(run_id: str, request: Request, call: Admitted) -> Response:
    """Cancel a queued run, or stop a running one."""
    call.demand_write()
    only(await read_object(request))
    return JsonAnswer({"id": run_id, "outcome": await actions.cancel_run(call, run_id)})


# -- runs in the place of others ----------------------------------------------------------------------


async def replaced_since(client: AsyncClient, ms: int, id: str | None = None, **filters: Any) -> Replacements:
    """Return the backfilled and retried runs since *ms*: of schedule *id*, or of all that *filters* find."""
    known = Replacements()
    for what in (What.RETRIED, What.ENQUEUED):
        await _add(known, client, what, id, from_ms(ms), **filters)
    return known


async def retries_of(client: AsyncClient, runs: Iterable[Run], id: str | None = None) -> Replacements:
    """Return the retries of *runs*, which are of schedule *id* or of any."""
    known = Replacements()
    if times := known.further_back(runs):
        await _add(known, client, What.RETRIED, id, *times)
    return known


async def _add(
    known: Replacements,
    client: AsyncClient,
    what: What,
    id: str | None,
    since: datetime,
    until: datetime | None = None,
    **filters: Any,
) -> None:
    async for one in client.iter_history(id, status=what, since=since, until=until, limit=READ, **filters):
        known.add(one)
