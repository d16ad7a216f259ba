"""The HTTP API: single puts beside an empty route of FastAPI, and batches beside ``schedule_many``."""

import asyncio
import gc
import json
from functools import partial

from bench import load
from bench.arena import Arena, Ground
from bench.contest import Contestant, Figure, contest
from bench.results import Broken, Result, percentile
from bench.web import PATH, Caller, callers, empty_route, flood, pace, web
from zsched.core.clock import from_ms

_AT_ONCE = 32  # connections
_PACE = 500  # calls a second, for the durations
_AHEAD_MS, _OVER_MS = 3_600_000, 600_000
_EMPTY, _PUT = "an empty route", "PUT /schedules/{id}"
_BATCH, _MANY = "POST /schedules:batch", "schedule_many"


def measure(arena: Arena) -> Result:
    """The row ``http``."""
    result = Result("http", f"PUT over {_AT_ONCE} connections, one server process, no AOF", baseline=_EMPTY)
    count = arena.size(10_000, 1000)
    with arena.redis() as ground:
        contestants = [
            Contestant(_PUT, f"{count:,}", "puts/s", partial(_puts, arena, ground, count)),
            Contestant(_EMPTY, f"{count:,}", "puts/s", partial(_empty, arena, count)),
        ]
        contest(arena, ground, result, contestants)
    result.notes.append(f"p99: ms of a call, at {_PACE} a second")
    result.at_least("0.4 × the empty route", result.ratio(_PUT), 0.4)
    ours, empty = (series.detail("p99") if (series := result.find(who)) else None for who in (_PUT, _EMPTY))
    result.at_most("3 × the p99 of the empty route", ours / empty if ours and empty else None, 3.0)
    return result


def measure_batches(arena: Arena) -> Result:
    """The row ``http-batch``."""
    result = Result("http-batch", "one-shots in one request, no AOF", baseline=_MANY)
    count = arena.size(100_000, 10_000)
    with arena.redis() as ground:
        contestants = [
            Contestant(_BATCH, f"{count:,}", "rows/s", partial(_batch, arena, ground, count)),
            Contestant(_MANY, f"{count:,}", "rows/s", partial(_many, arena, ground, count)),
        ]
        contest(arena, ground, result, contestants)
    result.at_least("0.4 × schedule_many", result.ratio(_BATCH), 0.4)
    return result


def _puts(arena: Arena, ground: Ground, count: int) -> Figure:
    with web(arena, ground.url) as (url, secret):
        figure = asyncio.run(_called(arena, url, secret, count))
    if ground.waiting() != count + _PACE:
        raise Broken(f"{ground.waiting():,} of {count + _PACE:,} are waiting")
    return figure


def _empty(arena: Arena, count: int) -> Figure:
    with empty_route(arena) as url:
        return asyncio.run(_called(arena, url, "", count))


async def _called(arena: Arena, url: str, secret: str, count: int) -> Figure:
    at = from_ms(arena.clock.now_ms() + _AHEAD_MS).isoformat()

    async def call(caller: Caller, number: int) -> None:
        body = {"func": load.FUNC, "at": at, "args": [number, "email"]}
        await caller.call("PUT", f"{PATH}/reminder-{number}", json.dumps(body).encode())

    async with callers(url, _AT_ONCE, secret) as connections:
        started_ms = arena.clock.monotonic_ms()
        await flood(connections, count, call)
        took_ms = arena.clock.monotonic_ms() - started_ms
        gc.collect()  # now, and not in this process while it measures durations
        gc.freeze()
        durations = await pace(arena, connections, _PACE, _PACE, lambda caller, number: call(caller, count + number))
        gc.unfreeze()
    return Figure(count / took_ms * 1000, {"p50": percentile(durations, 50), "p99": percentile(durations, 99)})


def _batch(arena: Arena, ground: Ground, count: int) -> Figure:
    timed = _timed(arena, count)
    body = b"".join(
        json.dumps({**row, "at": from_ms(due_ms).isoformat()}).encode() + b"\n"
        for row, (_, due_ms) in zip(load.rows(timed), timed, strict=True)
    )
    with web(arena, ground.url) as (url, secret):
        took_ms = asyncio.run(_sent(arena, url, secret, body, count))
    return _figure(ground, count, took_ms)


async def _sent(arena: Arena, url: str, secret: str, body: bytes, count: int) -> float:
    async with callers(url, 1, secret) as [caller]:
        started_ms = arena.clock.monotonic_ms()
        created = await caller.count_lines("POST", f"{PATH}:batch", body, b'"created"')
        took_ms = arena.clock.monotonic_ms() - started_ms
    if created != count:
        raise Broken(f"{created:,} of {count:,} were created")
    return took_ms


def _many(arena: Arena, ground: Ground, count: int) -> Figure:
    client, rows = ground.client(), list(load.rows(_timed(arena, count)))
    started_ms = arena.clock.monotonic_ms()
    client.schedule_many(rows)
    return _figure(ground, count, arena.clock.monotonic_ms() - started_ms)


def _timed(arena: Arena, count: int) -> list[load.Timed]:
    return load.spread(count, arena.clock.now_ms() + _AHEAD_MS, _OVER_MS)


def _figure(ground: Ground, count: int, took_ms: float) -> Figure:
    if ground.waiting() != count:
        raise Broken(f"{ground.waiting():,} of {count:,} are waiting")
    return Figure(count / took_ms * 1000)
