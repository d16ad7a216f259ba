"""
Commands of one turn of the event loop, sent together: one write for all, and usually one read of their replies.

A server with many requests at once has many commands in a turn. With 50 puts at once, one event loop puts 7,900
schedules per second, and 5,300 if each command has a write and a read of its own (measured).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, Final, NamedTuple

from zsched.aio.bridge import run
from zsched.errors import RedisUnavailable
from zsched.storage.connection import Command, Wire

_AT_ONCE: Final = 16  # commands: Redis serves no other client while it reads them; 1 ms of puts


class _Pending(NamedTuple):
    """A command, and what waits for its reply."""

    command: Command
    reply: asyncio.Future[Any]


class Pipeline:
    """Sends commands of one turn over one connection of *wire*. For one event loop at a time."""

    def __init__(self, wire: Callable[[], AbstractContextManager[Wire]]) -> None:
        self._wire = wire
        self._open: list[_Pending] = []  # of this turn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop itself keeps no reference

    def reply(self, command: Command) -> asyncio.Future[Any]:
        """Return the reply to *command*, which is sent at the end of this turn. It fails as ``Wire.execute`` does."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop or not 0 < len(self._open) < _AT_ONCE:
            self._loop, self._open = loop, []
            loop.call_soon(self._begin, self._open)
        call = _Pending(command, loop.create_future())
        self._open.append(call)
        return call.reply

    def _begin(self, calls: list[_Pending]) -> None:
        if calls is self._open:
            self._open = []
        task = asyncio.create_task(run(self._exchange, calls))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _exchange(self, calls: list[_Pending]) -> None:
        """Send *calls*, and give each its reply or its error."""
        try:
            with self._wire() as wire:
                _send(wire, calls)
        except BaseException as error:
            _fail(calls, error)
            if not isinstance(error, Exception):
                raise


def _send(wire: Wire, calls: list[_Pending]) -> None:
    """Send *calls* over *wire*. Raises RedisUnavailable: it could not be sent, or replies were lost."""
    packed, sent = list[bytes](), list[_Pending]()
    for call in calls:
        try:
            packed.append(wire.pack(call.command))
        except Exception as error:  # no other command fails
            _fail([call], error)
        else:
            sent.append(call)
    wire.send_packed(packed)
    for number, call in enumerate(sent):
        try:
            reply = wire.receive()
        except Exception as error:
            _fail([call], error)
            if wire.is_broken:
                _fail(sent[number + 1 :], error, is_sent=True)
                return
        else:
            if not call.reply.done():
                call.reply.set_result(reply)


def _fail(calls: Iterable[_Pending], error: BaseException, *, is_sent: bool = False) -> None:
    """Raise a copy of *error* where the replies to *calls* are awaited. *is_sent*: they may have been applied."""
    for call in calls:
        if call.reply.done():  # cancelled
            continue
        if not isinstance(error, Exception):
            call.reply.cancel()
            continue
        own = copy(error)
        if isinstance(own, RedisUnavailable):
            own.may_have_been_applied = own.may_have_been_applied or is_sent
        call.reply.set_exception(own)
