"""``/occurrences``: past ones with their outcomes, and coming ones; of a schedule, or counted for the timeline."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from zsched.errors import ScheduleNotFound
from zsched.web import schemas
from zsched.web.actions import found_of
from zsched.web.calls import Admitted, QueryText, routes
from zsched.web.reading import aware
from zsched.web.rendering import JsonAnswer
from zsched.web.runs import retries_of

router = routes("occurrences")

_USUAL, _MOST = 20, 1000


@router.get("/schedules/{id}/occurrences", **schemas.route("Its past and coming occurrences.", "Occurrence"))
async def of_schedule(
    id: str,
    call: Admitted,
    page_size: Annotated[int, Query(ge=1, le=_MOST)] = _USUAL,
    page_token: QueryText = None,
    coming: Annotated[int, Query(ge=1, le=_MOST)] = _USUAL,
) -> Response:
    """
    Return the past occurrences with outcomes and runs, the newest first, and the next `coming` times. `retried` is the
    last retry of a run, or null. `page_token` is the `next_page_token` of the page before.
    """
    if call.is_limited:
        await found_of(call, id)
    past = await call.client.history(id, limit=page_size, after=page_token)
    retries = await retries_of(call.client, (one.run for one in past if one.run is not None), id)
    shown = []
    for one in past:
        of_one = one.shown_occurrence() | {"retried": None if one.run is None else retries.last_retry(one.run)}
        shown.append(of_one | {name: of_one[name] and call.shown(of_one[name]) for name in ("run", "retried")})
    told = {
        "past": shown,
        "next_page_token": past.after,
        "coming": await _coming(call, id, coming),
        "source": past.source.to_dict(),
    }
    return JsonAnswer(told)


@router.get("/occurrences", **schemas.route("Counts of occurrences by spans of time.", "Timeline"))
async def timeline(
    call: Admitted, start: Annotated[str, Query(alias="from")], end: Annotated[str, Query(alias="to")], bucket: str
) -> Response:
    """
    Count the occurrences in [`from`, `to`) by spans of `bucket`, such as `15m`: outcomes by their words, and those that
    are `expected`. Outcomes before `complete_since` are not counted.
    """
    call.demand_all("the timeline")
    times = aware("from", start), aware("to", end)
    return JsonAnswer((await call.client.timeline(*times, bucket)).to_dict())  # type: ignore[arg-type]  # given


async def _coming(call: Admitted, id: str, n: int) -> list[str]:
    """Return the next times of a schedule; none of one that has fired for the last time."""
    try:
        return [at.isoformat() for at in await call.client.preview(id, n=n)]
    except ScheduleNotFound:
        return []
