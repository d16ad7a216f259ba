"""Turns of an event loop, counted instead of timed, and given to other tasks."""

from __future__ import annotations

import asyncio


async def turn() -> None:
    """Return in a later turn of the event loop: other tasks run before."""
    later = asyncio.get_running_loop().create_future()
    later.get_loop().call_soon(later.set_result, None)
    await later


class Turns:
    """Counts the turns of the event loop inside the block."""

    def __init__(self) -> None:
        self.number, self._is_over = 0, False

    async def __aenter__(self) -> Turns:
        self._count()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True

    def _count(self) -> None:
        self.number += 1
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self._count)
