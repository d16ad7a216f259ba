"""Results that all viewers share: read once for all who look at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """
    The result of *read*, at most *old_s* seconds old, one reading at a time. An error is not kept: the next viewer
    reads again.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], old_s: float, most_s: float = 0.0) -> None:
        self._read, self._old_s, self._most_s, self._began_s = read, old_s, most_s, 0.0
        self._reading: asyncio.Future[T] | None = None
        self._last: tuple[float, T] | None = None  # when its reading began

    async def get(self) -> T:
        """Return a result whose reading began at most *old_s* seconds before this call. Raises what *read* raises."""
        asked_s = _now_s()
        while True:
            if self._reading is None or (self._reading.done() and not self._is_newer(asked_s - self._old_s)):
                self._begin()
            began_s, reading = self._began_s, self._reading
            assert reading is not None
            found = await asyncio.shield(reading)
            if began_s >= asked_s - self._old_s:
                return found

    async def soon(self) -> T:
        """
        Return a result that is at most *most_s* seconds old; if it is older than *old_s*, read again meanwhile. Raises
        what *read* raises.
        """
        if self._last is None or self._last[0] < _now_s() - self._most_s:
            return await self.get()
        if self._reading is not None and self._reading.done() and not self._is_newer(_now_s() - self._old_s):
            self._begin()
        return self._last[1]

    async def in_time(self, patience_s: float, otherwise: T) -> T:
        """Return what ``soon`` returns, or *otherwise* if that takes longer; the reading continues. Raises as it."""
        try:
            async with asyncio.timeout(patience_s):
                return await self.soon()
        except TimeoutError:
            return otherwise

    def _is_newer(self, than_s: float) -> bool:
        return self._last is not None and self._last[0] == self._began_s >= than_s

    def _begin(self) -> None:
        began_s = self._began_s = _now_s()

        def note(reading: asyncio.Future[T]) -> None:
            if not reading.cancelled() and reading.exception() is None:
                self._last = began_s, reading.result()

        self._reading = asyncio.ensure_future(self._read())
        self._reading.add_done_callback(note)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
