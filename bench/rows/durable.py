"""
Duration of a durable put: until an archive has it on its disk.

One client, one call after the other, one daemon with nothing to fire. The pauses between the calls are random,
so that they fall into every phase of the archiver's rhythm. The clock starts before the call and stops when it
returns: the script, the archiver's waking, its fsync and report, and the client's looks at that.
"""

import random
import time
from functools import partial

from bench import load
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.results import Result, percentile

_LONGEST_PAUSE_S = 0.05  # between two calls; the shortest is none
_FAR_S = 86_400  # nothing comes due meanwhile
_GOAL_MS = 50.0


def measure(arena: Arena) -> Result:
    """The row ``durable``."""
    count = arena.size(500, 30)
    result = Result("durable", "schedule(durable=True) until it returns, one idle daemon, no AOF")
    with arena.redis() as ground:
        contest(
            arena,
            ground,
            result,
            [Contestant("zsched", f"{count:,} calls", "p99 ms", partial(_zsched, arena, ground, count))],
        )
    series = result.find("zsched")
    result.within("50 ms p99", series.median if series else None, _GOAL_MS)
    result.notes.append("the archive is in the folder for temporary files: its disk's fsync is in the figures")
    return result


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    client, chance = ground.client(), random.Random(count)
    took_ms = []
    with leader(arena, ground):
        arena.wait_for("an archive follows", ground.archives)
        for number in range(count):
            time.sleep(chance.uniform(0, _LONGEST_PAUSE_S))
            sent_ms = arena.clock.monotonic_ms()
            client.schedule(load.FUNC, id=f"durable-{number}", after=_FAR_S, args=load.ARGS, durable=True)
            took_ms.append(arena.clock.monotonic_ms() - sent_ms)
    load.prove_count(count, ground.waiting(), "durable")
    return Figure(percentile(took_ms, 99), {"p50": percentile(took_ms, 50), "max": max(took_ms)})
