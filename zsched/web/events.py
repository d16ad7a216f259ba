"""
All changes of the namespace: ``/log``, and ``/events``: every one as a server-sent event, resumed by ``Last-Event-ID``.

::

    the log ─► one reader per process ─► the last thousands of events ─► a stream per client

``id`` is ``<epoch>-<seq>-<t>``, as entries of two histories may share an id. A client that gives the last id it has
seen gets all later events: from memory, else from the log in Redis. If the log does not hold that very entry, because
it was trimmed or Redis was lost, the client gets ``event: reset`` and the events from then on: it should read again
what it shows. The same happens to all clients when a new history begins.

A stream begins with the id of its position, without data. So a client that is cut off before its first event can
resume, too. Only an empty log has no such id.

Events come in groups, up to 100 ms after their entries. A silent stream has an ``event: beat`` every 5 seconds: where
it does not come, the server hangs, or waits for Redis.

Live pages need no events, only the word that there are some (``news``).

Not guaranteed: events of what Redis lost before the reader saw it.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
from itertools import islice
from typing import Annotated, Final, NamedTuple

import structlog
from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from zsched.aio.bridge import run
from zsched.aio.client import AsyncClient
from zsched.core.entry import Entry, Position
from zsched.core.log.shown import changes_or_problem, entry_for_json
from zsched.errors import InvalidSchedule, ZschedError
from zsched.storage.log import Log
from zsched.web import schemas
from zsched.web.answers import STREAMED, JsonAnswer, Problem
from zsched.web.calls import Admitted, QueryTime, routes
from zsched.web.reading import rfc3339

log = structlog.get_logger(__name__)
router = routes("changes")

_BEGINNING: Final = Position(0, 0, 0)  # of an empty log
_KEPT: Final = 10_000  # events in memory
_PAGE: Final = 100
_AT_ONCE: Final = 500  # events in one piece of a stream
_GATHERED_S: Final = 0.1  # streams wake once for all events of this time; 0.02 made runs later (measured)
BEAT_EVERY_S: Final = 5.0  # of a silent stream: proxies keep it, and a page sees that its server lives
_CALM_S: Final = 2.0  # at least between two words of ``news``
_LOOK_S: Final = 1.0  # at most between two looks at the token of a stream
_RETRY_S: Final = 1.0
_HELLO: Final = b": events of zsched\n"
_STREAM: Final = STREAMED | {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter for nginx
_ENTRIES, _MOST = 50, 1000
_RESET: Final = b'event: reset\ndata: {"reason": "%s"}\n\n'
_BEAT: Final = b"event: beat\ndata: {}\n\n"  # not a comment: a browser shows its page none
_NEWS: Final = b"event: news\ndata: {}\n\n"
_LOST: Final = b"the log does not hold that entry"
_ANEW: Final = b"a new history has begun, or events were lost"


class SentEvent(NamedTuple):
    """An entry's position and its text as an event."""

    position: Position
    text: bytes


class Events:
    """The reader of a process, and its streams."""

    def __init__(self, client: AsyncClient, entries: Log, run_suffix: str) -> None:
        self._client, self._log, self._run_suffix = client, entries, run_suffix
        self._kept = deque[SentEvent](maxlen=_KEPT)  # their seq is dense
        self._history = 0  # number of the history
        self._last = _BEGINNING
        self._news = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def stream(self, after: Position | None) -> AsyncIterator[bytes]:
        """
        Yield a comment, then events after *after*, or from now on; an empty text for each second without one. Raises
        RedisUnavailable.
        """
        await self._begin()
        history, at = self._history, self._end
        is_held = after is None or self._is_kept(after) or await run(self._log.contains, after)
        yield self._greeting() if after is None else _HELLO + b"\n"
        if not is_held:
            yield _RESET % _LOST
            history, at = self._history, self._end
        elif after is not None:
            async for event in self._from_log(after):
                yield event.text
                after = event.position
            at = after.seq + 1  # the log may have been read further than memory
        while True:
            if history != self._history or at < self._first:
                yield _RESET % _ANEW
                history, at = self._history, self._first
            elif at < self._end:
                begin = at - self._first
                some = [event.text for event in islice(self._kept, begin, begin + _AT_ONCE)]
                at += len(some)
                yield b"".join(some)
            else:
                await self._wait()
                yield b""

    async def news(self, calm_s: float = _CALM_S) -> AsyncIterator[bytes]:
        """
        Yield a comment, then a word after changes, at most one in *calm_s*; an empty text for each second without one.
        Raises RedisUnavailable.
        """
        await self._begin()
        seen = self._last
        yield _HELLO + b"\n"
        while True:
            if self._last != seen:
                seen = self._last
                yield _NEWS
                await asyncio.sleep(calm_s)
            else:
                await self._wait()
                yield b""

    async def close(self) -> None:
        """End the reader."""
        if self._reader is not None:
            self._reader.cancel()

    async def _begin(self) -> None:
        async with self._starting:
            if self._reader is None or self._reader.done():
                last = await run(self._log.last)
                self._last = _BEGINNING if last is None else last.position
                self._reader = asyncio.create_task(self._read(), context=Context())  # of no single request

    async def _read(self) -> None:
        while True:
            try:
                async for entry in self._client.follow_log(self._last, _GATHERED_S):
                    self._take(entry)
            except ZschedError as error:
                log.warning("events_wait_for_redis", reason=str(error))
                await asyncio.sleep(_RETRY_S)

    def _take(self, entry: Entry) -> None:
        last, self._last = self._last, entry.position
        if entry.position.seq != last.seq + 1:
            self._kept.clear()
            self._history += 1
        self._kept.append(SentEvent(entry.position, self._text(entry)))
        self._news.set()  # the streams that wait wake once for all events that come before it is their turn
        self._news = asyncio.Event()

    async def _wait(self) -> None:
        """Wait for an event, for a second at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await self._news.wait()

    @property
    def _first(self) -> int:
        """The seq of the oldest event in memory."""
        return self._end - len(self._kept)

    @property
    def _end(self) -> int:
        """The seq behind the last event."""
        return self._last.seq + 1

    def _is_kept(self, after: Position) -> bool:
        """Return True if the event at *after* is in memory, or the last one that was read."""
        place = after.seq - self._first
        return after == self._last or (0 <= place < len(self._kept) and self._kept[place].position == after)

    async def _from_log(self, after: Position) -> AsyncIterator[SentEvent]:
        """Yield the events after *after* from the log in Redis, until one that is in memory."""
        while not self._is_kept(after) and (entries := await run(self._log.read, f"({after.id}", _PAGE)):
            for entry in entries:
                after = entry.position
                yield SentEvent(after, self._text(entry))

    def _greeting(self) -> bytes:
        """Return the first block of a stream: its position, for a client that is cut off before the first event."""
        return _HELLO + (b"" if self._last == _BEGINNING else f"id: {event_id(self._last)}\n".encode()) + b"\n"

    def _text(self, entry: Entry) -> bytes:
        shown = json.dumps(entry_for_json(entry, *changes_or_problem(entry, self._run_suffix)))
        return f"id: {event_id(entry.position)}\ndata: {shown}\n\n".encode()


def event_id(position: Position) -> str:
    """Return the id of the event of the entry at *position*."""
    return f"{position.id}-{position.t_us}"


def position_of_event(text: str) -> Position:
    """Return the position of an event's id. Raises InvalidSchedule."""
    parts = text.split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts):
        raise InvalidSchedule("Last-Event-ID", text, "not the id of an event", "send the last id that came, or none")
    return Position(*map(int, parts))


