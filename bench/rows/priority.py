"""High-priority work that comes due while a huge overdue backlog of low priority is drained."""

from functools import partial

from bench import journal, load
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.journal import Lateness
from bench.results import Broken, Result

_EVERY_MS = 5  # between two high-priority runs
_WHO = "zsched, high"


def measure(arena: Arena) -> Result:
    """The row ``priority``."""
    low, over_ms = arena.size(1_000_000, 50_000), arena.size(4000, 1500)
    result = Result("priority", f"high every {_EVERY_MS} ms while {low:,} overdue low ones are drained, no AOF")
    with arena.redis() as ground:
        one = Contestant(_WHO, f"{low:,} low", "p99 ms", partial(_zsched, arena, ground, low, over_ms))
        contest(arena, ground, result, [one])
    series = result.find(_WHO)
    result.within("20 ms p99", series.median if series else None, 20.0)
    return result


def _zsched(arena: Arena, ground: Ground, low: int, over_ms: int) -> Figure:
    client, now_ms = ground.client(), arena.clock.now_ms()
    backlog = load.spread(low, now_ms - 1000, 1000, "low")
    load.put(client, backlog, priority="low", queue="low")
    first_ms = arena.clock.now_ms() + 200
    urgent = load.spread(over_ms // _EVERY_MS, first_ms, over_ms, "high")
    load.put(client, urgent, priority="high")
    with leader(arena, ground):
        arena.wait_for("all is fired", lambda: ground.waiting() == 0)
    load.prove_once(load.run_ids(backlog), load.queued(ground.redis, load.RQ.queue("low")))
    load.prove_once(load.run_ids(urgent), load.queued(ground.redis))
    fired = list(journal.fires(ground))
    begun_ms = fired[0].t_us / 1000
    drained_us = max(one.t_us for one in fired if any(run.startswith("low-") for run in one.runs))
    meanwhile = [
        one.t_us / 1000 - journal.nominal(run)
        for one in fired
        if one.t_us <= drained_us
        for run in one.runs
        if run.startswith("high-") and journal.nominal(run) >= begun_ms
    ]
    if len(meanwhile) < 10:
        raise Broken(f"only {len(meanwhile)} high-priority runs came due while the backlog was drained: too few")
    late = Lateness.of(meanwhile)
    drain_s = (drained_us / 1000 - begun_ms) / 1000
    return Figure(late.p99, late.others() | {"runs": float(len(meanwhile)), "drained in s": drain_s})
