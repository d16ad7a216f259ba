"""
Lateness of runs in their queue, at three loads, with recurring schedules among them; and beside puts.

The daemon is a whole one: its archivist, a process beside the firing one, archives all of these puts and fires. Beside
puts it has the priority of its unit of systemd (Nice=-5), as root.
"""

from contextlib import ExitStack
from functools import partial

from bench import journal, load
from bench.arena import Arena, Ground
from bench.children import HTTP_KEY, TIMER_KEY, leader, running
from bench.contest import Contestant, Figure, contest
from bench.journal import Lateness
from bench.peers import rq
from bench.peers.bullmq import NAME as BULLMQ
from bench.peers.bullmq import BullMQ
from bench.results import Broken, Result, percentile
from zsched.core.clock import from_ms

_LOADS = (100, 1000, 10_000)  # runs per second; a tenth of them recurring
_RECURRING = 10  # one run in so many is the first of a recurring schedule
_PUTS = 1000  # per second, from another process
_HTTP, _STREAMS = 500, 100  # puts per second over HTTP, and open streams of events
_SLOWED = 5  # times; our own puts wait for the two cores beside them
_SLOW_MS = 5  # the longest script beside them is reported if it takes longer, also because it waits for a processor
_PEERS = 1000  # runs per second for the others
_LEAD_MS, _AFTER_MS = 1500, 300  # between the last put and the first due time; after the last due time
_UNIT = "p99 ms"


def measure(arena: Arena) -> Result:
    """The row ``lateness``."""
    result = Result("lateness", "due → queued, one in ten recurring, by the server's clock, archiver on, no AOF")
    seconds = arena.size(6, 2)
    loads = [(f"zsched, {per_s:,}/s", per_s, "") for per_s in (_LOADS[:2] if arena.is_quick else _LOADS)]
    beside_puts, beside_bulk, beside_http = (
        f"zsched, {_LOADS[1]:,}/s beside {whom}"
        for whom in (f"{_PUTS:,} puts/s", "a bulk insert", f"{_HTTP} HTTP puts/s, {_STREAMS} streams")
    )
    timer = f"a bare timer, {_PEERS:,}/s"
    with arena.redis() as ground:
        floor = partial(_timer, arena, ground, _PEERS, seconds)
        ours = [*loads, (beside_puts, _LOADS[1], "puts"), (beside_bulk, _LOADS[1], "bulk")]
        ours.append((beside_http, _LOADS[1], "http"))
        contestants = [
            Contestant(timer, f"{seconds} s", _UNIT, floor),
            *(
                Contestant(who, f"{seconds} s", _UNIT, partial(_zsched, arena, ground, per_s, seconds, beside))
                for who, per_s, beside in ours
            ),
            Contestant(f"{rq.NAME}, {_PEERS:,}/s", f"{seconds} s", _UNIT, partial(_rq, arena, ground, _PEERS, seconds)),
            Contestant(
                f"{BULLMQ}, {_PEERS:,}/s", f"{seconds} s", _UNIT, partial(_bullmq, arena, ground, _PEERS, seconds)
            ),
        ]
        contest(arena, ground, result, contestants)
    for who, per_s, _ in loads:
        series = result.find(who)
        if series is not None:
            result.within(f"0.5 ms p50 ({who})", series.detail("p50"), 0.5)
        if series is not None and per_s < _LOADS[2]:
            result.within(f"2 ms p99 ({who})", series.median, 2.0)
        else:
            result.at_most(f"2 × p99 of the timer ({who})", result.ratio(who, timer), 2.0)
    for who, most_ms in ((beside_puts, 3), (beside_bulk, 8), (beside_http, 5)):
        series = result.find(who)
        result.within(f"{most_ms} ms p99 ({who})", series.median if series else None, float(most_ms))
    series = result.find(beside_http)
    longest_ms = series.detail("longest script ms") if series else None
    result.within(f"{_SLOW_MS} ms for a script ({beside_http})", longest_ms, float(_SLOW_MS))
    result.notes.append("RQ floors due times to whole seconds, so some of its jobs are early; BullMQ: until its worker")
    result.notes.append(f"longest script: 0 if none took {_SLOW_MS} ms beside HTTP, or 10 ms beside other puts")
    result.notes.append("a bare timer: a process that sleeps until each time, then asks the server for TIME")
    return result


