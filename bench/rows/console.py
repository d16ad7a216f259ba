"""The console: its pages among a million waiting one-shots and 5,000 recurring ones; and viewers beside firing."""

import asyncio
from dataclasses import replace
from functools import partial
from statistics import median

from bench import journal, load
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.journal import Lateness
from bench.results import Result
from bench.web import callers, drain, web
from zsched.core.clock import from_ms

_AHEAD_MS, _OVER_MS = 3_600_000, 86_400_000  # due within a day
_CALLS = 20  # per page
_VIEWERS = 20
_PER_S = 1000  # runs, beside the viewers
_LOOK_S = 0.3  # a page reads again so long after a reading while the log has changes
_LEAD_MS, _AFTER_MS = 3000, 300
_SLOW_MS = 5  # a script that takes longer is told
_PAGES = "first byte of a page"


def measure(arena: Arena) -> Result:
    """The row ``web``."""
    count, rules = arena.size(1_000_000, 20_000), arena.size(5000, 200)
    seconds = arena.size(10, 2)
    result = Result("web", f"the console, {count:,} one-shots and {rules:,} recurring schedules waiting")
    with arena.redis() as ground:
        pages = Contestant(_PAGES, f"{count:,}", "ms, slowest", partial(_pages, arena, ground, count, rules))
        contest(replace(arena, repeat=1), ground, result, [pages])
        names = {number: f"{number} viewers, {_PER_S:,} runs/s" for number in (0, _VIEWERS)}
        beside = [
            Contestant(who, f"{seconds} s", "p99 ms late", partial(_beside, arena, ground, number, seconds))
            for number, who in names.items()
        ]
        contest(arena, ground, result, beside)
    series = result.find(_PAGES)
    result.within("150 ms for the first byte", series.median if series else None, 150)
    without, watched = (result.find(names[number]) for number in (0, _VIEWERS))
    result.within("5 ms p99 late beside them", watched.median if watched else None, 5)
    result.within(f"{_SLOW_MS} ms for a script", watched.detail("longest script ms") if watched else None, _SLOW_MS)
    shares = [one.detail("redis % of a core") if one else None for one in (without, watched)]
    more = None if None in shares else max((shares[1] or 0) - (shares[0] or 0), 0)
    result.at_most("5 % of a core of Redis for the viewers", more, 5)
    result.notes.append(f"the median of {_CALLS} requests of each page, the slowest page; a viewer has the first page")
    return result


def _pages(arena: Arena, ground: Ground, count: int, rules: int) -> Figure:
    client, now_ms = ground.client(), arena.clock.now_ms()
    timed = load.spread(count, now_ms + _AHEAD_MS, _OVER_MS)
    client.schedule_many(
        {"func": load.FUNC, "id": f"rule-{n}", "every": 3600, "starts": from_ms(now_ms + _AHEAD_MS + n * 500)}
        for n in range(rules)
    )
    load.put(client, timed)
    paths = {
        "now": "/",
        "schedules": "/schedules",
        "a schedule": "/schedules/rule-7",
        "a one-shot": f"/schedules/{timed[-1][0]}",
        "recurring": "/schedules?kind=every",
        "queues": "/queues",
        "timeline": "/timeline",
    }
    with leader(arena, ground), web(arena, ground.url) as (url, secret):
        arena.wait_for("all is archived", ground.is_archived, 300.0)
        took_ms = {name: asyncio.run(_first_bytes(arena, url, secret, path)) for name, path in paths.items()}
        whole_ms = asyncio.run(_whole(arena, url, secret, paths["timeline"]))
    return Figure(max(took_ms.values()), {**took_ms, "the whole timeline": whole_ms})


async def _first_bytes(arena: Arena, url: str, secret: str, path: str) -> float:
    """Return the median ms until the first byte of the page at *path*."""
    took = list[float]()
    for _ in range(_CALLS):
        async with callers(url, 1, secret) as [caller]:
            started_ms = arena.clock.monotonic_ms()
            await caller.open_stream(path)
            took.append(arena.clock.monotonic_ms() - started_ms)
    return median(took)


async def _whole(arena: Arena, url: str, secret: str, path: str) -> float:
    """Return the ms until the whole page at *path* has come."""
    async with callers(url, 1, secret) as [caller]:
        started_ms = arena.clock.monotonic_ms()
        await caller.count_lines("GET", path, b"", b"</html>")
        return arena.clock.monotonic_ms() - started_ms


def _beside(arena: Arena, ground: Ground, viewers: int, seconds: int) -> Figure:
    client = ground.client()
    with leader(arena, ground), web(arena, ground.url) as (url, secret):
        first_ms = arena.clock.now_ms() + _LEAD_MS + _PER_S * seconds // 20
        timed = load.spread(_PER_S * seconds, first_ms, 1000 * seconds)
        load.put(client, timed)
        ground.redis.config_set("slowlog-log-slower-than", _SLOW_MS * 1000)
        arena.sleep_until(first_ms)
        ground.redis.slowlog_reset()
        before_s = _redis_s(ground)
        asyncio.run(_watched(arena, url, secret, viewers, seconds))
        spent_s = _redis_s(ground) - before_s
        arena.sleep_until(first_ms + 1000 * seconds + _AFTER_MS)
        longest_ms = max(ground.slow_scripts_ms(), default=0.0)
    load.prove_once(load.run_ids(timed), load.queued(ground.redis))
    late = Lateness.of(journal.lateness_ms(list(journal.fires(ground))))
    shown = {"redis % of a core": 100 * spent_s / seconds, "longest script ms": longest_ms}
    return Figure(late.p99, late.others() | shown)


def _redis_s(ground: Ground) -> float:
    """Return the processor time of the server so far."""
    told = ground.redis.info("cpu")
    return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


async def _watched(arena: Arena, url: str, secret: str, viewers: int, seconds: int) -> None:
    """Look at the first page as *viewers* browsers do while the log has changes all the time."""
    until_ms = arena.clock.monotonic_ms() + 1000 * seconds

    async def view(number: int) -> None:
        await asyncio.sleep(_LOOK_S * number / max(viewers, 1))
        async with callers(url, 2, secret) as [stream, reader]:
            events = asyncio.create_task(drain(await stream.open_stream("/api/v1/events")))
            while arena.clock.monotonic_ms() < until_ms:
                await reader.call("GET", "/", b"")
                await asyncio.sleep(_LOOK_S)
            events.cancel()

    await asyncio.gather(*map(view, range(viewers)))
    await asyncio.sleep(max(until_ms - arena.clock.monotonic_ms(), 0) / 1000)
