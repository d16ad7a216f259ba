"""``/schedules``: create, replace, read, change and list; custom methods as AIP-136 has them."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from zsched.core.arguments import check_id
from zsched.core.model import Schedule, Scheduled
from zsched.errors import (
    NOT_GIVEN,
    Contended,
    InvalidSchedule,
    NotArchived,
    ScheduleExists,
    ScheduleNotFound,
    VersionConflict,
)
from zsched.web import schemas
from zsched.web.calls import Admitted, QueryText
from zsched.web.problems import Problem, response_of
from zsched.web.reading import aware, call_options, func_of, only, read_object, rfc3339

router = APIRouter(tags=["schedules"])

_PAGE: Final = 50
_MOST: Final = 1000
_ATTEMPTS: Final = 3
_KEY_BYTES: Final = 128  # of an Idempotency-Key
_PREVIEWED: Final = 1000


@router.put("/schedules/{id}", **schemas.put("Create or replace a schedule."))
async def put(id: str, request: Request, call: Admitted) -> Response:
    """
    Create schedule *id*, or replace it. 201: created; 200: updated or unchanged. `If-None-Match: *` only creates, and
    `If-Match` only replaces that version; else 412.
    """
    call.demand_write()
    options = call_options(await read_object(request))
    func = func_of(options)
    options["id"] = check_id(id)
    call.demand_new(func, options)
    if request.headers.get("if-none-match") == "*":
        options["if_exists"] = "error"
    elif (version := _if_match(request)) is not None:
        options["if_version"] = version
    try:
        made = await _put(call, func, options)
    except ScheduleExists as error:
        return response_of(error, 412 if request.headers.get("if-none-match") == "*" else None)
    except NotArchived as error:
        return response_of(error, 202 if error.is_in_redis else None)
    return await _told(call, made)


@router.post("/schedules", **schemas.put("Create a schedule with an id of the server's."))
async def create(request: Request, call: Admitted) -> Response:
    """
    Create a schedule; the server makes its id. It needs `Idempotency-Key`: for ten minutes the same key with the same
    body makes one schedule; with another body it is refused (422).
    """
    call.demand_write()
    key = request.headers.get("idempotency-key", "")
    if not key or len(key.encode()) > _KEY_BYTES or not key.isprintable():
        remedy = f"send Idempotency-Key with 1 to {_KEY_BYTES} bytes, such as a UUID; or PUT the schedule by its id"
        raise Problem(428, "no-idempotency-key", "the request has no good Idempotency-Key", remedy)
    body = await read_object(request)
    options = call_options(body)
    if "id" in options:
        raise InvalidSchedule("id", options["id"], "the server makes it", "PUT /api/v1/schedules/{id} takes yours")
    func = func_of(options)
    call.demand_new(func, options)
    op, id = call.operation(key, body)
    try:
        made = await call.client.schedule_as(op, func, **{**options, "id": id, "if_exists": "error"})
    except ScheduleExists:  # by this key, with another body, or more than ten minutes ago
        raise Problem(
            422, "idempotency-key-used", "this Idempotency-Key was used with another body", "send another key"
        ) from None
    return await _told(call, made)


@router.get("/schedules/{id}", **schemas.answer("Schedule", "A schedule."))
async def get(id: str, call: Admitted) -> Response:
    """Return a schedule. Its `ETag` is its version."""
    return _schedule(call, await found_of(call, id))


@router.patch("/schedules/{id}", **schemas.put("Change some options of a schedule (RFC 7396)."))
async def patch(id: str, request: Request, call: Admitted) -> Response:
    """Change the options that the body names; null sets one back to its default. Honours `If-Match`."""
    call.demand_write()
    changes = call_options(await read_object(request))
    for _ in range(_ATTEMPTS):
        found = await found_of(call, id)
        wanted = {"func": found.func, "queue": found.queue, "tags": found.tags} | changes
        call.demand_new(wanted.pop("func"), wanted)
        version = _if_match(request) or (found.version if call.is_limited else None)
        condition: dict[str, Any] = {} if version is None else {"if_version": version}
        try:
            made = await call.client.update(id, **{**changes, **condition})
        except VersionConflict:
            if _if_match(request) is not None:
                raise
            continue
        return await _told(call, made)
    raise Contended(f"schedule {id!r} was changed by another writer at every attempt; call again")


@router.delete("/schedules/{id}", **schemas.answer("Result", "What became of it."))
async def cancel(id: str, request: Request, call: Admitted) -> Response:
    """Cancel a schedule: it never fires again. Honours `If-Match`."""
    call.demand_write()
    return await _changed(call, request, id, lambda version: call.client.cancel(id, if_version=version))


@router.post("/schedules/{id}:pause", **schemas.action("Schedule", "Stop it until it is resumed.", note=str))
async def pause(id: str, request: Request, call: Admitted) -> Response:
    """Stop a schedule until it is resumed; `note` is the reason. Honours `If-Match`."""
    call.demand_write()
    note = only(await read_object(request), "note").get("note", "")
    return await _changed(call, request, id, lambda version: call.client.pause(id, note, if_version=version))


@router.post("/schedules/{id}:resume", **schemas.action("Schedule", "Resume a paused schedule.", missed=str))
async def resume(id: str, request: Request, call: Admitted) -> Response:
    """Resume a schedule; `missed` is fire or skip. Honours `If-Match`."""
    call.demand_write()
    missed = only(await read_object(request), "missed").get("missed", "fire")
    return await _changed(call, request, id, lambda version: call.client.resume(id, missed, if_version=version))


@router.post("/schedules/{id}:run", **schemas.action("Result", "Push a run at once."))
async def run(id: str, request: Request, call: Admitted) -> Response:
    """Push a run at once. A one-shot runs now instead of at its time."""
    call.demand_write()
    only(await read_object(request))
    await found_of(call, id)
    return JSONResponse({"id": id, "run_id": await call.client.run_now(id)})


@router.post(
    "/schedules/{id}:backfill", **schemas.action("Backfill", "Run past occurrences.", start=str, end=str, dry_run=bool)
)
async def backfill(id: str, request: Request, call: Admitted) -> Response:
    """Run the occurrences in [`start`, `end`) that did not run; `dry_run` only plans; `again` also those that ran."""
    call.demand_write()
    body = only(await read_object(request), "start", "end", "dry_run", "again")
    found = await found_of(call, id)
    call.demand_new(found.func, {"queue": found.queue, "tags": found.tags})
    times = {name: rfc3339(name, body.pop(name, None)) for name in ("start", "end")}
    for name, at in times.items():
        if at is None:
            raise InvalidSchedule(name, NOT_GIVEN, "it is missing", "give start and end, in the past")
    done = await call.client.backfill(id, *times.values(), **body)  # type: ignore[arg-type]  # both are given
    return JSONResponse(done.to_dict())


@router.get("/schedules/{id}/story", **schemas.answer("Story", "What happened to it, and why."))
async def story(id: str, call: Admitted, tz: QueryText = None) -> Response:
    """Return what `zsched why` tells: created, changed, fired, skipped and why, and the next time."""
    if call.is_limited:
        await found_of(call, id)
    return JSONResponse((await call.client.why(id, tz)).to_dict())


@router.get("/schedules", **schemas.page("Schedule", "Schedules, by their due time."))
async def list_(
    call: Admitted,
    state: QueryText = None,
    kind: QueryText = None,
    func: QueryText = None,
    queue: QueryText = None,
    tag: QueryText = None,
    owner: QueryText = None,
    match: QueryText = None,
    due_after: QueryText = None,
    due_before: QueryText = None,
    page_size: Annotated[int, Query(ge=1, le=_MOST)] = _PAGE,
    page_token: QueryText = None,
) -> Response:
    """List schedules. `page_token` is the `next_page_token` of the page before, with the same filters."""
    found, after = list[Schedule](), None if page_token is None else _cursor(page_token)
    listing = call.client.list(
        state=state, kind=kind, func=func, queue=queue, tag=tag, owner=owner, match=match, after=after,
        due_after=aware("due_after", due_after), due_before=aware("due_before", due_before),
    )  # fmt: skip
    token = None
    async for schedule in listing:
        if not call.sees(schedule):
            continue
        if len(found) == page_size:
            token = _page_token(found[-1].cursor)
            break
        found.append(schedule)
    shown = [call.shown(schedule.to_dict()) for schedule in found]
    return JSONResponse({"schedules": shown, "next_page_token": token})


@router.post("/preview", **schemas.action("Preview", "The next times of a rule.", n=int, start=str))
async def preview(request: Request, call: Admitted) -> Response:
    """Return the next `n` times of a rule (every, cron, rrule, tz …) or of a schedule's `id`."""
    body = call_options(await read_object(request))
    n, start, id = body.pop("n", 10), body.pop("start", None), body.pop("id", None)
    if isinstance(n, int) and n > _PREVIEWED:
        raise InvalidSchedule("n", n, "too many times for one answer", f"give 1 to {_PREVIEWED}")
    if id is not None:
        await found_of(call, id)
    times = await call.client.preview(id, n=n, start=aware("start", start), **body)
    return JSONResponse({"times": [at.isoformat() for at in times]})


