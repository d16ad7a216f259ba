"""RQ's own delayed jobs that are all due: how fast one daemon brings them into their queue, and RQ's scheduler does."""

from collections import Counter
from datetime import datetime
from functools import partial
from typing import Final

from bench import load
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.load import RQ, Timed
from bench.peers import rq
from bench.results import Broken, Result

_OVERDUE_MS: Final = 60_000
_REGISTRY: Final = RQ.registry("scheduled", "default")
_PAGE: Final = 2000  # jobs per pipeline
_UNIT: Final = "jobs/s"


def measure(arena: Arena) -> Result:
    """The row ``native``."""
    result = Result("native", "RQ's enqueue_at jobs due at once → RQ queue, one daemon, no AOF", baseline=rq.NAME)
    ours, rqs = arena.size(100_000, 10_000), arena.size(100_000, 2000)
    with arena.redis() as ground:
        contestants = [
            Contestant("zsched", f"{ours:,}", _UNIT, partial(_zsched, arena, ground, ours)),
            Contestant(rq.NAME, f"{rqs:,}", _UNIT, partial(_rq, arena, ground, rqs)),
        ]
        contest(arena, ground, result, contestants)
    result.at_least("10 × RQ's scheduler", result.ratio("zsched"), 10.0)
    result.notes.append(rq.AS_SHIPPED)
    return result


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    ids = _insert(arena, ground, count)
    ground.redis.slowlog_reset()
    with leader(arena, ground):
        arena.wait_for("every job is queued", lambda: ground.redis.zcard(_REGISTRY) == 0)
    load.prove_once(ids, load.queued(ground.redis))
    return Figure(_per_second(ground, ids), {"scripts > 10 ms": float(len(ground.slow_scripts_ms()))})


def _rq(arena: Arena, ground: Ground, count: int) -> Figure:
    ids = _insert(arena, ground, count)
    took_s = rq.dispatch_s(ground.redis, arena.clock)
    load.prove_once(ids, load.queued(ground.redis))
    return Figure(count / took_s)


def _insert(arena: Arena, ground: Ground, count: int) -> list[str]:
    """Jobs as ``enqueue_at`` writes them, that one made by RQ and all others after it; their ids."""
    due_ms = arena.clock.now_ms() - _OVERDUE_MS
    timed: list[Timed] = [(f"delayed-{number:06}", due_ms) for number in range(count)]
    rq.insert(ground.redis, timed[:1])
    job, due_s = ground.redis.hgetall(RQ.job(timed[0][0])), ground.redis.zscore(_REGISTRY, timed[0][0])
    for start in range(1, count, _PAGE):
        ids = [id for id, _ in timed[start : start + _PAGE]]
        with ground.redis.pipeline(transaction=False) as pipeline:
            for id in ids:
                pipeline.hset(RQ.job(id), mapping=job)
            pipeline.zadd(_REGISTRY, dict.fromkeys(ids, due_s))
            pipeline.execute()
    return [id for id, _ in timed]


def _per_second(ground: Ground, ids: list[str]) -> float:
    """
    Jobs per second from the first script to the last, by ``enqueued_at``; the last one's own time is not known, so
    its jobs are not counted.

    Raises:
        Broken: too few scripts to tell.
    """
    scripts: Counter[float] = Counter()
    for start in range(0, len(ids), _PAGE):
        with ground.redis.pipeline(transaction=False) as pipeline:
            for id in ids[start : start + _PAGE]:
                pipeline.hget(RQ.job(id), "enqueued_at")
            scripts.update(datetime.fromisoformat(at.decode()).timestamp() for at in pipeline.execute())
    first, last = min(scripts), max(scripts)
    if first == last:
        raise Broken("one script: too small to measure")
    return (len(ids) - scripts[last]) / (last - first)
