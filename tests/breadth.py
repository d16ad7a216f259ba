"""
The cases of tests: all of them in `make test-all` (``ZSCHED_TEST_ALL=1``), a few in the usual run, always the same.
"""

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from hypothesis import settings

T = TypeVar("T")


def everything() -> bool:
    """Return True when each test runs with all of its cases."""
    return os.environ.get("ZSCHED_TEST_ALL") == "1"


def examples(number: int) -> int:
    """Return the number of examples for a test of hypothesis: a quarter of *number* in `make check`."""
    return number * settings().max_examples // 100


def some(cases: Iterable[T], *usual: T) -> list[T]:
    """Return *usual*, a choice from *cases*; all *cases* in `make test-all`. ValueError: a usual case is unknown."""
    whole = list(cases)
    if unknown := [case for case in usual if case not in whole]:
        raise ValueError(f"{unknown} are not among the cases: {whole}")
    return whole if everything() else list(usual)


def each(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return rows in which each value of each axis occurs at least once; the cross product in `make test-all`."""
    if everything():
        return list(itertools.product(*axes))
    return [tuple(axis[n % len(axis)] for axis in axes) for n in range(max(map(len, axes)))]


def pairs(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """
    Return rows, each with a value of each axis, in which each pair of values of two axes occurs at least once; the
    whole cross product in `make test-all`. A greedy choice of about as many rows as the two longest axes have pairs.
    """
    if everything() or len(axes) < 3:
        return list(itertools.product(*axes))
    # Values by their places: they need not be hashable. A dictionary is a set that keeps its order.
    places = [range(len(axis)) for axis in axes]
    both = list(itertools.combinations(range(len(axes)), 2))
    missing = dict.fromkeys((a, i, b, j) for a, b in both for i, j in itertools.product(places[a], places[b]))
    chosen = []
    while missing:
        a, i, b, j = next(iter(missing))
        row = {a: i, b: j}
        for axis in sorted(set(range(len(axes))) - {a, b}, key=lambda axis: -len(axes[axis])):
            gains = []
            for value in places[axis]:
                tried = {**row, axis: value}
                gains.append(sum((a, tried[a], b, tried[b]) in missing for a, b in both if a in tried and b in tried))
            row[axis] = gains.index(max(gains))
        for a, b in both:
            missing.pop((a, row[a], b, row[b]), None)
        chosen.append([row[axis] for axis in range(len(axes))])
    return [tuple(axis[place] for axis, place in zip(axes, row, strict=True)) for row in sorted(chosen)]
