"""The future of ten thousand schedules, counted: CPU seconds of one process, without Redis."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random

from bench.arena import Arena
from bench.contest import Figure
from bench.load import FUNC
from bench.results import Result
from zsched.core.model import Schedule
from zsched.core.occurrences.future import Future, Spans
from zsched.core.options.choices import ScheduleState
from zsched.core.options.define import define_trigger
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import build, due_of

_NOW_MS = 1_796_000_000_000
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_ZONES = (
    "UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Chicago", "America/Los_Angeles",
    "America/Sao_Paulo", "Asia/Seoul", "Asia/Tokyo", "Asia/Kolkata", "Australia/Sydney", "Africa/Lagos",
)  # fmt: skip
_QUEUES = tuple(f"queue-{number}" for number in range(20))


def measure(arena: Arena) -> Result:
    """The row ``forecast``."""
    count = arena.size(10_000, 500)
    result = Result("forecast", f"{count:,} schedules, their occurrences counted by queue: CPU seconds of one process")
    cases: dict[str, tuple[str, Callable[[], Figure], float]] = {
        "300 rules, a year by hour": ("300 rules and zones", partial(_counted, count, 300, 365, _HOUR_MS), 10.0),
        "a day by minute": ("as many rules", partial(_counted, count, count, 1, _MINUTE_MS), 2.0),
        "a year by hour": ("as many rules", partial(_counted, count, count, 365, _HOUR_MS), 60.0),
    }
    for repetition in range(1, arena.repeat + 1):
        for who, (size, run, _) in cases.items():
            arena.say(f"{result.row} {repetition}/{arena.repeat}: {who}, {size}")
            figure = run()
            result.open(who, size, "s").add(figure.value, **figure.others)
    for who, (_, _, limit_s) in cases.items():
        series = result.find(who)
        result.within(f"{limit_s:g} s for {who}", series.median if series else None, limit_s)
    return result


def mixture(count: int, rules: int, seed: int = 49) -> list[Schedule]:
    """
    Return *count* schedules with *rules* different rules and zones: of 20 rules 9 are daily, 3 weekly, 2 monthly, 3
    hourly, 2 of every 5 or 15 minutes, and 1 is an interval. Every fifth has a jitter.
    """
    specs, found = _rules(Random(seed), rules), []
    for number in range(count):
        spec = specs[number % rules]
        id, trigger = f"mixed-{number:05}", build(spec, _NOW_MS)
        nominal_ms = trigger.next_after(_NOW_MS)
        assert nominal_ms is not None  # these rules have no end
        due_ms = due_of(trigger, id, nominal_ms)
        found.append(
            Schedule(
                id, ScheduleState.ACTIVE, spec.kind.name, FUNC, due_ms, spec, _NOW_MS, nominal_ms,
                tz=spec.tz, queue=_QUEUES[number % len(_QUEUES)],
            )
        )  # fmt: skip
    return found


def _rules(random: Random, number: int) -> list[TriggerSpec]:
    found: dict[TriggerSpec, None] = {}
    while len(found) < number:
        for rule in _twenty(random):
            spec = define_trigger({**rule, "tz": random.choice(_ZONES)})
            found[replace(spec, jitter_ms=300_000 if random.random() < 0.2 else 0)] = None
    return list(found)[:number]


def _twenty(random: Random) -> Iterator[dict[str, object]]:
    """Yield twenty rules, as people write them."""
    for days in ("*", "*", "*", "*", "*", "1-5", "1-5", "1-5", "MON,WED,FRI", "0", "6", "1"):
        yield {"cron": f"{random.randrange(60)} {random.randrange(24)} * * {days}"}
    yield {"cron": f"{random.randrange(60)} {random.randrange(24)} {random.randrange(1, 29)} * *"}
    yield {"rrule": f"FREQ=MONTHLY;BYDAY=-1FR;BYHOUR={random.randrange(24)};BYMINUTE={random.randrange(60)};BYSECOND=0"}
    for hours in ("*", "*", "8-20"):
        yield {"cron": f"{random.randrange(60)} {random.randrange(60)} {hours} * * *"}
    for minutes in (5, 15):
        yield {"cron": f"{random.randrange(60)} {random.randrange(minutes)}-59/{minutes} * * * *"}
    yield {"every": random.randrange(60, 21_600)}


def _counted(count: int, rules: int, days: int, step_ms: int) -> Figure:
    schedules = mixture(count, rules)
    begun_s = time.process_time()
    spans = Spans.of(_NOW_MS, _NOW_MS + days * _DAY_MS, step_ms)
    future = Future(schedules, _NOW_MS, spans.start_ms, spans.bounds[-1])
    counts = future.counts(spans, lambda one: one.queue)
    took_s = time.process_time() - begun_s
    return Figure(took_s, {"occurrences, in millions": sum(counts.totals()) / 1_000_000})
