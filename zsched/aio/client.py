"""The asynchronous client: the methods of ``Client``, awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from copy import copy
from datetime import datetime
from enum import Enum
from functools import wraps
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar, Unpack

from zsched.aio.bridge import run, wait
from zsched.aio.link import AsyncLink
from zsched.client import answers, bulk, preview, putting, updating
from zsched.client.client import Client, ClientOptions
from zsched.core.entry import Entry, Position
from zsched.core.model import Many
from zsched.core.options.allowed import Limits
from zsched.core.options.choices import Refused
from zsched.core.options.table import ScheduleRow
from zsched.core.story.source import Source
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

P = ParamSpec("P")
T = TypeVar("T")

# ``Client`` imports them at the first call that needs one. An event loop would wait meanwhile.
_LOADED: Final = (answers, bulk, preview, putting, updating)
_MAX_CALLS: Final = 50
_CALLBACKS: Final = ("on_progress", "confirm")


class _End(Enum):
    """The end of an iterator."""

    END = 0


def _awaited(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Return *method* of ``Client`` as a coroutine function."""

    @wraps(method)
    async def call(self: AsyncClient, /, *arguments: P.args, **named: P.kwargs) -> T:
        for name in _CALLBACKS:
            if name in named:
                named[name] = _callback(named[name])
        async with self._calls.one():
            return await run(method, self._client, *arguments, **named)

    return call


def _iterated(
    method: Callable[Concatenate[Client, P], Iterator[T]],
) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]:
    """Return *method* of ``Client``, which returns an iterator and does no I/O before its first item."""

    @wraps(method)
    def iterate(self: AsyncClient, /, *arguments: P.args, **named: P.kwargs) -> AsyncIterator[T]:
        return _async_iterator(method(self._client, *arguments, **named))

    return iterate


async def _async_iterator(found: Iterator[T]) -> AsyncIterator[T]:
    while (item := await run(next, found, _End.END)) is not _End.END:
        yield item


def _callback(given: Any) -> Any:
    """Return *given*, or a function that waits for it if it is a coroutine function."""
    if not inspect.iscoroutinefunction(given):
        return given
    return lambda *arguments: wait(given(*arguments))


def _rows(given: AsyncIterable[T]) -> Iterator[T]:
    rows = aiter(given)
    while (row := wait(anext(rows, _End.END))) is not _End.END:
        yield row


