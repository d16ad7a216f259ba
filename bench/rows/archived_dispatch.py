"""
The cost of archiving to firing: dispatch by a whole daemon, beside one without an archiver.

Both are processes that run ``zsched.daemon.process`` with default settings; in the second the archiver, which no
setting turns off, opens no file and starts no thread. The load is that of ``dispatch``: all is put before the
daemon starts. So this archive is a new one, which takes in the puts while the daemon fires, the hardest case:
reading, folding and fsyncs of twice as many occurrences as are fired. Leader and archiver are processes, and Redis is
a third one: on two cores, each takes processor time from the others.
"""

from functools import partial

from bench import journal, load
from bench.arena import Arena, Ground
from bench.children import leader
from bench.contest import Contestant, Figure, contest
from bench.results import Result
from bench.rows.dispatch import OVER_MS

_WITH, _WITHOUT = "zsched", "without archiver"
_UNIT = "jobs/s"
_CAUGHT_UP = "archived after s"  # seconds from the last fire until the archive has it
_GOAL_RATIO, _GOAL_S = 0.8, 60.0


def measure(arena: Arena) -> Result:
    """The row ``archived-dispatch``."""
    count = arena.size(200_000, 10_000)
    result = Result("archived-dispatch", "one-shots due at once, one daemon, no AOF, archiver on and off", _WITHOUT)
    with arena.redis() as ground:
        contestants = [
            Contestant(_WITH, f"{count:,}", _UNIT, partial(_zsched, arena, ground, count, "daemon")),
            Contestant(_WITHOUT, f"{count:,}", _UNIT, partial(_zsched, arena, ground, count, "daemon-alone")),
        ]
        contest(arena, ground, result, contestants)
    series = result.find(_WITH)
    result.at_least("0.8 × without archiver", result.ratio(_WITH), _GOAL_RATIO)
    result.within("60 s until all is archived", series.detail(_CAUGHT_UP) if series else None, _GOAL_S)
    result.notes.append("all was put before the daemon started: a new archive, which takes in the puts meanwhile")
    return result


def _zsched(arena: Arena, ground: Ground, count: int, role: str) -> Figure:
    timed = load.spread(count, arena.clock.now_ms() - OVER_MS, OVER_MS)
    load.put(ground.client(), timed)
    others = {}
    with leader(arena, ground, role):
        arena.wait_for("every one-shot is fired", lambda: ground.waiting() == 0)
        fired_ms = arena.clock.monotonic_ms()
        if role == "daemon":
            arena.wait_for("all is archived", ground.is_archived, 300.0)
            others[_CAUGHT_UP] = (arena.clock.monotonic_ms() - fired_ms) / 1000
    load.prove_once(load.run_ids(timed), load.queued(ground.redis))
    fired = list(journal.fires(ground))
    journal.Lateness.of(journal.lateness_ms(fired))
    return Figure(journal.per_second(fired), others)
