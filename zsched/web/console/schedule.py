"""One schedule: its story, its next times, its last occurrences and its definition; and actions on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from zsched.core.clock import from_ms, to_ms
from zsched.core.model import Schedule
from zsched.core.occurrences.backfill import Backfill
from zsched.core.occurrences.planning import nominal_time
from zsched.core.occurrences.replacements import Replacements
from zsched.core.options.checked import definition_of
from zsched.core.options.choices import Missed
from zsched.core.triggers.zones import instant_ms, shown_zone
from zsched.core.wording import plural
from zsched.errors import InvalidSchedule, ScheduleNotFound, ZschedError
from zsched.web import actions
from zsched.web.console.drawing import mark_of, words_of
from zsched.web.console.view import View, Viewed
from zsched.web.reading import read_form
from zsched.web.runs import replaced_since

router = APIRouter(include_in_schema=False)

_COMING: Final = 20
_PAST: Final = 20
_SHOWN: Final = 100  # occurrences of a planned backfill
_DONE: Final = {**actions.ACTIONS, "skip": "skipped", "unskip": "taken back"}
_WITHOUT_ARGUMENTS: Final = ("args", "kwargs")


@dataclass(frozen=True, slots=True)
class Coming:
    """An occurrence to come: due and nominal time, and a remark on the clock."""

    due_ms: int
    nominal_ms: int
    remark: str


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
        coming=[] if found is None else with_remarks(found, await client._coming(found, _COMING)),
        past=[(mark_of(each), each, words_of(each), replacements.of(each)) for each in past],
        after=past.after,
        fields=[] if found is None else list(_fields(view, found)),
        missed=[each.value for each in Missed],
    )


@router.post("/schedules/{id:plain}:{action}")
async def act(view: Viewed, id: str, action: str, request: Request) -> Response:
    """Pause, resume, release, run or cancel a schedule."""
    view.call.demand_write()
    form = await read_form(request)
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
        try:
            done = await _backfill(view, id, form)
        except ZschedError as error:
            return await _backfill_page(view, id, form, error=error)
        return view.done(f"pushed {plural(len(done.runs), 'run')}", "schedules", id)
    raise actions.unknown_action(action, "use the buttons of the schedule's page")


@router.get("/schedules/{id:plain}/backfill")
async def plan_backfill(view: Viewed, id: str, request: Request) -> Response:
    """Show which occurrences a backfill would run, and ask."""
    given = request.query_params
    try:
        plan = await _backfill(view, id, given, dry_run=True) if given.get("start") or given.get("end") else None
    except ZschedError as error:
        return await _backfill_page(view, id, given, error=error)
    return await _backfill_page(view, id, given, plan=plan)


async def _backfill_page(
    view: View, id: str, given: Mapping[str, str], *, plan: Backfill | None = None, error: ZschedError | None = None
) -> Response:
    """Show the form with the *given* texts, and below it the *plan*; or the *error*."""
    found = await actions.found_of(view.call, id)
    shown: dict[str, Any] = {"one": found, "plan": plan, "most": _SHOWN, "given": given, "zone": view.zone(found.tz)}
    return view.page("backfill", **shown) if error is None else view.refused(error, "backfill", **shown)


async def _found(view: View, id: str) -> Schedule | None:
    try:
        return await actions.found_of(view.call, id)
    except ScheduleNotFound:
        if view.call.is_limited:
            raise
        return None


def with_remarks(one: Schedule, times: Iterable[datetime]) -> list[Coming]:
    """Return *times* with remarks where the clocks of the schedule's zone change between two of them."""
    found, offset = list[Coming](), None
    for at in (each.astimezone(shown_zone(one.tz)) for each in times):
        remark = ""
        if offset is not None and at.utcoffset() != offset:
            remark = f"the clocks of {one.tz} have changed to UTC{at.isoformat()[-6:]}"
        offset, due_ms = at.utcoffset(), to_ms(at)
        found.append(Coming(due_ms, nominal_time(one, due_ms) if one.jitter_ms else due_ms, remark))
    return found


def _fields(view: View, one: Schedule) -> Any:
    """Yield names and texts of the definition, without arguments for those who may not see them."""
    for name, text in definition_of(one, lambda ms: view.local(ms, one.tz)):
        if view.account.sees_arguments or name not in _WITHOUT_ARGUMENTS:
            yield name, text


async def _backfill(view: View, id: str, given: Mapping[str, str], **options: Any) -> Backfill:
    """Backfill from ``start`` to ``end``, times of a page's form: local in the zone of the page."""
    found = await actions.found_of(view.call, id)
    start, end = (instant_of(name, given.get(name, ""), view.zone(found.tz)) for name in ("start", "end"))
    return await actions.backfill(view.call, id, start, end, **options)


def instant_of(name: str, text: str, tz: str) -> datetime | None:
    """Return a time of a form as an instant, None for no text. Raises InvalidSchedule."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidSchedule(name, text, "not a time", "give one such as 2026-12-24T18:00") from None
    return from_ms(instant_ms(name, at, tz))
