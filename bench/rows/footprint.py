"""Memory of a daemon, of all its processes, before and after it fired many one-shots."""

import time
import uuid
from functools import partial

from bench import load
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.processor import memory_mb
from bench.results import Result

_WITHIN_S = 300.0
_SETTLE_S = 3.0  # until the archive has noticed that nothing is left to do
_GOAL_MB, _FRESH_MB = 150.0, 50.0


def measure(arena: Arena) -> Result:
    """The row ``footprint``."""
    count = arena.size(1_000_000, 5000)
    result = Result("footprint", f"memory of a daemon after it fired and archived {count:,} one-shots")
    with arena.redis() as ground:
        one = Contestant("zsched", f"{count:,}", "MB", partial(_zsched, arena, ground, count))
        contest(arena, ground, result, [one])
    series = result.find("zsched")
    result.at_most("150 MB", series.median if series else None, _GOAL_MB)
    result.at_most("50 MB of a fresh one", series.detail("MB before") if series else None, _FRESH_MB)
    result.notes.append("the processes of one daemon together; memory that they share counts once")
    return result


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    with leader(arena, ground) as child:
        arena.wait_for("an archive follows", ground.archives)
        before_mb = memory_mb(child.pid)
        due_ms = arena.clock.now_ms()
        load.put(ground.client(), [(str(uuid.uuid4()), due_ms) for _ in range(count)])
        arena.wait_for("all is fired", lambda: ground.waiting() == 0, _WITHIN_S)
        arena.wait_for("all is archived", ground.is_archived, _WITHIN_S)
        load.prove_count(count, int(ground.redis.llen(load.QUEUE_KEY)), "zsched")
        busy_mb = memory_mb(child.pid)
        time.sleep(_SETTLE_S)
        return Figure(memory_mb(child.pid), {"MB before": before_mb, "MB at once": busy_mb})
