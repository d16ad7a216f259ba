"""
``/runs``: list, read, retry and cancel. ``/occurrences``: past ones with their outcomes, and coming ones; of a
schedule, or counted for the timeline. And the reader of runs that were pushed later for others, from the history.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from zsched.aio.client import AsyncClient
from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.replacements import READ, Replacements
from zsched.core.options.forms import TEXT
from zsched.core.runs.run import Run
from zsched.web import actions, schemas
from zsched.web.actions import coming_of, found_of
from zsched.web.answers import JsonAnswer
from zsched.web.calls import Admitted, Body, Filters, QueryText, QueryTime, operation_of, routes
from zsched.web.reading import aware, rfc3339

router, occurrences = routes("runs"), routes("occurrences")

_PAGE, _MOST, _MOST_PAST = 20, 200, 1000


@router.get("/runs", **schemas.page("Runs, the last pushed first.", "ListedRun", "runs", source="Source"))
async def list_runs(
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


@router.get("/runs/{run_id:plain}", **schemas.route("A run with its attempts.", "RunDetails"))
async def get_run(run_id: str, call: Admitted) -> Response:
    """Return a run with all its attempts; `retried` is its last retry, or null."""
    run, source = await call.client.get_run(run_id)
    retries = await retries_of(call.client, [run], run.schedule_id)
    attempts = [attempt.to_dict() for attempt in run.every_attempt]
    shown = call.shown(run.to_dict() | {"attempts": attempts, "retried": retries.last_retry(run)})
    return JsonAnswer({**shown, "source": source.to_dict()})


@router.post("/runs/{run_id:plain}:retry", **schemas.action("Run it once more.", "Result", ["Idempotency-Key"]))
async def retry_run(run_id: str, request: Request, call: Admitted, body: Body) -> Response:
    """
    Run a finished run once more. Returns the id of the new run. With the same `Idempotency-Key`, a request that is sent
    again within ten minutes pushes no other run.
    """
    op, _ = await operation_of(request, call, {"retry": run_id})
    return JsonAnswer({"id": run_id, "run_id": await actions.change_run(call, "retry", run_id, op, **body)})


@router.post("/runs/{run_id:plain}:cancel", **schemas.action("Take it out of its queue, or stop it.", "Result"))
async def cancel_run(run_id: str, call: Admitted, body: Body) -> Response:
    """Cancel a queued run, or stop a running one."""
    return JsonAnswer({"id": run_id, "outcome": await actions.change_run(call, "cancel_run", run_id, **body)})


# -- occurrences --------------------------------------------------------------------------------------


@occurrences.get(
    "/schedules/{id}/occurrences",
    **schemas.page(
        "Its past and coming occurrences.", "Occurrence", "past", coming=schemas.array_of(TEXT), source="Source"
    ),
)
async def list_occurrences(
    id: str,
    call: Admitted,
    page_size: Annotated[int, Query(ge=1, le=_MOST_PAST)] = _PAGE,
    page_token: QueryText = None,
    coming: Annotated[int, Query(ge=1, le=_MOST_PAST)] = _PAGE,
) -> Response:
    """
    Return the past occurrences with outcomes and runs, the newest first, and the next `coming` times. `retried` is the
    last retry of a run, or null. `page_token` is the `next_page_token` of the page before.
    """
    if call.is_limited:
        await found_of(call, id)
    past = await call.client.history(id, limit=page_size, after=page_token)
    retries = await retries_of(call.client, (one.run for one in past), id)
    shown = [
        one | {name: one[name] and call.shown(one[name]) for name in ("run", "retried")}
        for one in map(retries.shown, past)
    ]
    told = {
        "past": shown,
        "next_page_token": past.after,
        "coming": [at.isoformat() for at in await coming_of(call, id, n=coming)],
        "source": past.source.to_dict(),
    }
    return JsonAnswer(told)


@occurrences.get("/occurrences", **schemas.route("Counts of occurrences by spans of time.", "Timeline"))
async def count_occurrences(
    call: Admitted, filters: Filters, start: Annotated[str, Query(alias="from")],
    end: Annotated[str, Query(alias="to")], bucket: str, by: QueryText = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_PAST)] = 40,
) -> Response:  # fmt: skip
    """
    Count the occurrences in [`from`, `to`) by spans of `bucket`, whole minutes such as `15m`: outcomes by their words,
    and those that are `expected`. Outcomes before `complete_since` are not counted. `by` schedule, queue, tag or
    function: also in the `limit` `rows` with most failures.
    """
    call.demand_all("the timeline")
    times = aware("from", start), aware("to", end)
    found = await call.client.timeline(*times, bucket, by, limit, **filters)  # type: ignore[arg-type]  # given
    return JsonAnswer(found.to_dict())


@occurrences.get("/forecast", **schemas.route("What will fire, or how much of it.", "Forecast"))
async def get_forecast(
    call: Admitted,
    filters: Filters,
    end: Annotated[str, Query(alias="to", description="RFC 3339, or a duration such as 24h.")],
    start: Annotated[str | None, Query(alias="from")] = None,
    by: QueryText = None,
    bucket: QueryText = None,
    quiet_window: QueryText = None,
    workers: Annotated[list[str], Query(description="A queue with its workers, such as email=4.")] = [],  # noqa: B006
    suggest: bool = False,
    limit: Annotated[int, Query(ge=1, le=_MOST_PAST)] = _MOST_PAST,
) -> Response:
    """
    Return the occurrences in [`from`, `to`), or their numbers by `queue`, `minute` or `function`: of the schedules that
    the caller may see. A heavy minute has its three largest `parts`.
    """
    until: Any = aware("to", end) if "T" in end else end
    pairs = (one.rpartition("=") for one in workers)
    numbers: Any = {queue: int(text) if text.isdecimal() and len(text) < 10 else text for queue, _, text in pairs}
    found = await call.client.forecast(
        until, aware("from", start), by=by, bucket=bucket, quiet_window=quiet_window, workers=numbers,
        suggest=suggest, limit=limit, **filters,
    )  # fmt: skip
    return JsonAnswer(found.to_dict())


# -- runs in the place of others ----------------------------------------------------------------------


async def replaced_since(client: AsyncClient, ms: int, id: str | None = None, **filters: Any) -> Replacements:
    """Return the backfilled and retried runs since *ms*: of schedule *id*, or of all that *filters* find."""
    known = Replacements()
    for what in (What.RETRIED, What.ENQUEUED):
        async for one in client.iter_history(id, status=what, since=from_ms(ms), limit=READ, **filters):
            known.add(one)
    return known


async def retries_of(client: AsyncClient, runs: Iterable[Run | None], id: str | None = None) -> Replacements:
    """Return the retries of *runs*, which are of schedule *id* or of any."""
    known = Replacements()
    if (search := known.search_retries(runs)) is not None:
        async for one in client.iter_history(id, **search):
            known.add(one)
    return known
