"""Many schedules, found by filters, with their last outcomes; actions on chosen rows, or on all that are found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.datastructures import ImmutableMultiDict
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.core.listing import LISTED_KINDS, Filter
from zsched.core.model import Schedule
from zsched.core.options.arguments import check_id
from zsched.core.options.choices import Missed, ScheduleState
from zsched.core.repair import Repaired
from zsched.core.wording import plural
from zsched.errors import InvalidSchedule, ZschedError
from zsched.web import actions
from zsched.web.console.drawing import STRIP, Strip
from zsched.web.console.view import PAGE, Viewed, chosen, within
from zsched.web.problems import Problem, page_problem
from zsched.web.reading import read_form, with_times

router = APIRouter(include_in_schema=False)

FILTERS: Final = ("match", "name", "state", "kind", "tag", "queue", "func", "owner", "due_after", "due_before")
_STRIPS_AT_ONCE: Final = 10


@router.get("/schedules")
async def list_(
    view: Viewed, request: Request, after: str | None = None, page_size: Annotated[int, Query(ge=1, le=1000)] = PAGE
) -> Response:
    """List the schedules that the filters find. The rows come as they are found."""
    filters = given_filters(request.query_params)
    try:
        options = with_times(filters)
        Filter.of(**options, after=after or None)
    except InvalidSchedule as error:
        return view.refused(error, "schedules", filters=filters, **_choices(after))
    listing = view.call.client.list(**options, after=after or None, limit=page_size + 1)
    head, middle, tail = view.pieces("schedules", filters=filters, **_choices(after))

    async def parts() -> AsyncIterator[str]:
        yield head
        found = list[Schedule]()
        trouble = ""
        try:
            async for one in listing:
                found.append(one)
                if len(found) <= page_size:
                    yield view.text("_schedule_row", one=one)
        except ZschedError as error:
            trouble = view.text("_trouble", trouble=page_problem(error))
        yield middle
        last = found[page_size - 1].cursor if len(found) > page_size else None
        is_empty = not found and not trouble and await run(request.app.state.is_empty)
        yield trouble or view.text("_schedules_foot", found=found, last=last, filters=filters, is_empty=is_empty)
        yield tail

    return view.streamed(parts())


@router.get("/outcomes")
async def outcomes(view: Viewed, id: Annotated[list[str], Query()]) -> Response:
    """Return the strips of some schedules, for the rows of a list."""
    limit = asyncio.Semaphore(_STRIPS_AT_ONCE)

    async def strip(id: str) -> tuple[str, Strip | None]:
        async with limit:
            if await view.request.is_disconnected():  # the viewer has left the page
                return id, None
            try:
                if view.call.is_limited:
                    await actions.found_of(view.call, id)
                return id, Strip.of(await view.call.client.history(check_id(id), limit=STRIP))
            except (ZschedError, Problem):
                return id, None

    found = await asyncio.gather(*(strip(each) for each in id[:PAGE]))
    return view.page("_strips", strips=[(id, one) for id, one in found if one is not None])


@router.get("/schedules:{action}")
async def confirm(view: Viewed, action: str, request: Request) -> Response:
    """Show what an action on the chosen rows, or on all that the filters find, would change, and ask."""
    view.call.demand_write()
    filters, wanted = _demanded(request.query_params, action)

    async def plan() -> dict[str, Any]:
        planned = await actions.change_all(view.call, action, wanted, {}, dry_run=True)
        return {"plan": planned, "missed": [each.value for each in Missed]}

    return view.later("confirm", plan, action=action, filters=filters, ids=wanted.get("ids", []))


@router.post("/schedules:{action}")
async def change_all(view: Viewed, action: str, request: Request) -> Response:
    """Change the chosen schedules, or all that the filters find."""
    view.call.demand_write()
    form = await read_form(request, 2 * PAGE)
    filters, wanted = _demanded(form, action)
    done = await actions.change_all(view.call, action, wanted, form)
    return view.done(result_text(done, actions.ACTIONS[action]), "schedules", **{**filters, "state": ""})


def given_filters(given: Mapping[str, str]) -> dict[str, str]:
    """Return the filters in a query or a form; a text without a sign of a glob is searched within ids."""
    filters = {name: value for name in FILTERS if (value := given.get(name, "").strip())}
    return {name: within(value) if name == "match" else value for name, value in filters.items()}


def result_text(done: Repaired, word: str, noun: str = "schedule") -> str:
    """Return the result of a change in bulk, in a sentence."""
    parts = [f"{done.done:,} of {plural(done.found, noun)} {word}"]
    if done.skipped:
        parts.append(f"{done.skipped:,} needed no change")
    if done.refused_count:
        first_id, reason = done.refused[0]
        parts.append(f"{done.refused_count:,} refused, such as {first_id}: {reason}")
    return "; ".join(parts)


def _choices(after: str | None) -> dict[str, Any]:
    return {
        "states": [state.value for state in ScheduleState],
        "kinds": list(LISTED_KINDS),
        "after": after,
        "names": FILTERS,
        "actions": list(actions.ACTIONS),
    }


def _demanded(given: ImmutableMultiDict[str, str], action: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the filters of the list, and what the client is asked for: these, or the ids of the chosen rows."""
    if action not in actions.ACTIONS:
        raise actions.unknown_action(action, f"use one of {', '.join(actions.ACTIONS)}")
    filters, ids = given_filters(given), chosen(given)
    if not filters and not ids:
        remedy = "choose rows, or filter by a tag, a queue or an id; * is any id"
        raise InvalidSchedule("filter", "", "no filter", remedy)
    return filters, {"ids": ids} if ids else with_times(filters)
