"""``/runs``: list, read, retry and cancel."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from zsched.core.runs import Run
from zsched.web import schemas
from zsched.web.calls import Session
from zsched.web.reading import instant

router = APIRouter(tags=["runs"])

Filter = Annotated[str | None, Query()]
_PAGE, _MOST = 20, 200


@router.get("/runs", **schemas.page("Run", "Runs, the last pushed first."))
async def list_(
    session: Session,
    schedule: Filter = None,
    status: Filter = None,
    func: Filter = None,
    queue: Filter = None,
    tag: Filter = None,
    owner: Filter = None,
    match: Filter = None,
    since: Filter = None,
    until: Filter = None,
    page_size: Annotated[int, Query(ge=1, le=_MOST)] = _PAGE,
    page_token: Filter = None,
) -> Response:
    """List runs. `page_token` is the `next_page_token` of the page before, with the same filters."""
    session.demand_all("a list of runs")
    found = await session.client.runs(
        schedule, status, page_size, after=page_token, func=func, queue=queue, tag=tag, owner=owner, match=match,
        since=instant("since", since), until=instant("until", until),
    )  # fmt: skip
    runs = [session.shown(run.to_dict()) for run in found]
    return JSONResponse({"runs": runs, "next_page_token": found.after, "source": found.source.to_dict()})


@router.get("/runs/{run_id}", **schemas.answer("Run", "A run with its attempts."))
async def get(run_id: str, session: Session) -> Response:
    """Return a run with all its attempts."""
    run, source = await session.client.get_run(run_id)
    await _demand(session, run)
    return JSONResponse({**session.shown(run.to_dict()), "source": source.to_dict()})


@router.post("/runs/{run_id}:retry", **schemas.action("Result", "Run it once more."))
async def retry(run_id: str, request: Request, session: Session) -> Response:
    """Run a finished run once more. Returns the id of the new run."""
    session.demand_write()
    await _demand(session, (await session.client.get_run(run_id))[0])
    return JSONResponse({"id": run_id, "run_id": await session.client.retry(run_id)})


@router.post("/runs/{run_id}:cancel", **schemas.action("Result", "Take it out of its queue, or stop it."))
async def cancel(run_id: str, request: Request, session: Session) -> Response:
    """Cancel a queued run, or stop a running one."""
    session.demand_write()
    await _demand(session, (await session.client.get_run(run_id))[0])
    return JSONResponse({"id": run_id, "outcome": await session.client.cancel_run(run_id)})


async def _demand(session: Session, run: Run) -> None:
    """Check that a run's schedule is within the caller's limits. Raises Problem, ScheduleNotFound: it is gone."""
    if session.is_limited:
        session.demand(await session.client.get(run.schedule_id))
