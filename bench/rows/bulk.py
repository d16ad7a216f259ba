"""Inserting many schedules from one Python process: one-shots, and recurring ones."""

from collections.abc import Callable
from functools import partial

from bench import load
from bench.arena import Arena, Ground
from bench.contest import Contestant, Figure, contest
from bench.load import RQ, Timed
from bench.peers import rq, rq_scheduler
from bench.peers.bullmq import NAME as BULLMQ
from bench.peers.bullmq import BullMQ
from bench.results import Broken, Result

_AHEAD_MS, _OVER_MS = 3_600_000, 600_000  # due in an hour, over ten minutes
_UNIT = "rows/s"
_SINGLY = "RQ, one by one"
_ONE_SHOTS = "zsched, one-shots"


def measure(arena: Arena) -> Result:
    """The row ``bulk``."""
    result = Result("bulk", "insert, one process, one connection, log on, no AOF", baseline="zsched")
    ours, bull = arena.size(200_000, 20_000), arena.size(100_000, 10_000)
    rqs, small = arena.size(20_000, 1000), arena.size(5000, 500)
    with arena.redis() as ground:
        contestants = [
            Contestant("zsched", f"{ours:,}", _UNIT, partial(_zsched, arena, ground, ours)),
            Contestant(BULLMQ, f"{bull:,}", _UNIT, partial(_bullmq, arena, ground, bull)),
            Contestant("RQ, pipelined", f"{rqs:,}", _UNIT, partial(_rq, arena, ground, rqs, rq.insert)),
            Contestant(_SINGLY, f"{small:,}", _UNIT, partial(_rq, arena, ground, small, rq.insert_singly)),
            Contestant(rq_scheduler.NAME, f"{small:,}", _UNIT, partial(_rq_scheduler, arena, ground, small)),
        ]
        contest(arena, ground, result, contestants)
    result.notes.append("RQ has no call for many scheduled jobs; `enqueue_at` takes a pipeline of 1,000 jobs")
    result.at_least("5 × BullMQ", result.ratio("zsched", BULLMQ), 5.0)
    return result


def measure_recurring(arena: Arena) -> Result:
    """The row ``bulk-recurring``."""
    result = Result("bulk-recurring", "insert of recurring schedules, 1,440 cron rules", baseline="zsched")
    ours, bull, small = arena.size(20_000, 1000), arena.size(20_000, 1000), arena.size(2000, 200)
    with arena.redis() as ground:
        contestants = [
            Contestant("zsched", f"{ours:,}", _UNIT, partial(_zsched_recurring, arena, ground, ours)),
            Contestant(_ONE_SHOTS, f"{ours:,}", _UNIT, partial(_zsched, arena, ground, ours)),
            Contestant(BULLMQ, f"{bull:,}", _UNIT, partial(_bullmq_recurring, arena, ground, bull)),
            Contestant(rq_scheduler.NAME, f"{small:,}", _UNIT, partial(_rq_scheduler_recurring, arena, ground, small)),
        ]
        contest(arena, ground, result, contestants)
    result.notes.append("BullMQ: `upsertJobScheduler`, 1,000 calls in flight; rq-scheduler: `cron`, one by one")
    series = result.find("zsched")
    result.at_rate("25,000/s", series.median if series else None, 25_000)
    result.at_least("0.25 × one-shots", result.ratio("zsched", _ONE_SHOTS), 0.25)
    result.at_least("BullMQ", result.ratio("zsched", BULLMQ), 1.0)
    return result


def _timed(arena: Arena, count: int) -> list[Timed]:
    return load.spread(count, arena.clock.now_ms() + _AHEAD_MS, _OVER_MS)


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    client = ground.client()
    rows = list(load.rows(_timed(arena, count)))
    started_ms = arena.clock.monotonic_ms()
    many = client.schedule_many(rows)
    took_ms = arena.clock.monotonic_ms() - started_ms
    if many.created != count or ground.waiting() != count:
        raise Broken(f"{many.created:,} of {count:,} were created, {ground.waiting():,} are waiting")
    return Figure(count / took_ms * 1000)


def _zsched_recurring(arena: Arena, ground: Ground, count: int) -> Figure:
    client = ground.client()
    rows = list(load.daily_rows(load.daily(count)))
    started_ms = arena.clock.monotonic_ms()
    many = client.schedule_many(rows)
    took_ms = arena.clock.monotonic_ms() - started_ms
    if many.created != count or ground.waiting() != count:
        raise Broken(f"{many.created:,} of {count:,} were created, {ground.waiting():,} are waiting")
    return Figure(count / took_ms * 1000, {"scripts > 10 ms": float(len(ground.slow_scripts_ms()))})


def _rq_scheduler_recurring(arena: Arena, ground: Ground, count: int) -> Figure:
    rq_scheduler.check()
    rules, set_key = load.daily(count), "rq:scheduler:scheduled_jobs"
    started_ms = arena.clock.monotonic_ms()
    rq_scheduler.insert_recurring(ground.redis, rules)
    took_ms = arena.clock.monotonic_ms() - started_ms
    load.prove_count(count, int(ground.redis.zcard(set_key)), set_key)
    return Figure(count / took_ms * 1000)


def _bullmq_recurring(arena: Arena, ground: Ground, count: int) -> Figure:
    told = BullMQ.find().measure(arena, ground.url, "upsert", count=count)
    load.prove_count(count, int(ground.redis.zcard("bull:bench:repeat")), BULLMQ)
    return Figure(count / told["seconds"])


def _rq(arena: Arena, ground: Ground, count: int, insert: Callable[..., None]) -> Figure:
    return _timed_insert(arena, ground, count, insert, RQ.registry("scheduled", "default"))


def _rq_scheduler(arena: Arena, ground: Ground, count: int) -> Figure:
    rq_scheduler.check()
    return _timed_insert(arena, ground, count, rq_scheduler.insert, "rq:scheduler:scheduled_jobs")


def _timed_insert(arena: Arena, ground: Ground, count: int, insert: Callable[..., None], set_key: str) -> Figure:
    timed = _timed(arena, count)
    started_ms = arena.clock.monotonic_ms()
    insert(ground.redis, timed)
    took_ms = arena.clock.monotonic_ms() - started_ms
    load.prove_count(count, int(ground.redis.zcard(set_key)), set_key)
    return Figure(count / took_ms * 1000)


def _bullmq(arena: Arena, ground: Ground, count: int) -> Figure:
    told = BullMQ.find().measure(arena, ground.url, "bulk", count=count)
    load.prove_count(count, int(ground.redis.zcard("bull:bench:delayed")), BULLMQ)
    return Figure(count / told["seconds"])
