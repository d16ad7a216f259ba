"""
The cost of a daemon, of all its processes, that has nothing to fire: in its second minute. The first one has a new
term's searches through the whole archive, and the audit's first pass.
"""

import time
from functools import partial

from bench import load
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.processor import memory_mb, processes_s
from bench.results import Result

_AHEAD_MS, _OVER_MS = 86_400_000, 86_400_000  # due tomorrow, all over the day


def measure(arena: Arena) -> Result:
    """The row ``idle``."""
    count, seconds = arena.size(1_000_000, 20_000), arena.size(60, 3)
    result = Result("idle", f"CPU of the daemon over {seconds} s, after as long a time, nothing due")
    with arena.redis() as ground:
        one = Contestant("zsched", f"{count:,} pending", "% of a core", partial(_zsched, arena, ground, count, seconds))
        contest(arena, ground, result, [one])
    series = result.find("zsched")
    result.within("0.5 % of a core", series.median if series else None, 0.5)
    return result


def _zsched(arena: Arena, ground: Ground, count: int, seconds: int) -> Figure:
    load.put(ground.client(), load.spread(count, arena.clock.now_ms() + _AHEAD_MS, _OVER_MS))
    with leader(arena, ground) as child:
        arena.wait_for("all is archived", ground.is_archived, 300.0)
        time.sleep(seconds)
        before = processes_s(child.pid)
        started_ms = arena.clock.monotonic_ms()
        time.sleep(seconds)
        took_s = (arena.clock.monotonic_ms() - started_ms) / 1000
        spent_s = processes_s(child.pid) - before
        return Figure(100 * spent_s / took_s, {"MB": memory_mb(child.pid)})
