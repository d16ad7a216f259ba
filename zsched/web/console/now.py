"""
The first page: is all well, what happens now, and what failed lately; and the search for an id. What is costly is read
once for all viewers who look at about the same time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final, Generic, TypeVar

from fastapi import APIRouter, FastAPI
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.aio.client import AsyncClient
from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.replacements import Replacements
from zsched.core.runs.run_id import RunId
from zsched.errors import InvalidSchedule, ScheduleNotFound, ZschedError
from zsched.health.status import StatusView
from zsched.web.console.drawing import bars_of
from zsched.web.console.view import Viewed, within
from zsched.web.events import streamed
from zsched.web.runs import replaced_since

router = APIRouter(include_in_schema=False)
T = TypeVar("T")

_CHART_MS: Final = 1_800_000
_BAR_MS: Final = 60_000
_STATUS_OLD_S: Final = 0.3  # a page waits so long after a change (console.js), so it never gets an older state
_CHART_OLD_S: Final = 10.0
_REPLACEMENTS_OLD_S: Final = 5.0
_PATIENCE_S: Final = 3.0  # of a page, for each of both: an archive has 2
_MOST_S: Final = 60.0  # age of both while they are read again: that asks an archive, and takes up to two seconds


class Shared(Generic[T]):
    """
    The result of *read*, at most *old_s* seconds old, one reading at a time; while it is read again, the last one if
    that is at most *most_s* seconds old. An error is not kept: the next viewer reads again.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], old_s: float, most_s: float = 0.0) -> None:
        self._read, self._old_s, self._most_s = read, old_s, most_s
        self._reading: asyncio.Task[None] | None = None
        self._last: tuple[float, T] | None = None  # when its reading began

    async def get(self) -> T:
        """Return a result whose reading began so many seconds before this call. Raises what *read* raises."""
        asked_s = _now_s()
        while (last := self._last) is None or last[0] < asked_s - self._old_s:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._keep())
                self._reading.add_done_callback(lambda reading: reading.cancelled() or reading.exception())  # seen
            if last is not None and last[0] >= asked_s - self._most_s:
                break
            await asyncio.shield(self._reading)
        return last[1]

    async def in_time(self, patience_s: float, otherwise: T) -> T:
        """Return what ``get`` returns, or *otherwise* if that takes longer; the reading continues. Raises as it."""
        try:
            async with asyncio.timeout(patience_s):
                return await self.get()
        except TimeoutError:
            return otherwise

    async def _keep(self) -> None:
        began_s = _now_s()
        self._last = began_s, await self._read()


def _now_s() -> float:
    return asyncio.get_running_loop().time()


class Pulse:
    """
    The state of the namespace, read once for all viewers. ``status`` returns the verdict and the facts (raises
    RedisUnavailable, RedisRefused), ``chart`` a bar for each of the last minutes, and ``replacements`` the retries of
    the last half hour; neither has any if it is not known in time.
    """

    def __init__(self, app: FastAPI) -> None:
        self._state = app.state
        self.status: Callable[[], Awaitable[StatusView]] = Shared(lambda: run(self._state.look), _STATUS_OLD_S).get
        chart = Shared(self._counted, _CHART_OLD_S, _MOST_S)
        replacements = Shared(self._replaced, _REPLACEMENTS_OLD_S, _MOST_S)
        self.chart = partial(chart.in_time, _PATIENCE_S, [])
        self.replacements = partial(replacements.in_time, _PATIENCE_S, Replacements())

    async def _replaced(self) -> Replacements:
        with suppress(ZschedError):
            return await replaced_since(self._state.client, self._state.clock.now_ms() - _CHART_MS)
        return Replacements()

    async def _counted(self) -> list[dict[str, Any]]:
        end_ms = (self._state.clock.now_ms() // _BAR_MS + 1) * _BAR_MS
        start, end = from_ms(end_ms - _CHART_MS), from_ms(end_ms)
        with suppress(ZschedError):
            return bars_of(await self._state.client.timeline(start, end, timedelta(milliseconds=_BAR_MS)))
        return []


@router.get("/")
async def now(view: Viewed) -> Response:
    """Show the verdict, the daemons, the last and the next minutes, and the latest failures."""
    if view.call.is_limited:
        return view.to("schedules")
    pulse: Pulse = view.request.app.state.pulse
    bars = await pulse.chart()  # the first viewer may wait for an archive: the state comes after that
    status = await pulse.status()
    replacements = await pulse.replacements() if status.recent.failures else Replacements()
    return view.page("now", status=status, bars=bars, replacements=replacements, What=What)


@router.get("/news")
async def news(view: Viewed) -> Response:
    """Stream a word after changes, for live pages: they read again then."""
    view.call.demand_all("the log")
    return await streamed(view.request, view.request.app.state.events.news())


@router.get("/find")
async def find(view: Viewed, q: str = "") -> Response:
    """Lead to the schedule or run of this id, if there is one; else to the list of ids with this text."""
    text = q.strip()
    try:
        if view.call.is_limited:
            return view.to("schedules", (await view.call.client.get(text)).id)
        story = await view.call.client.why(text)
    except (InvalidSchedule, ScheduleNotFound):  # it cannot be an id, or is not for this caller
        return view.to("schedules", match=text)
    if not story.is_known:
        return view.to(await _list_with(view.call.client, within(text)), match=text)
    is_run = RunId.parse(text) is not None and all(change.id != text for change in story.changes)
    return view.to("runs" if is_run else "schedules", text)


async def _list_with(client: AsyncClient, match: str) -> str:
    """Return the list that has ids like *match*: of runs if no schedule has one, as what is over leaves its runs."""
    is_there = [one async for one in client.list(match=match, limit=1)]
    return "schedules" if is_there or not await client.runs(None, None, 1, match=match) else "runs"
