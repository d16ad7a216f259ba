"""Runs: found by filters, and one with its attempts; retry and cancel, also of all that the filters find."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from zsched.core.clock import from_ms
from zsched.core.repair import Repaired
from zsched.core.runs.run import UNSUCCESSFUL, RunStatus
from zsched.core.wording import duration_argument, plural
from zsched.errors import InvalidSchedule
from zsched.web import actions
from zsched.web.console.view import View, Viewed, within
from zsched.web.reading import aware, read_form
from zsched.web.runs import retries_of

router = APIRouter(include_in_schema=False)

_PAGE: Final = 50
_FILTERS: Final = ("status", "func", "queue", "tag", "owner", "name", "match", "since")
_ACTIONS: Final = {"retry": "retry", "cancel": "cancel_run"}
_USUAL: Final = {"status": RunStatus.FAILED.value, "since": "1h"}


@router.get("/runs")
async def list_(view: Viewed, request: Request, after: str | None = None) -> Response:
    """List the runs that the filters find, the newest first."""
    view.call.demand_all("a list of runs")
    filters = _filters(request.query_params)
    shown: dict[str, Any] = {"filters": filters, "names": _FILTERS, "statuses": [status.value for status in RunStatus]}
    try:
        options = _options(view, filters)
        status, client = options.pop("status", None), view.call.client
        found = await client.runs(None, status, _PAGE, after=after or None, **options)
        if not found and "match" in filters:  # no whole id: a part of one
            options["match"] = filters["match"] = within(filters["match"])
            found = await client.runs(None, status, _PAGE, after=after or None, **options)
    except InvalidSchedule as error:
        return view.refused(error, "runs", **shown)
    return view.page(
        "runs", runs=found, source=found.source, after=found.after, is_retried=filters.get("status") in UNSUCCESSFUL,
        replacements=await retries_of(view.call.client, found), **shown,
    )  # fmt: skip


@router.get("/runs:retry")
async def confirm(view: Viewed, request: Request) -> Response:
    """Show how many runs a retry of all that the filters find would push, and ask."""
    view.call.demand_write()
    view.call.demand_all("a search for runs")
    filters = {**_USUAL, **_filters(request.query_params)}

    async def plan() -> dict[str, Any]:
        return {"plan": await _retried(view, filters, dry_run=True)}

    return view.later("retry_all", plan, filters=filters)


@router.post("/runs:retry")
async def retry_all(view: Viewed, request: Request) -> Response:
    """Retry all runs that the filters find."""
    view.call.demand_write()
    form = await read_form(request)
    filters = {**_USUAL, **_filters(form)}
    done = await _retried(view, filters, until=from_ms(view.now_ms))
    said = f"retried {done.done:,} of {plural(done.found, 'run')}"
    return view.done(said + (f"; {done.refused_count:,} refused" if done.refused_count else ""), "runs", **filters)


@router.get("/runs/{run_id:plain}")
async def show(view: Viewed, run_id: str) -> Response:
    """Show a run: times, attempts, error, note and worker."""
    run, source = await view.call.client.get_run(run_id)
    story = await view.call.client.why(run_id, view.tz)
    retry = (await retries_of(view.call.client, [run], run.schedule_id)).of_run(run_id)
    return view.page(
        "run", run=run, attempts=run.every_attempt, source=source, story=story, retried=UNSUCCESSFUL, retry=retry
    )


@router.post("/runs/{run_id:plain}:{action}")
async def act(view: Viewed, run_id: str, action: str) -> Response:
    """Retry or cancel a run."""
    view.call.demand_write()
    if action not in _ACTIONS:
        raise actions.unknown_action(action, "use the buttons of the run's page")
    done = await actions.change_run(view.call, _ACTIONS[action], run_id)
    return view.done(f"retry of {run_id}", "runs", done) if action == "retry" else view.done(done, "runs", run_id)


def _filters(given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name in _FILTERS if (value := given.get(name, "").strip())}


def _options(view: View, filters: Mapping[str, str]) -> dict[str, Any]:
    """Return *filters* as the client takes them. Raises InvalidSchedule."""
    options: dict[str, Any] = dict(filters)
    if "since" in options:
        options["since"] = _since(view, options["since"])
    return options


def _since(view: View, text: str) -> datetime | None:
    """Return a time, or the time before a duration such as 1h. Raises InvalidSchedule."""
    if "T" in text:
        return aware("since", text)
    before: Any = duration_argument("since", text)
    at_ms = view.now_ms - round(before.total_seconds() * 1000)
    if at_ms < 0:
        raise InvalidSchedule("since", text, "before 1970", "give a shorter duration")
    return from_ms(at_ms)


async def _retried(view: View, filters: Mapping[str, str], **more: Any) -> Repaired:
    options = _options(view, filters)
    return await actions.retry_all(view.call, options.pop("status"), **options, **more)
