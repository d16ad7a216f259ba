"""Recurring schedules that are all due: fire, plan and advance."""

from functools import partial

from bench import journal, load
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.peers.bullmq import NAME as BULLMQ
from bench.peers.bullmq import BullMQ
from bench.results import Broken, Result
from bench.rows import dispatch

_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
_PER_PIPELINE = 1000
_UNIT = "runs/s"


def measure(arena: Arena) -> Result:
    """The row ``recurring``."""
    result = Result("recurring", "recurring schedules due at once, 1,440 cron rules, no AOF", baseline="raw")
    ours, bull = arena.size(100_000, 2000), arena.size(20_000, 1000)
    with arena.redis() as ground:
        contestants = [
            Contestant("zsched", f"{ours:,}", _UNIT, partial(_zsched, arena, ground, ours)),
            Contestant("raw", f"{ours:,} one-shots", "jobs/s", partial(dispatch.bare, arena, ground, ours)),
            Contestant(BULLMQ, f"{bull:,} job schedulers", _UNIT, partial(_bullmq, arena, ground, bull)),
        ]
        contest(arena, ground, result, contestants)
    result.notes.append("BullMQ: with its worker, as it sets the next time only when the job runs; `every` of a day")
    result.at_least("0.1 × raw", result.ratio("zsched"), 0.1)
    result.at_least("6 × BullMQ", result.ratio("zsched", BULLMQ), 6.0)
    return result


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    rules = load.daily(count)
    many = ground.client().schedule_many(load.daily_rows(rules))
    if many.created != count:
        raise Broken(f"not all of {count:,} were created: {many}")
    _make_due(ground, rules, arena.clock.now_ms())
    with leader(arena, ground):
        arena.wait_for("every schedule is advanced", lambda: not _overdue(ground, arena.clock.now_ms()), 300.0)
    runs = list(load.queued(ground.redis))
    if len(set(runs)) != len(runs):
        raise Broken(f"{len(runs) - len(set(runs)):,} runs twice")
    missing = {id for id, _ in rules} - {run.rpartition("-")[0] for run in runs}
    if missing:
        raise Broken(f"{len(missing):,} of {count:,} schedules did not run")
    advanced = [one for one in journal.fires(ground) if one.kind == "advance"]
    return Figure(journal.per_second(advanced), {"scripts > 10 ms": float(len(ground.slow_scripts_ms()))})


def _make_due(ground: Ground, rules: list[load.Daily], now_ms: int) -> None:
    """
    Move each schedule back to its rule's last occurrence, as if the daemon had been away since.

    Behind the client's back: put never makes a recurring schedule due in the past.
    """
    lane, midnight_ms = ground.keys.due_normal(), now_ms - now_ms % _DAY_MS
    for start in range(0, len(rules), _PER_PIPELINE):
        page = rules[start : start + _PER_PIPELINE]
        progresses = load.progresses(ground, [id for id, _ in page])
        with ground.redis.pipeline(transaction=False) as pipeline:
            for (id, cron), progress in zip(page, progresses, strict=True):
                minute, hour = cron.split(" ")[:2]
                last_ms = midnight_ms + (int(hour) * 60 + int(minute)) * _MINUTE_MS
                last_ms -= _DAY_MS if last_ms > now_ms else 0
                pipeline.zadd(lane, {id: last_ms})
                pipeline.hset(ground.keys.schedule(id), "progress", load.with_nominal(progress, last_ms))
            pipeline.execute()


def _overdue(ground: Ground, now_ms: int) -> int:
    return int(ground.redis.zcount(ground.keys.due_normal(), "-inf", now_ms))


def _bullmq(arena: Arena, ground: Ground, count: int) -> Figure:
    told = BullMQ.find().measure(arena, ground.url, "recurring", count=count)
    load.prove_count(count, told["count"], BULLMQ)
    return Figure(count / told["seconds"])