# -- how --------------------------------------------------------------------------------------------


async def _put(call: Admitted, func: Any, options: dict[str, Any]) -> Scheduled:
    """Put a schedule. Of a limited caller, the present one must be within the limits, and stay until it is replaced."""
    if not call.is_limited:
        return await call.client.schedule(func, **options)
    for _ in range(_ATTEMPTS):
        present = [schedule async for schedule in call.client.get_many([options["id"]])]
        guarded = call.guarded(options, present[0] if present else None)
        try:
            return await call.client.schedule(func, **guarded)
        except (VersionConflict, ScheduleExists):
            if guarded is options:
                raise
    raise Contended(f"schedule {options['id']!r} was changed by another writer at every attempt; call again")


async def found_of(call: Admitted, id: str) -> Schedule:
    """Return schedule *id*, which this caller may see. Raises ScheduleNotFound, Problem."""
    found = await call.client.get(check_id(id))
    call.demand(found)
    return found


async def _changed(call: Admitted, request: Request, id: str, change: Any) -> Response:
    """Change schedule *id* by *change*, which takes a version, and tell the result."""
    version = _if_match(request)
    if call.is_limited:
        found = await found_of(call, id)
        version = version or found.version
    done = await change(version)
    if isinstance(done, Schedule):
        return _schedule(call, done)
    if done == "not_found":
        raise ScheduleNotFound(f"no schedule {id!r}")
    return JSONResponse({"id": id, "outcome": done})


