"""Puts of one event loop, 50 at once, beside the same script calls by redis-py's own asyncio client."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import redis.asyncio

from bench.arena import Arena, Ground
from bench.contest import Contestant, Figure, contest
from bench.results import Broken, Result
from zsched.aio import AsyncClient
from zsched.core.clock import from_ms
from zsched.storage.puts import one_shots_call

_AT_ONCE = 50
_AHEAD_MS = 3_600_000
_UNIT = "puts/s"
_BARE = "redis.asyncio, bare EVALSHA"
_THREAD = "zsched.Client, one thread"
_LOOP = "zsched.AsyncClient"


def measure(arena: Arena) -> Result:
    """The row ``loop``."""
    result = Result("loop", f"single puts of one event loop, {_AT_ONCE} at once, no AOF", baseline=_BARE)
    count = arena.size(20_000, 2000)
    with arena.redis() as ground:
        contestants = [
            Contestant(_LOOP, f"{count:,}", _UNIT, partial(_ours, arena, ground, count)),
            Contestant(_BARE, f"{count:,}", _UNIT, partial(_bare, arena, ground, count)),
            Contestant(_THREAD, f"{count:,}", _UNIT, partial(_blocking, arena, ground, count)),
        ]
        contest(arena, ground, result, contestants)
    result.notes.append("bare: the command of such a put, made once, with another id each time; it checks nothing")
    result.at_least("0.6 × bare", result.ratio(_LOOP), 0.6)
    return result


def _ours(arena: Arena, ground: Ground, count: int) -> Figure:
    at = from_ms(arena.clock.now_ms() + _AHEAD_MS)

    async def run() -> float:
        async with AsyncClient.from_url(ground.url, max_calls=_AT_ONCE) as client:
            return await _timed(arena, count, lambda n: client.schedule("app.task", id=f"p-{n}", at=at, args=(n,)))

    return _figure(ground, count, asyncio.run(run()))


def _bare(arena: Arena, ground: Ground, count: int) -> Figure:
    command = _command(ground, arena.clock.now_ms() + _AHEAD_MS)

    async def run() -> float:
        pool = redis.asyncio.BlockingConnectionPool.from_url(ground.url, max_connections=_AT_ONCE)
        async with redis.asyncio.Redis(connection_pool=pool) as client:
            send: Any = client.execute_command  # untyped in redis-py
            return await _timed(arena, count, lambda n: send(*command[:-4], f"p-{n}", *command[-3:]))

    return _figure(ground, count, asyncio.run(run()))


def _blocking(arena: Arena, ground: Ground, count: int) -> Figure:
    client, at = ground.client(), from_ms(arena.clock.now_ms() + _AHEAD_MS)
    started_ms = arena.clock.monotonic_ms()
    for n in range(count):
        client.schedule("app.task", id=f"p-{n}", at=at, args=(n,))
    return _figure(ground, count, arena.clock.monotonic_ms() - started_ms)


def _command(ground: Ground, due_ms: int) -> list[Any]:
    """Return the command of a put; its last texts are id, due time, name and data."""
    client = ground.client()
    put = client._putting._rows.read({"func": "app.task", "id": "p", "at": from_ms(due_ms), "args": (1,)})
    name, rows, arguments = one_shots_call(put.shape, "", put.row, None)
    return client._puts._scripts.command(name, rows, arguments)


async def _timed(arena: Arena, count: int, call: Callable[[int], Awaitable[Any]]) -> float:
    """Return the ms of *count* calls, ``_AT_ONCE`` at once, after as many to connect."""
    numbers = iter(range(count))

    async def work() -> None:
        for n in numbers:
            await call(n)

    await asyncio.gather(*(call(count + n) for n in range(_AT_ONCE)))
    started_ms = arena.clock.monotonic_ms()
    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    return arena.clock.monotonic_ms() - started_ms


def _figure(ground: Ground, count: int, took_ms: float) -> Figure:
    if not count <= ground.waiting() <= count + _AT_ONCE:
        raise Broken(f"{ground.waiting():,} of {count:,} are waiting")
    return Figure(count / took_ms * 1000)
