"""
Many schedules in one request: ``/schedules:batch`` puts rows; ``:pause``, ``:resume``, ``:release`` and ``:cancel``
change the schedules that a filter finds.

A batch has a line of JSON for each row, and its answer a line for each::

    body ─► rows that have come ─► a bulk put ─► results, kept until the caller reads them ─► answer

No connection to Redis is held while the body comes. A caller may send the whole body before it reads the answer: the
results of about 100,000 rows are kept. A refused row stops no other row. A lost Redis ends the answer with its error.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final, cast

import structlog
from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from zsched.core.options.arguments import ScheduleFilters
from zsched.core.options.choices import Missed
from zsched.core.options.table import ScheduleRow
from zsched.core.runs.job import CALLBACKS
from zsched.core.runs.run_id import ID
from zsched.core.wording import LONGEST_NAME
from zsched.errors import InvalidSchedule, ZschedError
from zsched.web import actions, schemas
from zsched.web.access import Caller
from zsched.web.answers import STREAMED, JsonAnswer, Problem
from zsched.web.calls import Admitted, Body, routes
from zsched.web.reading import call_options, func_of, only, parsed, read_lines, read_rows, with_times

log = structlog.get_logger(__name__)
router = routes("many schedules")


@router.post("/schedules:batch", **schemas.batch("Put many schedules."))
async def put_schedules(request: Request, call: Admitted) -> Response:
    """
    Put the schedules in the body: a line of JSON each (NDJSON), with `func` and options. A row without `id` gets one.
    The answer has a line for each row, with its number. The lines come as the rows are done. A JSON array of rows
    (`application/json`) gets an array.
    """
    call.demand_write()
    answer = BatchResponse(request, call)
    if not request.headers.get("content-type", "").lower().startswith("application/json"):
        return answer
    rows = await read_rows(request)
    told = await answer.put([json.dumps(row).encode() for row in ([rows] if isinstance(rows, dict) else rows)], 0)
    if isinstance(rows, dict):  # a line, after all
        return Response(f"{told[0]}\n", media_type=schemas.LINES)
    return Response(f"[{', '.join(told)}]", media_type="application/json")


@router.post("/schedules:pause", **schemas.bulk("Pause the schedules that a filter finds.", note=str, until=str))
async def pause_schedules(call: Admitted, body: Body) -> Response:
    """Pause the active schedules that `filter` finds; `until` a time with an offset. `dry_run` only counts them."""
    return await _change(call, "pause", body)


@router.post("/schedules:resume", **schemas.bulk("Resume the schedules that a filter finds.", missed=Missed))
async def resume_schedules(call: Admitted, body: Body) -> Response:
    """Resume the paused schedules that `filter` finds, 200 a second; `missed` is fire or skip."""
    return await _change(call, "resume", body)


@router.post(
    "/schedules:release", **schemas.bulk("Release the quarantined schedules that a filter finds.", missed=Missed)
)
async def release_schedules(call: Admitted, body: Body) -> Response:
    """Put the quarantined schedules that `filter` finds back, 200 a second; `missed` is fire or skip."""
    return await _change(call, "release", body)


@router.post("/schedules:cancel", **schemas.bulk("Cancel the schedules that a filter finds."))
async def cancel_schedules(call: Admitted, body: Body) -> Response:
    """Cancel the schedules that `filter` finds: they never fire again. `dry_run` only counts them."""
    return await _change(call, "cancel", body)


async def _change(call: Admitted, action: str, body: dict[str, Any]) -> Response:
    options = {name: body[name] for name in ("dry_run", "limit") if name in body}
    return JsonAnswer((await actions.change_all(call, action, _filters(body), body, **options)).to_dict())


def _filters(body: dict[str, Any]) -> dict[str, Any]:
    """Return the filters of *body*, as the client takes them. Raises InvalidSchedule."""
    given = body.get("filter")
    if not isinstance(given, dict):
        raise InvalidSchedule("filter", given, "not a filter", 'give one such as {"tag": "billing"}, or {"match": "*"}')
    return with_times(only(given, *ScheduleFilters.__annotations__))


# -- a batch ----------------------------------------------------------------------------------------

_KEPT: Final = 200  # parts of the answer that wait until the caller reads them; a part has some 500 rows
_REMEMBERED: Final = 100  # functions that were found to be allowed
_END: Final = b""

_Row = tuple[int, dict[str, Any]]  # its place in a part of the body, and its options


class BatchResponse(Response):
    """The answer to a batch: it reads the body of *request*, and puts its rows for *call*."""

    media_type = schemas.LINES

    def __init__(self, request: Request, call: Caller) -> None:
        super().__init__(headers=STREAMED)
        del self.headers["content-length"]
        self._request, self._call = request, call
        self._results = asyncio.Queue[bytes](_KEPT)
        self._allowed = set[str]()  # functions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, as ASGI has it."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._put_all())
                while (lines := await self._results.get()) != _END:
                    await send({"type": "http.response.body", "body": lines, "more_body": True})
        except* TimeoutError:  # without the end of the answer, the server ends the connection
            log.warning("batch_not_read", path=self._request.url.path)
        else:
            await send({"type": "http.response.body", "body": b""})

    async def _put_all(self) -> None:
        """Put all rows. Raises TimeoutError: the caller does not read the answer."""
        number = 0
        try:
            async for lines in read_lines(self._request):
                await self._keep(await self.put(lines, number))
                number += len(lines)
        except TimeoutError:
            raise
        except Exception as error:
            if not isinstance(error, ZschedError | Problem):
                log.error("request_failed", path=self._request.url.path, exc_info=error)
            await self._keep([json.dumps({"error": Problem.from_error(error).short})])
        await self._keep([])

    async def _keep(self, lines: list[str]) -> None:
        """Keep *lines* for the answer; none: it ends. Raises TimeoutError."""
        async with asyncio.timeout(self._request.app.state.settings.web.timeout_s):
            await self._results.put("".join(line + "\n" for line in lines).encode() if lines else _END)

    async def put(self, lines: list[bytes], first: int) -> list[str]:
        """Put the rows in *lines*; the first one has the number *first*. Return a line for each."""
        told, rows = list[str]([""]) * len(lines), list[_Row]()
        for place, line in enumerate(lines):
            try:
                rows.append((place, self._read(line)))
            except (ZschedError, Problem) as error:
                told[place] = _refused(first + place, None, error)
        for some in _without_repeated_ids(rows) if self._call.is_limited else [rows]:
            kept = await self._guarded(some, first, told) if self._call.is_limited else some
            many = await self._call.client.schedule_many((cast(ScheduleRow, row) for _, row in kept), errors="return")
            for (place, _), id, outcome in zip(kept, many.ids, many.outcomes, strict=True):
                told[place] = f'{{"row": {first + place}, "id": "{id}", "outcome": "{outcome}"}}'
            for number, refusal in many.errors:
                place, row = kept[number]
                told[place] = _refused(first + place, row, refusal)
        return told

    def _read(self, line: bytes) -> dict[str, Any]:
        """Return the row in *line*. Raises Problem, InvalidSchedule."""
        row = call_options(parsed(line))
        func = row.get("func")
        is_known = isinstance(func, str) and func in self._allowed
        if self._call.is_limited or not is_known or not CALLBACKS.keys().isdisjoint(row):
            path = func_of(dict(row))
            self._call.demand_new(path, row)
            if len(self._allowed) < _REMEMBERED and len(path) <= LONGEST_NAME:
                self._allowed.add(path)
        return row

    async def _guarded(self, rows: list[_Row], first: int, told: list[str]) -> list[_Row]:
        """Return the rows that a limited caller may put. The others are refused in *told*."""
        ids = [row["id"] for _, row in rows if isinstance(row.get("id"), str) and ID.fullmatch(row["id"])]
        present = {schedule.id: schedule async for schedule in self._call.client._get_many(ids)}
        kept = list[_Row]()
        for place, row in rows:
            try:
                kept.append((place, self._call.guarded(row, present.get(row["id"])) if row.get("id") in ids else row))
            except Problem as error:
                told[place] = _refused(first + place, row, error)
        return kept


def _refused(number: int, row: dict[str, Any] | None, error: Exception) -> str:
    """Return the line of a refused row; *row*: None if it could not be read."""
    id = None if row is None else row.get("id")
    named = {"row": number, "id": id} if isinstance(id, str) and len(id) <= LONGEST_NAME else {"row": number}
    return json.dumps({**named, "error": Problem.from_error(error).short})


def _without_repeated_ids(rows: list[_Row]) -> Iterator[list[_Row]]:
    """Yield *rows* in parts in which no id is twice: a schedule is looked at after the row before has changed it."""
    some, ids = list[_Row](), set[object]()
    for place, row in rows:
        id = row.get("id") if isinstance(row.get("id"), str) else None
        if id is not None and id in ids:
            yield some
            some, ids = [], set()
        some.append((place, row))
        ids.add(id)
    yield some
