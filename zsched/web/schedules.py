"""``/schedules``: create, replace, read, change and list; custom methods as AIP-136 has them."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Query, Request
from starlette.responses import Response

from zsched.aio.bridge import run as run_apart
from zsched.core.listing import LISTED_KINDS
from zsched.core.model import Schedule, Scheduled
from zsched.core.options.arguments import check_id
from zsched.core.options.checked import USUAL_ARGUMENTS
from zsched.core.options.choices import Missed, ScheduleState
from zsched.core.options.forms import SCHEDULE_ID
from zsched.core.options.table import RuleOptions
from zsched.errors import InvalidSchedule, NotArchived, ScheduleExists, ScheduleNotFound, VersionConflict
from zsched.storage.refusals import NO_VERSION, contended
from zsched.web import actions, calls, schemas
from zsched.web.actions import found_of
from zsched.web.answers import JsonAnswer, Problem
from zsched.web.calls import Admitted, Body, Filters, PathId, QueryText, QueryTime, routes
from zsched.web.reading import aware, call_options, func_of, read_object, rfc3339

router = routes("schedules")

_PAGE: Final = 50
_MOST: Final = 1000
_ONE: Final = "/schedules/{id:plain}"
_Route: TypeAlias = Callable[..., Awaitable[Response]]
_IF_MATCH: Final = ("If-Match",)
_PREVIEWED: Final = 1000


@router.put(
    _ONE,
    **schemas.put("Create or replace a schedule.", "If-Match", "If-None-Match: *", "Idempotency-Key"),
)
async def put_schedule(id: PathId, request: Request, call: Admitted) -> Response:
    """
    Create schedule *id*, or replace it. 201: created; 200: updated or unchanged. `If-None-Match: *` only creates, and
    `If-Match` only replaces that version; else 412. With `after`, the time counts from the request: with the same
    `Idempotency-Key`, a request that is sent again within ten minutes does nothing.
    """
    call.demand_write()
    body = await read_object(request)
    given = [request.headers.get(name) for name in ("if-match", "if-none-match")]
    op, _ = await calls.operation_of(request, call, {"id": id, "conditions": given, "body": body})
    options = call_options(body)
    func = func_of(options)
    if options.setdefault("id", check_id(id)) != id:
        raise InvalidSchedule("id", options["id"], f"the path has {id!r}", "give the same id, or leave it out")
    call.demand_new(func, options)
    is_new, version = calls.only_creates(request), calls.if_match(request, options)
    if is_new:
        options["if_exists"] = "error"
    elif version is not None:
        options["if_version"] = version
    try:
        return await _made(call, _put(call, func, options, op, must_exist=request.headers.get("if-match") == "*"))
    except ScheduleExists as error:
        return Problem.from_error(error, 412 if is_new else None).response()


@router.post("/schedules", **schemas.put("Create a schedule with an id of the server's.", "Idempotency-Key!"))
async def create_schedule(request: Request, call: Admitted) -> Response:
    """
    Create a schedule; the server makes its id. It needs `Idempotency-Key`: for ten minutes the same key with the same
    body makes one schedule; with another body it is refused (422).
    """
    call.demand_write()
    if "idempotency-key" not in request.headers:
        remedy = f"{calls.GIVE_A_KEY}; or PUT the schedule by its id"
        raise Problem(428, "no-idempotency-key", "the request has no Idempotency-Key", remedy)
    body = await read_object(request)
    op, id = await calls.operation_of(request, call, body)
    options = call_options(body)
    if "id" in options:
        raise InvalidSchedule("id", options["id"], "the server makes it", "PUT /api/v1/schedules/{id} takes yours")
    func = func_of(options)
    call.demand_new(func, options)
    try:
        given = {**options, "id": id, "if_exists": "error"}
        return await _made(call, call.client._schedule_as(op or "", func, **given))
    except ScheduleExists:  # by this key, with another body, or more than ten minutes ago
        raise Problem(
            422, "idempotency-key-used", "this Idempotency-Key was used with another body", "send another key"
        ) from None


@router.get(_ONE, **schemas.route("A schedule.", "Schedule", ["If-None-Match"]))
async def get_schedule(id: PathId, request: Request, call: Admitted) -> Response:
    """Return a schedule; 304 if `If-None-Match` has its present `ETag`."""
    return calls.unless_known(request, _schedule(call, await found_of(call, id)))


@router.patch(
    _ONE,
    **schemas.change("Change some options of a schedule (RFC 7396).", "If-Match"),
)
async def update_schedule(
    id: PathId,
    request: Request,
    call: Admitted,
    dry_run: Annotated[bool, Query(description="Change nothing; return the difference in times.")] = False,
) -> Response:
    """Change the options that the body names; null sets one back to its default. Honours `If-Match`."""
    call.demand_write()
    body = call_options(await read_object(request))
    changes = {name: USUAL_ARGUMENTS.get(name) if value is None else value for name, value in body.items()}
    version = calls.if_match(request, changes)
    if dry_run:
        return JsonAnswer((await actions.update(call, id, changes, version, call.client.difference)).to_dict())
    return await _told(call, await actions.update(call, id, changes, version, call.client.update))


@router.delete(_ONE, **schemas.route("What became of it.", "Result", _IF_MATCH, failures=schemas.FAILED_WRITES))
async def cancel_schedule(id: PathId, request: Request, call: Admitted) -> Response:
    """Cancel a schedule: it never fires again. Honours `If-Match`."""
    return JsonAnswer({"id": id, "outcome": await actions.change(call, "cancel", id, {}, calls.if_match(request))})


def _action(name: str, summary: str, answer: str = "Schedule", **members: Any) -> Callable[[_Route], _Route]:
    """Return the decorator of a route that changes one schedule."""
    return router.post(f"{_ONE}:{name}", **schemas.action(summary, answer, _IF_MATCH, **members))


@_action("pause", "Stop it until it is resumed.", note=str, until=str)
async def pause_schedule(id: PathId, request: Request, call: Admitted, body: Body) -> Response:
    """Stop a schedule until it is resumed, or `until` a time; `note` is the reason. Honours `If-Match`."""
    return await _change(call, "pause", id, body, request)


@_action("skip", "Skip occurrences to come.", at=str, next=int, note=str)
async def skip_occurrences(id: PathId, request: Request, call: Admitted, body: Body) -> Response:
    """Skip the occurrence `at` a time, or the `next` ones; `note` is the reason. Honours `If-Match`."""
    return await _change(call, "skip", id, body, request)


@_action("unskip", "Take back a skip.", at=str, note=str)
async def unskip_occurrences(id: PathId, request: Request, call: Admitted, body: Body) -> Response:
    """Take back the skip of the occurrence `at` a time, or all skips. Honours `If-Match`."""
    return await _change(call, "unskip", id, body, request)


@_action("resume", "Resume a paused schedule.", "Resumed", missed=Missed)
async def resume_schedule(id: PathId, request: Request, call: Admitted, body: Body) -> Response:
    """Resume a schedule; `missed` is fire or skip. Honours `If-Match`."""
    return await _change(call, "resume", id, body, request)


@_action("release", "Release a quarantined schedule.", "Resumed", missed=Missed)
async def release_schedule(id: PathId, request: Request, call: Admitted, body: Body) -> Response:
    """Put a quarantined schedule back; `missed` is fire or skip. Honours `If-Match`."""
    return await _change(call, "release", id, body, request)


@router.post(f"{_ONE}:run", **schemas.action("Push a run at once.", "Result", ("Idempotency-Key",)))
async def run_schedule(id: PathId, request: Request, call: Admitted, body: Body) -> Response:
    """
    Push a run at once. A one-shot runs now instead of at its time. With the same `Idempotency-Key`, a request that is
    sent again within ten minutes pushes no other run.
    """
    op, _ = await calls.operation_of(request, call, {"run": id})
    if request.state.is_replay:  # a one-shot is gone by now
        return JsonAnswer({"id": id, "run_id": await call.client._run_now_as(op, id, NO_VERSION)})
    return JsonAnswer({"id": id, "run_id": await actions.run_now(call, id, op, **body)})


@router.post(
    f"{_ONE}:backfill",
    **schemas.action("Run past occurrences.", "Backfill", start=str, end=str, dry_run=bool, again=bool),
)
async def backfill_schedule(id: PathId, call: Admitted, body: Body) -> Response:
    """Run the occurrences in [`start`, `end`) that did not run; `dry_run` only plans; `again` also those that ran."""
    start, end = (rfc3339(name, body.pop(name, None)) for name in ("start", "end"))
    return JsonAnswer((await actions.backfill(call, id, start, end, **body)).to_dict())


@router.get(f"{_ONE}/story", **schemas.route("What happened to it, and why.", "Story"))
async def get_story(id: str, call: Admitted, tz: QueryText = None) -> Response:
    """Return the story of `zsched why`: created, changed, fired, skipped and why, and the next time."""
    if call.is_limited:
        await found_of(call, id)
    return JsonAnswer((await call.client.why(id, tz)).to_dict())


@router.get(
    "/schedules", **schemas.page("Schedules, by their due time.", "Schedule", "schedules", is_empty={"type": "boolean"})
)
async def list_schedules(
    request: Request,
    call: Admitted,
    filters: Filters,
    state: Annotated[str | None, Query(json_schema_extra=schemas.choice_of([*ScheduleState, None]))] = None,
    kind: Annotated[str | None, Query(json_schema_extra=schemas.choice_of([*LISTED_KINDS, None]))] = None,
    due_after: QueryTime = None,
    due_before: QueryTime = None,
    page_size: Annotated[int, Query(ge=1, le=_MOST)] = _PAGE,
    page_token: QueryText = None,
) -> Response:
    """List schedules. `page_token` is the `next_page_token` of the page before, with the same filters."""
    listing = call.client.list(
        state=state, kind=kind, after=page_token, due_after=aware("due_after", due_after),
        due_before=aware("due_before", due_before), limit=page_size + 1, **filters,
    )  # fmt: skip
    found = [schedule async for schedule in listing]
    token = found[page_size - 1].cursor if len(found) > page_size else None
    shown = [call.shown(call.own(schedule).to_dict()) for schedule in found[:page_size]]
    is_empty = not found and await run_apart(request.app.state.is_empty)
    return JsonAnswer({"schedules": shown, "next_page_token": token, "is_empty": is_empty})


@router.post(
    "/preview",
    **schemas.action(
        "The next times of a rule.", "Preview", (), RuleOptions.__annotations__, n=int, start=str, id=SCHEDULE_ID.schema
    ),
)
async def preview_times(request: Request, call: Admitted) -> Response:
    """Return the next `n` times of a rule (every, cron, rrule, tz …) or of a schedule's `id`."""
    body = call_options(await read_object(request))
    n, start, id = body.pop("n", 10), body.pop("start", None), body.pop("id", None)
    if isinstance(n, int) and n > _PREVIEWED:
        raise InvalidSchedule("n", n, "too many times for one answer", f"give 1 to {_PREVIEWED}")
    times = await call.client.preview(id, n=n, start=aware("start", start), **body)
    return JsonAnswer({"times": [at.isoformat() for at in times]})


