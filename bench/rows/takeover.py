"""Time in which nothing fires when the leader dies, or leaves, and another daemon stands by."""

import signal
from functools import partial

from bench import journal, load
from bench.arena import Arena, Ground
from bench.children import leader, running
from bench.contest import Contestant, Figure, contest
from bench.journal import Lateness
from bench.results import Broken, Result

_EVERY_MS = 5  # between two runs, before and after
_BEFORE_MS, _AFTER_MS = 2000, 4000  # of work, around the signal
_UNIT = "ms"
_KILLED, _STOPPED = "kill -9", "SIGTERM"


def measure(arena: Arena) -> Result:
    """The row ``takeover``."""
    result = Result("takeover", f"from the signal to the first run of the other daemon, one due every {_EVERY_MS} ms")
    with arena.redis() as ground:
        contestants = [
            Contestant(who, "2 daemons", _UNIT, partial(_zsched, arena, ground, number))
            for who, number in ((_KILLED, signal.SIGKILL), (_STOPPED, signal.SIGTERM))
        ]
        contest(arena, ground, result, contestants)
    killed, stopped = result.find(_KILLED), result.find(_STOPPED)
    result.at_most("2,500 ms after kill -9", max(killed.values) if killed else None, 2500)
    result.within("100 ms after a clean stop", max(stopped.values) if stopped else None, 100)
    result.notes.append("lease 2 s, renewed every 0.5 s (the defaults); goals are held against the worst repetition")
    return result


def _zsched(arena: Arena, ground: Ground, number: signal.Signals) -> Figure:
    with leader(arena, ground) as first, running(arena, "daemon", ground.url) as second:
        # The standby listens for the end of the lease as soon as its waker has subscribed.
        arena.wait_for("the standby listens", lambda: _listeners(ground) == 2)
        length_ms = _BEFORE_MS + _AFTER_MS
        timed = load.spread(length_ms // _EVERY_MS, arena.clock.now_ms() + 500, length_ms)
        load.put(ground.client(), timed)
        arena.sleep_until(timed[0][1] + _BEFORE_MS)
        signalled_ms = arena.clock.now_ms()
        first.send_signal(number)
        arena.wait_for("all is fired", lambda: ground.waiting() == 0)
        if second.poll() is not None:
            raise Broken("the standby ended")
    load.prove_once(load.run_ids(timed), load.queued(ground.redis))
    fired = list(journal.fires(ground))
    late = Lateness.of(journal.lateness_ms(fired))
    took_over = [one.t_us / 1000 for one in fired if one.epoch > fired[0].epoch]
    if not took_over:
        raise Broken("the standby fired nothing")
    return Figure(took_over[0] - signalled_ms, {"latest run": late.max})


def _listeners(ground: Ground) -> int:
    return int(ground.redis.pubsub_numsub(ground.keys.wake())[0][1])
