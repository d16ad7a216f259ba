"""Contestants take turns, so that the noise of a shared machine meets all of them alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import redis

from bench.arena import Arena, Ground
from bench.results import Absent, Broken, Result
from zsched.errors import ZschedError


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement, and further figures of it by name."""

    value: float
    others: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A measured contestant, with its ``size`` in words, its unit, and its function on an empty server."""

    who: str
    size: str
    unit: str
    measure: Callable[[], Figure]


def contest(arena: Arena, ground: Ground, result: Result, contestants: Sequence[Contestant]) -> None:
    """Measure each, A B C A B C, into *result*. One that is broken or absent is said so and left out from then on."""
    for one in contestants:
        result.open(one.who, one.size, one.unit)
    left = list(contestants)
    for repetition in range(1, arena.repeat + 1):
        for one in list(left):
            arena.say(f"{result.row} {repetition}/{arena.repeat}: {one.who}, {one.size}")
            ground.clear()
            try:
                figure = one.measure()
            except Absent as absent:
                result.notes.append(str(absent))
                left.remove(one)
            except (Broken, ZschedError, redis.RedisError, EOFError) as error:
                result.broken.append(f"{one.who}, {one.size}: {error}")
                left.remove(one)
            else:
                result.open(one.who, one.size, one.unit).add(figure.value, **figure.others)
    result.series = [series for series in result.series if series.values]
