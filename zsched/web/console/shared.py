"""Results that all viewers share: read once for all who look at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """The result of *read*, which is at most *old_s* seconds old. An error is not kept: the next viewer reads again."""

    def __init__(self, read: Callable[[], Awaitable[T]], old_s: float) -> None:
        self._read, self._old_s, self._began_s = read, old_s, 0.0
        self._reading: asyncio.Future[T] | None = None

    async def get(self) -> T:
        """Return the result. Raises what *read* raises."""
        now_s, reading = asyncio.get_running_loop().time(), self._reading
        if reading is None or (reading.done() and (now_s - self._began_s > self._old_s or reading.exception())):
            self._began_s, reading = now_s, asyncio.ensure_future(self._read())
            self._reading = reading
        return await asyncio.shield(reading)