async def _told(call: Admitted, made: Scheduled) -> Response:
    """Tell the result of a put, with the version of the schedule."""
    version = made.version
    if version is None and made.outcome in ("unchanged", "kept"):
        version = (await call.client.get(made.id)).version
    headers = {} if version is None else {"ETag": f'"{version}"'}
    headers["Location"] = f"/api/v1/schedules/{made.id}"
    status = 201 if made.outcome == "created" else 200
    return JSONResponse({**made.to_dict(), "version": version}, status, headers)


def _schedule(call: Admitted, found: Schedule) -> Response:
    headers = {} if found.version is None else {"ETag": f'"{found.version}"'}
    return JSONResponse(call.shown(found.to_dict()), headers=headers)


def _if_match(request: Request) -> str | None:
    """Return the version in If-Match; None: there is no condition. Raises Problem."""
    given = request.headers.get("if-match")
    if given is None:
        return None
    if len(given) < 3 or given[0] != '"' or given[-1] != '"':
        raise Problem(400, "bad-condition", f"If-Match: {given[:100]} is not an ETag", 'send If-Match: "<version>"')
    return given[1:-1]


def _page_token(cursor: str) -> str:
    return base64.urlsafe_b64encode(cursor.encode()).decode().rstrip("=")


def _cursor(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except (binascii.Error, ValueError):
        raise InvalidSchedule("page_token", token, "not a token of a page", "send the last next_page_token") from None