def _zsched(arena: Arena, ground: Ground, per_s: int, seconds: int, beside: str) -> Figure:
    """*beside*: the role of a process that puts schedules meanwhile, or ""."""
    client, length_ms = ground.client(), 1000 * seconds
    recurring = per_s * seconds // _RECURRING
    one_shots = per_s * seconds - recurring
    with ExitStack() as stack:
        stack.enter_context(leader(arena, ground, "daemon-of-unit" if beside else "daemon"))
        if beside == "http":
            ground.redis.config_set("slowlog-log-slower-than", _SLOW_MS * 1000)
            stack.enter_context(running(arena, beside, ground.url, _HTTP, _STREAMS, seconds + 60))
            arena.wait_for("the callers are there", lambda: ground.redis.exists(HTTP_KEY))
        puts_ms = (one_shots // 50 + recurring) * (_SLOWED if beside == "http" else 1)
        first_ms = arena.clock.now_ms() + _LEAD_MS + puts_ms
        pulses = load.spread(recurring, first_ms, length_ms, "pulse")
        client.schedule_many(
            {"func": load.FUNC, "id": id, "every": 3600, "starts": from_ms(due_ms), "args": load.ARGS}
            for id, due_ms in pulses
        )
        timed = load.spread(one_shots, first_ms, length_ms)
        load.put(client, timed)
        if arena.clock.now_ms() > first_ms - _LEAD_MS // 2:
            raise Broken("putting took longer than expected: the first runs were due already")
        ground.redis.slowlog_reset()  # forget the scripts of these puts
        if beside in ("puts", "bulk"):
            numbers = (_PUTS, seconds + 60) if beside == "puts" else ()
            stack.enter_context(running(arena, beside, ground.url, *numbers))
        arena.sleep_until(first_ms + length_ms + _AFTER_MS)
    load.prove_once(load.run_ids([*pulses, *timed]), load.queued(ground.redis))
    late = Lateness.of(journal.lateness_ms(list(journal.fires(ground))))
    put = ground.waiting() - recurring  # what is left in the lanes, beside the next occurrences
    if beside and put < (_HTTP if beside == "http" else _PUTS) * seconds:
        raise Broken(f"only {put:,} puts were made meanwhile: this machine is too busy to say")
    others = {"puts": float(put), "longest script ms": max(ground.slow_scripts_ms(), default=0.0)} if beside else {}
    return Figure(late.p99, late.others() | others)


def _timer(arena: Arena, ground: Ground, per_s: int, seconds: int) -> Figure:
    with running(arena, "timer", ground.url, per_s, seconds):
        arena.wait_for("the timer is done", lambda: ground.redis.exists(TIMER_KEY), 30.0 + 2 * seconds)
    return _summary([int(us) / 1000 for us in ground.redis.lrange(TIMER_KEY, 0, -1)])


def _rq(arena: Arena, ground: Ground, per_s: int, seconds: int) -> Figure:
    count = per_s * seconds
    timed = load.spread(count, arena.clock.now_ms() + _LEAD_MS + count // 2, 1000 * seconds)
    rq.insert(ground.redis, timed)
    with running(arena, "rq-scheduler", ground.url):
        arena.wait_for("RQ has queued all", lambda: ground.redis.llen(load.QUEUE_KEY) == count, 30.0 + 2 * seconds)
    return _summary(rq.lateness_ms(ground.redis, timed))


def _bullmq(arena: Arena, ground: Ground, per_s: int, seconds: int) -> Figure:
    told = BullMQ.find().measure(arena, ground.url, "lateness", per_s=per_s, seconds=seconds)
    return _summary(told["late_ms"])


def _summary(late: list[float]) -> Figure:
    others = {"p50": percentile(late, 50), "max": max(late), "min": min(late)}
    return Figure(percentile(late, 99), others)
