"""Redis memory of a pending one-shot: its hash and its place in the lane, the log left out."""

import random
import string
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from bench import load
from bench.arena import Arena, Ground
from bench.contest import Contestant, Figure, contest
from bench.load import ARGS, FUNC, Timed
from bench.peers import rq
from bench.peers.bullmq import NAME as BULLMQ
from bench.peers.bullmq import BullMQ
from bench.results import Result
from zsched.storage.rqjob import Encoder

_AHEAD_MS, _OVER_MS = 3_600_000, 600_000
_PAYLOAD_BYTES = 200
_LISTPACK = "hash-max-ziplist-value"  # both names are known to Redis 7 and 8, this one to 6.2 too
_REDIS_DEFAULT, _OURS = 64, 512  # bytes: Redis's own limit, that of deploy/redis/redis.conf
_UNIT = "bytes each"
_SMALL, _SMALL_512, _LARGE = "zsched", "zsched, listpack 512", "zsched, 200 bytes, listpack 512"


def measure(arena: Arena) -> Result:
    """The row ``memory``."""
    result = Result("memory", "Redis memory per pending one-shot, without its log entry", baseline=_SMALL)
    count, fewer = arena.size(100_000, 5000), arena.size(20_000, 1000)
    large = _args_of(_PAYLOAD_BYTES)
    with arena.redis() as ground:
        contestants = [
            Contestant(_SMALL, f"{count:,}", _UNIT, partial(_zsched, arena, ground, count, ARGS, _REDIS_DEFAULT)),
            Contestant(_SMALL_512, f"{count:,}", _UNIT, partial(_zsched, arena, ground, count, ARGS, _OURS)),
            Contestant(_LARGE, f"{count:,}", _UNIT, partial(_zsched, arena, ground, count, large, _OURS)),
            Contestant(rq.NAME, f"{fewer:,}", _UNIT, partial(_rq, arena, ground, fewer)),
            Contestant(BULLMQ, f"{count:,}", _UNIT, partial(_bullmq, arena, ground, count)),
        ]
        contest(replace(arena, repeat=1), ground, result, contestants)
    small, larger = result.find(_SMALL), result.find(_LARGE)
    result.at_most("426 bytes", small.median if small else None, 426)
    result.at_most("700 bytes for a 200-byte payload with our redis.conf", larger.median if larger else None, 700)
    result.notes.append(
        f'{FUNC}, (123456, "email"); hash-max-listpack-value 64, or as said; measured once, it is exact'
    )
    return result


def _zsched(arena: Arena, ground: Ground, count: int, args: tuple[Any, ...], listpack: int) -> Figure:
    client = ground.client()
    load.put(client, [("first", arena.clock.now_ms() + _AHEAD_MS)])  # scripts and meta are there from now on

    def insert() -> None:
        load.put(client, _timed(arena, count), args=args)
        ground.redis.delete(ground.keys.log())

    ground.redis.delete(ground.keys.log())
    return _grown(ground, count, listpack, insert)


def _rq(arena: Arena, ground: Ground, count: int) -> Figure:
    rq.insert(ground.redis, [("first", arena.clock.now_ms() + _AHEAD_MS)])
    return _grown(ground, count, _REDIS_DEFAULT, lambda: rq.insert(ground.redis, _timed(arena, count)))


def _bullmq(arena: Arena, ground: Ground, count: int) -> Figure:
    bull = BullMQ.find()

    def insert() -> None:
        bull.measure(arena, ground.url, "bulk", count=count)
        load.prove_count(count, int(ground.redis.zcard("bull:bench:delayed")), BULLMQ)
        ground.redis.delete("bull:bench:events")

    return _grown(ground, count, _REDIS_DEFAULT, insert)


def _grown(ground: Ground, count: int, listpack: int, insert: Callable[[], object]) -> Figure:
    ground.redis.config_set(_LISTPACK, listpack)
    before = ground.used_memory()
    insert()
    return Figure((ground.used_memory() - before) / count)


def _timed(arena: Arena, count: int) -> list[Timed]:
    return load.spread(count, arena.clock.now_ms() + _AHEAD_MS, _OVER_MS)


def _args_of(size: int) -> tuple[int, str]:
    """Arguments whose encoded call has *size* bytes, or one or two more; of letters that deflate badly."""
    chance, encoder = random.Random(1), Encoder()
    text = ""
    while len(encoder.call(FUNC, (123456, text), None)) < size:
        text += chance.choice(string.ascii_letters + string.digits)
    return 123456, text
