"""
Schedules: many, found by filters, with their last outcomes, and actions on chosen rows or on all that are found; and
one, with its story, its next times, its last occurrences, its definition and its actions.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.datastructures import ImmutableMultiDict
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.core.clock import from_ms, to_ms
from zsched.core.listing import LISTED_KINDS
from zsched.core.model import Schedule
from zsched.core.occurrences.planning import nominal_time
from zsched.core.occurrences.replacements import Replacements
from zsched.core.options.arguments import check_id
from zsched.core.options.checked import definition_of
from zsched.core.options.choices import Missed, ScheduleState
from zsched.core.repair import Repaired
from zsched.core.triggers.zones import instant_ms, shown_zone
from zsched.core.wording import plural
from zsched.errors import InvalidSchedule, ScheduleNotFound, ZschedError
from zsched.web import actions
from zsched.web.answers import Problem, page_problem
from zsched.web.console.drawing import STRIP, Strip, mark_of, words_of
from zsched.web.console.view import PAGE, View, Viewed, chosen, given_filters, within
from zsched.web.reading import rfc3339, with_times
from zsched.web.runs import replaced_since

router = APIRouter(include_in_schema=False)

FILTERS: Final = ("match", "name", "state", "kind", "tag", "queue", "func", "owner", "due_after", "due_before")
_STRIPS_AT_ONCE: Final = 10
_COMING: Final = 20
_PAST: Final = 20
_SHOWN: Final = 100  # occurrences of a planned backfill
_DONE: Final = {**actions.ACTIONS, "skip": "skipped", "unskip": "taken back"}


@router.get("/schedules")
async def list_(
    view: Viewed, request: Request, after: str | None = None, page_size: Annotated[int, Query(ge=1, le=1000)] = PAGE
) -> Response:
    """List the schedules that the filters find. The rows come as they are found."""
    filters = _filters(request.query_params)
    try:
        listing = view.call.client.list(**with_times(filters), after=after or None, limit=page_size + 1)
    except InvalidSchedule as error:
        return view.refused(error, "schedules", filters=filters, **_choices(after))
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
async def change_all(view: Viewed, action: str) -> Response:
    """Change the chosen schedules, or all that the filters find."""
    form = await view.form(2 * PAGE)
    filters, wanted = _demanded(form, action)
    done = await actions.change_all(view.call, action, wanted, form)
    return view.done(result_text(done, actions.ACTIONS[action]), "schedules", **{**filters, "state": ""})


def _filters(given: Mapping[str, str]) -> dict[str, str]:
    """Return the filters in a query or a form; a text without a sign of a glob is searched within ids."""
    filters = given_filters(given, FILTERS)
    return filters | ({"match": within(filters["match"])} if "match" in filters else {})


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
    filters, ids = _filters(given), chosen(given)
    if not filters and not ids:
        remedy = "choose rows, or filter by a tag, a queue or an id; * is any id"
        raise InvalidSchedule("filter", "", "no filter", remedy)
    return filters, {"ids": ids} if ids else with_times(filters)


# -- one schedule -----------------------------------------------------------------------------------


@router.get("/schedules/{id:plain}")
async def show(view: Viewed, id: str, after: str | None = None) -> Response:
    """Show what happened to a schedule and why, what comes next, and its definition."""
    client = view.call.client
    found = await _found(view, id)
    story = await client.why(id, view.tz)
    if found is None and not story.is_known:
        raise ScheduleNotFound(f"no schedule {id!r} is known; {story.verdict.text}")
    past = await client.history(id, limit=_PAST, after=after or None)
    replacements = (
        await replaced_since(client, min(each.at_us for each in past) // 1000, id) if past else Replacements()
    )
    return view.page(
        "schedule",
        id=id,
        one=found,
        story=story,
        coming=[] if found is None else [*with_remarks(found, await client._coming(found, _COMING))],
        past=[(mark_of(each), each, words_of(each), replacements.of(each)) for each in past],
        after=past.after,
        fields=[] if found is None else list(_fields(view, found)),
        missed=[each.value for each in Missed],
    )


@router.post("/schedules/{id:plain}:{action}")
async def act(view: Viewed, id: str, action: str) -> Response:
    """Pause, resume, release, run or cancel a schedule."""
    form = await view.form()
    if action == "cancel":
        return view.done(f"{id}: {await actions.change(view.call, action, id, form)}", "schedules")
    if action in _DONE:
        given = {name: text for name, text in form.items() if text}
        if "until" in given:
            until = instant_of("until", given["until"], view.zone((await actions.found_of(view.call, id)).tz))
            given["until"] = until.isoformat() if until else ""
        await actions.change(view.call, action, id, given)
        return view.done(_DONE[action], "schedules", id)
    if action == "run":
        return view.done(f"pushed run {await actions.run_now(view.call, id)}", "schedules", id)
    if action == "backfill":
        return await _backfill(view, id, form)
    raise actions.unknown_action(action, "use the buttons of the schedule's page")


@router.get("/schedules/{id:plain}/backfill")
async def plan_backfill(view: Viewed, id: str, request: Request) -> Response:
    """Show which occurrences a backfill would run, and ask."""
    return await _backfill(view, id, request.query_params, is_plan=True)


async def _backfill(view: View, id: str, given: Mapping[str, str], *, is_plan: bool = False) -> Response:
    """
    Backfill from ``start`` to ``end``, times of a page's form: local in the zone of the page. As a plan, or after an
    error, show the form with the *given* texts, and below it the plan.
    """
    found = await actions.found_of(view.call, id)
    shown: dict[str, Any] = {"one": found, "plan": None, "most": _SHOWN, "given": given, "zone": view.zone(found.tz)}
    if is_plan and not (given.get("start") or given.get("end")):
        return view.page("backfill", **shown)
    try:
        start, end = (instant_of(name, given.get(name, ""), view.zone(found.tz)) for name in ("start", "end"))
        done = await actions.backfill(view.call, id, start, end, dry_run=is_plan)
    except ZschedError as error:
        return view.refused(error, "backfill", **shown)
    if is_plan:
        return view.page("backfill", **shown | {"plan": done})
    return view.done(f"pushed {plural(len(done.runs), 'run')}", "schedules", id)


async def _found(view: View, id: str) -> Schedule | None:
    try:
        return await actions.found_of(view.call, id)
    except ScheduleNotFound:
        if view.call.is_limited:
            raise
        return None


def with_remarks(one: Schedule, times: Iterable[datetime]) -> Iterator[tuple[int, int, str]]:
    """
    Yield due and nominal time (ms) of each of *times*, with a remark where the clocks of the schedule's zone change
    between two of them.
    """
    offset = None
    for at in (each.astimezone(shown_zone(one.tz)) for each in times):
        remark = ""
        if offset is not None and at.utcoffset() != offset:
            remark = f"the clocks of {one.tz} have changed to UTC{at.isoformat()[-6:]}"
        offset, due_ms = at.utcoffset(), to_ms(at)
        yield due_ms, nominal_time(one, due_ms) if one.jitter_ms else due_ms, remark


def _fields(view: View, one: Schedule) -> Any:
    """Yield names and texts of the definition, without arguments for those who may not see them."""
    for name, text in definition_of(one, lambda ms: view.local(ms, one.tz)):
        if view.account.sees_arguments or name not in ("args", "kwargs"):
            yield name, text


def instant_of(name: str, text: str, tz: str) -> datetime | None:
    """Return a time of a form as an instant, None for no text. Raises InvalidSchedule."""
    at = rfc3339(name, text.replace(" ", "T") or None)
    return None if at is None else from_ms(instant_ms(name, at, tz))
