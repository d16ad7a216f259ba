"""
Ten million one-shots due at once, and how other clients of that Redis fare meanwhile. A daemon leads and archives while
they are put, so Redis has lost nothing that could put them in doubt.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import redis

from bench import journal, load
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.results import Broken, Result, percentile
from zsched.core.clock import Clock

_PORTION = 500_000  # put between two reports of progress
_PUT_PER_S, _LEAST_MS = 40_000, 5000  # put and archived at least, until they are due
_NAME = "due"
_PAUSE_S = 0.002  # between two commands of the other client
_GOAL_S, _GOAL_P99_MS, _GOAL_SCRIPT_MS = 50.0, 5.0, 10.0


def without_aof(arena: Arena) -> Result:
    """The row ``campaign``."""
    result = _measure(arena, "campaign", appendonly=False)
    series = result.find("zsched")
    if series is not None and not arena.is_quick:
        result.within("50 s for 10,000,000", series.median, _GOAL_S)
    if series is not None:
        result.within("5 ms p99 of another client's commands", series.detail("other client p99 ms"), _GOAL_P99_MS)
        result.within("10 ms for the longest script", series.detail("longest script ms"), _GOAL_SCRIPT_MS)
    return result


def with_aof(arena: Arena) -> Result:
    """The row ``campaign-aof``: reported, without a goal."""
    return _measure(arena, "campaign-aof", appendonly=True)


def _measure(arena: Arena, name: str, *, appendonly: bool) -> Result:
    persistence = "appendonly, everysec" if appendonly else "no AOF"
    count = arena.size(10_000_000, 200_000)
    result = Result(name, f"{count:,} due at once, one daemon, log on, {persistence}")
    with arena.redis(appendonly=appendonly) as ground:
        one = Contestant("zsched", f"{count:,}", "s", partial(_zsched, arena, ground, count))
        contest(replace(arena, repeat=1), ground, result, [one])
    result.notes.append("measured once; the other client: PING and SET")
    return result


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    other = _Other(ground.url, arena.clock)
    with leader(arena, ground):
        due_ms = arena.clock.now_ms() + _LEAST_MS + count * 1000 // _PUT_PER_S
        _fill(arena, ground, count, due_ms)
        arena.wait_for("all is archived", ground.is_archived, 600.0)
        left_s = (due_ms - arena.clock.now_ms()) / 1000
        if left_s < 0:
            raise Broken(f"they were put and archived {-left_s:.0f} s too late")
        time.sleep(left_s)
        ground.redis.slowlog_reset()
        with other.asking():
            arena.wait_for("all is fired", lambda: ground.waiting() == 0, 1800.0)
    slow = ground.slow_scripts_ms()
    arena.say("campaign: counting what reached the queue")
    _prove(ground, count, due_ms)
    first_us, last_us = _ends(ground)
    others = {
        "runs/s": count / (last_us - first_us) * 1_000_000,
        "scripts > 10 ms": float(len(slow)),
        "other client p99 ms": percentile(other.took_ms, 99),
        "other client max ms": max(other.took_ms),
        "longest script ms": max(slow, default=0.0),  # 0: none took 10 ms
    }
    return Figure((last_us - first_us) / 1_000_000, others)


def _fill(arena: Arena, ground: Ground, count: int, due_ms: int) -> None:
    """Put *count* one-shots, all due at *due_ms*."""
    client = ground.client()
    for start in range(0, count, _PORTION):
        arena.say(f"campaign: {start:,} of {count:,} put")
        numbers = range(start, min(start + _PORTION, count))
        load.put(client, [(f"{_NAME}-{number:08}", due_ms) for number in numbers])


def _prove(ground: Ground, count: int, due_ms: int) -> None:
    """Each run is in the queue, once. By a flag per number: ten million ids as texts would take a gigabyte."""
    seen = bytearray(count)
    end = f"-{due_ms}"
    for run in load.queued(ground.redis):
        number = int(run.removeprefix(f"{_NAME}-").removesuffix(end))
        if seen[number]:
            raise Broken(f"{run} is in the queue twice")
        seen[number] = 1
    if seen.count(1) != count:
        raise Broken(f"{count - seen.count(1):,} of {count:,} runs are not in the queue")


def _ends(ground: Ground) -> tuple[int, int]:
    """Return the beginnings of the first and the last script, in µs."""
    first_us = next(journal.fires(ground)).t_us
    last = ground.redis.xrevrange(ground.keys.log(), count=10)
    return first_us, max(int(fields[b"t"]) for _, fields in last if fields[b"kind"] == b"fire")


class _Other:
    """Another client of the same Redis: PING and SET in turn; ``took_ms`` per command."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.took_ms: list[float] = []
        self._clock = clock
        self._redis: Any = redis.Redis.from_url(url, protocol=2)
        self._ended = threading.Event()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """During the block."""
        thread = threading.Thread(target=self._ask, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            self._redis.close()

    def _ask(self) -> None:
        self._redis.ping()
        while not self._ended.is_set():
            for command in (("PING",), ("SET", "other", "1")):
                sent_ms = self._clock.monotonic_ms()
                self._redis.execute_command(*command)
                self.took_ms.append(self._clock.monotonic_ms() - sent_ms)
            time.sleep(_PAUSE_S)