class _Calls:
    """Limits the calls that run at once in an event loop."""

    def __init__(self, most: int) -> None:
        self._most, self._semaphore = most, asyncio.Semaphore(most)
        self._loop: asyncio.AbstractEventLoop | None = None

    def one(self) -> asyncio.Semaphore:
        """Return the limit of the running loop; a client may be used in one loop after another."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._semaphore = loop, asyncio.Semaphore(self._most)
        return self._semaphore


class AsyncClient:
    """
    ``Client`` for asyncio: the same methods, options, results and errors, awaited. Needs ``pip install zsched[async]``.

    Iterators are asynchronous, *rows* may be, and *on_progress* and *confirm* may be coroutine functions. It is for one
    event loop at a time. Close it with ``aclose``, or use ``async with``.

    *redis* is a ``redis.asyncio.Redis`` or a ``redis.Redis``, also of ``Sentinel.master_for(…)``: its settings are
    used, not its connections. *max_calls*: how many calls run at once. *options* as in ``Client``.
    """

    def __init__(
        self, redis: Any, namespace: str = "default", *, max_calls: int = _MAX_CALLS, **options: Unpack[ClientOptions]
    ) -> None:
        link = redis if isinstance(redis, Link) else AsyncLink.adopt(redis)
        self._link, self._client, self._calls = link, Client(link, namespace, **options), _Calls(max_calls)

    @classmethod
    def from_url(
        cls,
        url: str,
        namespace: str = "default",
        *,
        timeout_s: float = 5.0,
        password: str | None = None,
        max_calls: int = _MAX_CALLS,
        **options: Unpack[ClientOptions],
    ) -> AsyncClient:
        """Make a client of the Redis at *url*, as ``Client.from_url`` does. Raises ConfigError."""
        keys = Keys(namespace, options.get("rq_prefix"))
        return cls(AsyncLink.from_url(url, timeout_s, password, keys), namespace, max_calls=max_calls, **options)

    async def aclose(self) -> None:
        """Close all connections. A call that runs meanwhile, or comes later, opens another one."""
        self._link.pool.disconnect()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def by(self) -> str:
        """The name under which the log has this client's changes."""
        return self._client.by

    def acting_as(self, by: str, limits: Limits | None = None) -> AsyncClient:
        """Return a client with the same connections, as ``Client.acting_as`` does. Raises InvalidSchedule."""
        other = copy(self)
        other._client = self._client.acting_as(by, limits)
        return other

    # -- schedule -----------------------------------------------------------------------------------

    schedule = _awaited(Client.schedule)
    _schedule_as = _awaited(Client._schedule_as)
    enqueue = _awaited(Client.enqueue)
    update = _awaited(Client.update)
    difference = _awaited(Client.difference)

    async def schedule_many(
        self,
        rows: Iterable[ScheduleRow] | AsyncIterable[ScheduleRow],
        on_progress: Callable[[int], Any] | None = None,
        errors: Literal["raise", "return"] | Refused = Refused.RAISE,
    ) -> Many:
        """Schedule many, as ``Client.schedule_many`` does; *rows* may be an asynchronous iterable."""
        given = _rows(rows) if isinstance(rows, AsyncIterable) else rows
        async with self._calls.one():
            return await run(self._client.schedule_many, given, _callback(on_progress), errors)

    # -- one schedule or run --------------------------------------------------------------------------

    get = _awaited(Client.get)
    cancel = _awaited(Client.cancel)
    pause = _awaited(Client.pause)
    resume = _awaited(Client.resume)
    release = _awaited(Client.release)
    skip = _awaited(Client.skip)
    unskip = _awaited(Client.unskip)
    run_now = _awaited(Client.run_now)
    _run_now_as = _awaited(Client._run_now_as)
    retry = _awaited(Client.retry)
    _retry_as = _awaited(Client._retry_as)
    cancel_run = _awaited(Client.cancel_run)
    backfill = _awaited(Client.backfill)

    # -- many, by filters -----------------------------------------------------------------------------

    retry_many = _awaited(Client.retry_many)
    cancel_runs = _awaited(Client.cancel_runs)
    calendars = _awaited(Client.calendars)
    put_calendar = _awaited(Client.put_calendar)
    delete_calendar = _awaited(Client.delete_calendar)
    known_failures = _awaited(Client.known_failures)
    ack = _awaited(Client.ack)
    remove_ack = _awaited(Client.remove_ack)
    cancel_many = _awaited(Client.cancel_many)
    pause_many = _awaited(Client.pause_many)
    resume_many = _awaited(Client.resume_many)
    release_many = _awaited(Client.release_many)
    sign_many = _awaited(Client.sign_many)

    # -- reading --------------------------------------------------------------------------------------

    list = _iterated(Client.list)
    _get_many = _iterated(Client._get_many)
    preview = _awaited(Client.preview)
    _coming = _awaited(Client._coming)
    _overview = _awaited(Client._overview)
    recent = _awaited(Client.recent)

    # -- the past ---------------------------------------------------------------------------------------

    why = _awaited(Client.why)
    history = _awaited(Client.history)
    runs = _awaited(Client.runs)
    timeline = _awaited(Client.timeline)
    forecast = _awaited(Client.forecast)
    iter_history = _iterated(Client.iter_history)
    iter_runs = _iterated(Client.iter_runs)
    get_run = _awaited(Client.get_run)

    _log_search = _awaited(Client._log_search)

    async def log(self, since: datetime | None = None, *, limit: int = 50) -> tuple[AsyncIterator[Entry], Source]:
        """Return entries of the log, and their source, as ``Client.log`` does."""
        async with self._calls.one():
            entries, source = await run(self._client.log, since, limit=limit)
        return _async_iterator(entries), source

    async def follow_log(self, after: Position | None = None, gather_s: float = 0.0) -> AsyncIterator[Entry]:
        """Yield entries of the log after *after*, or from the first step on, as ``Client.follow_log``."""
        async for entry in _async_iterator(await run(self._client.follow_log, after, gather_s)):
            yield entry
