"""Schedules of every second that nobody served for a year: what passed is counted, not stepped through."""

from collections.abc import Iterable
from functools import partial

from bench import journal, load
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.results import Broken, Result
from zsched.core.clock import from_ms
from zsched.core.options.table import ScheduleRow

_YEAR_MS = 365 * 86_400_000
_WHO = "zsched"


def measure(arena: Arena) -> Result:
    """The row ``planning``."""
    count = arena.size(10_000, 500)
    result = Result("planning", f"{count:,} schedules of every second, a year late: until each is planned and advanced")
    with arena.redis() as ground:
        contest(arena, ground, result, [Contestant(_WHO, f"{count:,}", "s", partial(_zsched, arena, ground, count))])
    series = result.find(_WHO)
    result.within("1 s in all", series.median if series else None, 1.0)
    return result


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    late_ms = arena.clock.now_ms() - _YEAR_MS
    many = ground.client().schedule_many(_rows(count, late_ms))
    if many.created != count:
        raise Broken(f"not all of {count:,} were created: {many}")
    _make_late(ground, late_ms)
    with leader(arena, ground):
        arena.wait_for("every schedule is advanced", lambda: not _late(ground), 120.0)
    fired = [one for one in journal.fires(ground) if one.kind == "advance"]
    begun, pending = fired[0].t_us, {f"second-{number:05}" for number in range(count)}
    passed, ended = 0, begun
    for one in fired:
        if pending:
            passed, ended = passed + one.coalesced, one.t_us
            pending -= {run.rpartition("-")[0] for run in one.runs}
    if pending or passed < count * (_YEAR_MS // 1000 - 10):
        raise Broken(f"{len(pending):,} of {count:,} did not run, or not all that passed is told: {passed:,}")
    return Figure((ended - begun) / 1_000_000, {"occurrences told, in millions": passed / 1_000_000})


def _rows(count: int, late_ms: int) -> Iterable[ScheduleRow]:
    """Half of them intervals, each with a start of its own; half of one cron rule."""
    for number in range(count):
        id = f"second-{number:05}"
        if number % 2:
            yield {"func": load.FUNC, "id": id, "every": 1, "starts": from_ms(late_ms + number % 1000)}
        else:
            yield {"func": load.FUNC, "id": id, "cron": "* * * * * *"}


def _make_late(ground: Ground, late_ms: int) -> None:
    """Pretend that the daemon was away for a year: behind the client's back, as put never makes one due in the past."""
    waiting = ground.redis.zrange(ground.keys.due_normal(), 0, -1, withscores=True)
    progresses = load.progresses(ground, [id.decode() for id, _ in waiting])
    with ground.redis.pipeline(transaction=False) as pipeline:
        for (id, due_ms), progress in zip(waiting, progresses, strict=True):
            nominal_ms = int(due_ms) - (int(due_ms) - late_ms) // 1000 * 1000
            pipeline.zadd(ground.keys.due_normal(), {id: nominal_ms})
            moved = {"progress": load.with_nominal(progress, nominal_ms), "anchor": late_ms}
            pipeline.hset(ground.keys.schedule(id.decode()), mapping=moved)
        pipeline.execute()


def _late(ground: Ground) -> int:
    """Count those that were not advanced yet."""
    seconds, _ = ground.redis.time()
    return int(ground.redis.zcount(ground.keys.due_normal(), "-inf", (seconds - 86_400) * 1000))
