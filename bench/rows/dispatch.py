"""
One-shots that are all due: how fast one daemon brings them into their RQ queue.

The daemon is a whole one, so it archives meanwhile; ``archived-dispatch`` tells what that costs.
"""

from functools import partial

from bench import journal, load, raw
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.peers import rq, rq_scheduler
from bench.peers.bullmq import NAME as BULLMQ
from bench.peers.bullmq import BullMQ
from bench.results import Result

OVER_MS = 1000  # their due times are spread over this
_UNIT = "jobs/s"


def without_aof(arena: Arena) -> Result:
    """The row ``dispatch``."""
    result = _measure(arena, "dispatch", appendonly=False)
    result.at_least("1.05 × BullMQ", result.ratio("zsched", BULLMQ), 1.05)
    result.at_least("20 × RQ's scheduler", result.ratio("zsched", rq.NAME), 20.0)
    return result


def with_aof(arena: Arena) -> Result:
    """The row ``dispatch-aof``: reported, without a goal."""
    return _measure(arena, "dispatch-aof", appendonly=True)


def _measure(arena: Arena, name: str, *, appendonly: bool) -> Result:
    persistence = "appendonly, everysec" if appendonly else "no AOF"
    result = Result(name, f"one-shots due at once → RQ queue, one daemon, log on, {persistence}", baseline="raw")
    ours, bull = arena.size(200_000, 10_000), arena.size(100_000, 10_000)
    rqs, small = arena.size(20_000, 2000), arena.size(5000, 500)
    with arena.redis(appendonly=appendonly) as ground:
        contestants = [
            Contestant("zsched", f"{ours:,}", _UNIT, partial(zsched, arena, ground, ours)),
            Contestant("raw", f"{ours:,}", _UNIT, partial(bare, arena, ground, ours)),
            Contestant(BULLMQ, f"{bull:,}", _UNIT, partial(_bullmq, arena, ground, bull)),
            Contestant(rq.NAME, f"{rqs:,}", _UNIT, partial(_rq, arena, ground, rqs)),
            Contestant(rq_scheduler.NAME, f"{small:,}", _UNIT, partial(_rq_scheduler, arena, ground, small)),
        ]
        contest(arena, ground, result, contestants)
    result.notes.append(rq.AS_SHIPPED)
    return result


def zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    """Jobs per second of a daemon process, by the log's times, starting included."""
    timed = load.spread(count, arena.clock.now_ms() - OVER_MS, OVER_MS)
    load.put(ground.client(), timed)
    ground.redis.slowlog_reset()
    with leader(arena, ground):
        arena.wait_for("every one-shot is fired", lambda: ground.waiting() == 0)
    load.prove_once(load.run_ids(timed), load.queued(ground.redis))
    fired = list(journal.fires(ground))
    journal.Lateness.of(journal.lateness_ms(fired))
    return Figure(journal.per_second(fired), {"scripts > 10 ms": float(len(ground.slow_scripts_ms()))})


def bare(arena: Arena, ground: Ground, count: int) -> Figure:
    """Jobs per second of the bare commands."""
    timed = load.spread(count, arena.clock.now_ms() - OVER_MS, OVER_MS)
    load.put(ground.client(), timed)
    took_s = raw.dispatch_s(ground, timed, arena.clock)
    load.prove_count(0, ground.waiting(), "raw, left behind")
    load.prove_once(load.run_ids(timed), load.queued(ground.redis))
    return Figure(count / took_s)


def _rq(arena: Arena, ground: Ground, count: int) -> Figure:
    rq.insert(ground.redis, load.spread(count, arena.clock.now_ms() - 2 * OVER_MS, OVER_MS))
    took_s = rq.dispatch_s(ground.redis, arena.clock)
    load.prove_count(count, int(ground.redis.llen(load.QUEUE_KEY)), rq.NAME)
    return Figure(count / took_s)


def _rq_scheduler(arena: Arena, ground: Ground, count: int) -> Figure:
    rq_scheduler.check()
    rq_scheduler.insert(ground.redis, load.spread(count, arena.clock.now_ms() - 2 * OVER_MS, OVER_MS))
    took_s = rq_scheduler.dispatch_s(ground.redis, arena.clock)
    load.prove_count(count, int(ground.redis.llen(load.QUEUE_KEY)), rq_scheduler.NAME)
    return Figure(count / took_s)


def _bullmq(arena: Arena, ground: Ground, count: int) -> Figure:
    told = BullMQ.find().measure(arena, ground.url, "dispatch", count=count)
    load.prove_count(count, told["count"], BULLMQ)
    return Figure(count / told["seconds"])
