"""
The cost and the delay of finding out which runs are over, while others wait.

A million runs wait in a queue that nobody serves; behind them others were pushed, and another process ends those as
RQ's worker does, evenly. What is measured is the processor time of the one thread that tracks (the archive is written
by another), and from the end that RQ's hash tells to the log entry that records it. Beside it stands the processor time
of the whole daemon, which also archives those entries.
"""

from functools import partial

from bench import load
from bench.arena import Arena, Ground
from bench.children import CHORES_TID, folder, leader, running
from bench.contest import Contestant, Figure, contest
from bench.journal import Ends
from bench.processor import processes_s, thread_s
from bench.results import Broken, Result, percentile

_PER_S = 10_000
_IDLE_QUEUE = "nobody"
_GOAL_PERCENT, _GOAL_MS = 20.0, 1000.0


def measure(arena: Arena) -> Result:
    """The row ``tracked``."""
    seconds, many = arena.size(10, 2), arena.size(1_000_000, 5000)
    result = Result("tracked", f"{_PER_S:,} runs end per second: CPU of the thread that records it, no AOF")
    with arena.redis() as ground:
        contestants = [
            Contestant(f"zsched, {waiting:,} others wait", f"{seconds} s", "% of a core",
                       partial(_zsched, arena, ground, seconds, waiting))
            for waiting in (0, many)
        ]  # fmt: skip
        contest(arena, ground, result, contestants)
    for series in result.series:
        result.within(f"20 % of a core ({series.who})", series.median, _GOAL_PERCENT)
        result.within(f"1 s p99 from end to record ({series.who})", series.detail("recorded p99 ms"), _GOAL_MS)
    return result


def _zsched(arena: Arena, ground: Ground, seconds: int, waiting: int) -> Figure:
    client, total = ground.client(), _PER_S * seconds
    with folder(arena) as state, leader(arena, ground, "daemon-told", state) as child:
        timed = load.spread(total, arena.clock.now_ms(), 1)
        idle = load.rows(((f"idle-{n}", timed[0][1]) for n in range(waiting)), queue=_IDLE_QUEUE)
        client.schedule_many(idle)
        load.put(client, timed)
        arena.wait_for("all is pushed", lambda: ground.waiting() == 0, 120.0)
        arena.wait_for("all is archived", ground.is_archived, 300.0)
        tid = int((state / CHORES_TID).read_text())
        before_s, all_before_s = thread_s(tid), processes_s(child.pid)
        with running(arena, "ends", ground.url, _PER_S, seconds) as ender:
            arena.wait_for("all ended", lambda: ender.poll() is not None, seconds + 60.0)
        ends = Ends(ground)
        arena.wait_for("all is recorded", lambda: ends.read() >= total, 60.0)
        spent_s, all_spent_s = thread_s(tid) - before_s, processes_s(child.pid) - all_before_s
    rate = ends.per_second()
    if rate < 0.9 * _PER_S:
        raise Broken(f"only {rate:,.0f} runs ended per second: this machine is too busy to say")
    recorded = {f"recorded p{percent} ms": percentile(ends.late_ms, percent) for percent in (50, 99)}
    whole = {"daemon % of a core": 100 * all_spent_s * _PER_S / total}
    return Figure(100 * spent_s * _PER_S / total, recorded | whole | {"ends/s": rate})