# -- routes -----------------------------------------------------------------------------------------


@router.get(
    "/log", **schemas.answering("Entries of the log, in order.", entries=schemas.array_of("Entry"), source="Source")
)
async def list_entries(
    request: Request, call: Admitted, since: QueryTime = None, limit: Annotated[int, Query(ge=1, le=_MOST)] = _ENTRIES
) -> Response:
    """Return the entries since `since`, or the newest `limit`, with what each changed; without arguments."""
    call.demand_all("the log")
    found, source = await call.client.log(rfc3339("since", since), limit=limit)
    suffix, shown = request.app.state.run_suffix, []
    async for entry in found:
        shown.append(entry_for_json(entry, *changes_or_problem(entry, suffix)))
        if len(shown) >= limit:
            break
    return JsonAnswer({"entries": shown, "source": source.to_dict()})


@router.get(
    "/events",
    **schemas.streamed("Every change as a server-sent event.", "text/event-stream", "Entry", ["Last-Event-ID"]),
)
async def follow_events(request: Request, call: Admitted) -> Response:
    """
    Stream the changes from now on, or after `Last-Event-ID`: `id` is `<epoch>-<seq>-<t>`, `data` an entry as in `/log`.
    `event: reset` means that entries are missing: read again what you show. `event: beat` comes at least every 5
    seconds if nothing else does.
    """
    call.demand_all("the log")
    given = request.headers.get("last-event-id")
    hub: Events = request.app.state.events
    return await streamed(request, hub.stream(None if given is None else position_of_event(given)))


async def streamed(request: Request, texts: AsyncIterator[bytes]) -> Response:
    """Return *texts* of ``Events`` as a stream, as long as the token of *request* may read them."""
    first = await anext(texts)  # raises what goes wrong at the start, before anything was answered
    told = request.app.state.meter.counted(with_beats(first, texts, partial(_is_admitted, request)))
    return StreamingResponse(told, media_type="text/event-stream", headers=_STREAM)


def _is_admitted(request: Request) -> bool:
    """Return True if the token of *request* still reads events."""
    with suppress(Problem):
        request.app.state.access.caller(request).demand_all("the log")
        return True
    return False


async def with_beats(
    first: bytes, texts: AsyncIterator[bytes], is_admitted: Callable[[], bool], look_s: float = _LOOK_S
) -> AsyncIterator[bytes]:
    """
    Yield *first* and the *texts* of a stream as long as *is_admitted*, which is asked every *look_s* seconds, also
    while events wait; and beats where it is silent. Without Redis it ends: the client connects again, with the id of
    its last event.
    """
    now_s = asyncio.get_running_loop().time
    asked_s = told_s = now_s()
    yield first
    try:
        async for text in texts:
            if now_s() - asked_s >= look_s:
                asked_s = now_s()
                if not is_admitted():
                    return
            if text or now_s() - told_s >= BEAT_EVERY_S:
                told_s = now_s()
                yield text or _BEAT
    except ZschedError as error:
        log.warning("stream_ended", reason=str(error))
