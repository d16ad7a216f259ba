"""
Results of a row and its goals: plain values and their arithmetic.

A *series* is one contestant's figure, once per repetition. Ratios are of medians: repetitions are
interleaved, so the noise of a shared machine meets all contestants alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


class Broken(Exception):
    """The run is not worth its figures: something was lost, doubled or early."""


class Absent(Exception):
    """A contestant is not installed; the text says how to get it."""


@dataclass(slots=True)
class Series:
    """
    One contestant's figure in *unit*; ``details`` are further figures of the same repetitions.

    ``size`` says what it was measured with, in words.
    """

    who: str
    size: str
    unit: str
    values: list[float] = field(default_factory=list)
    details: dict[str, list[float]] = field(default_factory=dict)

    def add(self, value: float, **details: float) -> None:
        """One repetition more."""
        self.values.append(value)
        for name, detail in details.items():
            self.details.setdefault(name, []).append(detail)

    @property
    def median(self) -> float | None:
        """None when no repetition succeeded."""
        return median(self.values) if self.values else None

    def detail(self, name: str) -> float | None:
        """The median of one of the details."""
        values = self.details.get(name)
        return median(values) if values else None


@dataclass(frozen=True, slots=True)
class Goal:
    """
    A *value* to reach: at least *limit* if *is_floor*, else at most; *text* says the limit in words. ``power`` is how
    the limit goes with the machine's speed: 1 for a rate, -1 for a time, 0 for a ratio or a size.
    """

    text: str
    value: float
    limit: float
    is_floor: bool
    power: int = 0

    def limit_at(self, speed: float) -> float:
        """Return the limit for a machine of this *speed*, 1 being that of the machine the goals were set for."""
        return self.limit * speed**self.power

    def is_met_at(self, speed: float) -> bool:
        """Return True if the value reaches the limit for a machine of this *speed*."""
        limit = self.limit_at(speed)
        return self.value >= limit if self.is_floor else self.value <= limit


@dataclass(slots=True)
class Result:
    """
    One row of the report. ``baseline`` is the series that the others are told as multiples of.

    ``notes`` say what was left out or how to read it; ``broken`` what went wrong. ``speed``: of the machine meanwhile
    (``bench.yardstick``).
    """

    row: str
    title: str
    baseline: str | None = None
    series: list[Series] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    speed: float = 1.0

    def open(self, who: str, size: str, unit: str) -> Series:
        """A series of this row; the same one when asked again."""
        known = self.find(who)
        if known is None:
            known = Series(who, size, unit)
            self.series.append(known)
        return known

    def find(self, who: str) -> Series | None:
        """The series of *who*."""
        return next((one for one in self.series if one.who == who), None)

    def ratio(self, who: str, base: str | None = None) -> float | None:
        """The median of *who* as a multiple of that of *base* (else ``baseline``); None if one is missing."""
        above, below = self.find(who), self.find(base or self.baseline or "")
        if above is None or below is None or above.median is None or not below.median:
            return None
        return above.median / below.median

    def at_least(self, text: str, value: float | None, limit: float) -> None:
        """Add the goal that *value*, a ratio, is *limit* or more. What was not measured is no goal."""
        self._add(text, value, limit, is_floor=True)

    def at_most(self, text: str, value: float | None, limit: float) -> None:
        """Add the goal that *value*, a ratio, a size or a lease, is *limit* or less on any machine."""
        self._add(text, value, limit, is_floor=False)

    def at_rate(self, text: str, value: float | None, limit: float) -> None:
        """Add the goal that *value*, per second, is *limit* or more on a machine of speed 1."""
        self._add(text, value, limit, is_floor=True, power=1)

    def within(self, text: str, value: float | None, limit: float) -> None:
        """Add the goal that *value*, a time or a share of a core, is *limit* or less on a machine of speed 1."""
        self._add(text, value, limit, is_floor=False, power=-1)

    def _add(self, text: str, value: float | None, limit: float, *, is_floor: bool, power: int = 0) -> None:
        if value is not None:
            self.goals.append(Goal(f"{'≥' if is_floor else '≤'} {text}", value, limit, is_floor, power))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of *values* that at least *percent* % of them do not exceed (nearest rank)."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(int(rank), 1) - 1]
