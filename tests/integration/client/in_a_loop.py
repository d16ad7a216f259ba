"""An ``AsyncClient`` with the face of a ``Client``: each call runs in an event loop of another thread, to its end."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

from zsched import AsyncClient
from zsched.aio.link import AsyncLink
from zsched.core.options.allowed import Limits
from zsched.storage.connection import Link


class LoopThread:
    """A thread with a running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def result(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def iterate(self, found: AsyncIterator[Any]) -> Iterator[Any]:
        end = object()
        while (item := self.result(_next(found, end))) is not end:
            yield item

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next(found: AsyncIterator[Any], end: object) -> Any:
    return await anext(found, end)


class InALoop:
    """Has the methods of ``Client``; calls those of *client* in *loop*. Private names are those of its ``Client``,
    unless it has them, too.
    """

    def __init__(self, client: AsyncClient, loop: LoopThread) -> None:
        self._made, self._of = client, loop

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name not in vars(AsyncClient):
            return getattr(self._made._client, name)
        found = getattr(self._made, name)
        return self._blocking(found) if callable(found) else found

    def acting_as(self, by: str, limits: Limits | None = None) -> InALoop:
        return InALoop(self._made.acting_as(by, limits), self._of)

    def _blocking(self, method: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            found = method(*arguments, **named)
            if inspect.isasyncgen(found):
                return self._of.iterate(found)
            answer = self._of.result(found)
            if isinstance(answer, tuple) and inspect.isasyncgen(answer[0]):  # of the log, with its source
                return self._of.iterate(answer[0]), *answer[1:]
            return answer

        return call


class ClientsInALoop:
    """Stands for the class ``Client``: what it makes runs in *loop*."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self.made: list[InALoop] = []

    def __call__(self, given: Any, *arguments: Any, **options: Any) -> InALoop:
        if isinstance(given, Link):  # of the test; its own sockets block
            options_of_pool = given.pool.connection_kwargs
            pool = type(given.pool)(connection_class=given.pool.connection_class, **options_of_pool)
            given = AsyncLink(pool, given.where, given.timeout_s)
        return self._of(AsyncClient(given, *arguments, **options))

    def from_url(self, *arguments: Any, **options: Any) -> InALoop:
        return self._of(AsyncClient.from_url(*arguments, **options))

    def close(self) -> None:
        for client in self.made:
            client.aclose()

    def _of(self, client: AsyncClient) -> InALoop:
        self.made.append(InALoop(client, self._loop))
        return self.made[-1]