# -- how --------------------------------------------------------------------------------------------


async def _put(
    call: Admitted, func: Any, options: dict[str, Any], op: str | None, *, must_exist: bool = False
) -> Scheduled:
    """
    Put a schedule, as the operation *op* if any. Of a limited caller, the present one must be within the limits, and
    stay until it is replaced; likewise one that *must_exist*.
    """
    schedule = call.client.schedule if op is None else partial(call.client._schedule_as, op)
    if not call.is_limited and not must_exist:
        return await schedule(func, **options)
    for _ in range(actions.ATTEMPTS):
        present = [schedule async for schedule in call.client._get_many([options["id"]])]
        if must_exist and not present:
            raise VersionConflict(options["id"], "*", None)
        guarded = call.guarded(options, present[0] if present else None)
        try:
            return await schedule(func, **guarded)
        except (VersionConflict, ScheduleExists):
            if guarded is options:
                raise
    raise contended(options["id"])


async def _made(call: Admitted, putting: Awaitable[Scheduled]) -> Response:
    """Tell the result of a put; also that only Redis has the schedule, or that nothing has."""
    try:
        return await _told(call, await putting)
    except NotArchived as error:
        if error.scheduled is None:
            return Problem.from_error(error).response()
        return JsonAnswer({**error.scheduled.to_dict(), "archived": False}, 202)


async def _told(call: Admitted, made: Scheduled) -> Response:
    """Tell the result of a put, with the version of the schedule."""
    version = made.version
    if version is None and made.outcome in ("unchanged", "kept"):
        with suppress(ScheduleNotFound):  # it has fired since
            version = (await call.client.get(made.id)).version
    headers = {**calls.etag(version), "Location": f"/api/v1/schedules/{made.id}"}
    status = 201 if made.outcome == "created" else 200
    return JsonAnswer({**made.to_dict(), "version": version}, status, headers)


async def _change(call: Admitted, action: str, id: str, body: dict[str, Any], request: Request) -> Response:
    done = await actions.change(call, action, id, body, calls.if_match(request))
    return _schedule(call, done) if isinstance(done, Schedule) else JsonAnswer({"id": id, "outcome": None})


def _schedule(call: Admitted, found: Schedule) -> Response:
    return calls.tagged(JsonAnswer(call.shown(call.own(found).to_dict())), found.version)
