"""
The speed of this machine at this moment, as a multiple of the machine that the goals were set for.

Shared machines are slower in one hour than in the next, and any machine differs from the one of the goals. So a fixed
piece of work is timed before and after each row: redis-py sends pipelines of new hashes to a private server. This is
Python's work and Redis's, about half and half. Goals in time units and rates are then scaled by the speed
(``bench.results.Goal``).
"""

from statistics import median
from typing import Final

from bench.arena import Arena, Ground

_COMMANDS: Final = 10_000
_PIPELINE: Final = 500  # commands
_TIMES: Final = 5
# On the machine of the goals raw commands of the row ``dispatch`` made 533,000/s. Where they made 282,000/s (median of
# eight turns), this work made 66,000/s.
_REFERENCE_PER_S: Final = 125_000.0
_FIELDS: Final = {
    "status": "scheduled",
    "created_at": "2026-11-21T08:00:00.123000Z",
    "origin": "default",
    "data": "x" * 60,
}


def speed(arena: Arena, ground: Ground) -> float:
    """Time the fixed work. Return 1 for a machine like the one of the goals, 0.5 for one that is half as fast."""
    took_ms = [_work_ms(arena, ground) for _ in range(_TIMES)]
    return _COMMANDS / median(took_ms) * 1000 / _REFERENCE_PER_S


def _work_ms(arena: Arena, ground: Ground) -> float:
    ground.redis.flushall()
    started_ms = arena.clock.monotonic_ms()
    with ground.redis.pipeline(transaction=False) as pipeline:
        for number in range(_COMMANDS):
            pipeline.hset(f"yardstick:{number}", mapping=_FIELDS)
            if (number + 1) % _PIPELINE == 0:
                pipeline.execute()
    return arena.clock.monotonic_ms() - started_ms
