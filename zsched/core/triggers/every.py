"""Fixed intervals of elapsed time: no zone, no summer time, everything by arithmetic on milliseconds."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final

from zsched.core.triggers.spec import Anchor, Rule, TriggerKind, TriggerSpec
from zsched.core.triggers.zones import HORIZON_S
from zsched.core.wording import DURATION_REMEDY, duration_argument, duration_text
from zsched.errors import InvalidSchedule

LONGEST_MS: Final = 36_525 * 86_400_000  # 100 years; a longer interval is a mistake in the unit

_NOISE: Final = Decimal("1e-6")  # ms by which a float may miss a whole number (0.1 + 0.2 is not 0.3)


@dataclass(frozen=True, slots=True)
class Every(Rule):
    """phase_ms + k · every_ms for every k ≥ 0, up to the horizon. Instants are epoch milliseconds."""

    every_ms: int
    phase_ms: int

    def __post_init__(self) -> None:
        if self.every_ms < 1:
            raise ValueError("an interval is at least 1 ms")

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*, or None."""
        found = self.phase_ms + max((after_ms - self.phase_ms) // self.every_ms + 1, 0) * self.every_ms
        return found if found < HORIZON_S * 1000 else None

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*, or None."""
        number = self._number(until_ms)
        return self.phase_ms + (number - 1) * self.every_ms if number else None

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]."""
        return max(self._number(until_ms) - self._number(after_ms), 0)

    def between(self, after_ms: int, until_ms: int) -> range:
        """Return the occurrences in (after_ms, until_ms]."""
        first_ms, last_ms = self.next_after(after_ms), self.last_until(until_ms)
        return range(0) if first_ms is None or last_ms is None else range(first_ms, last_ms + 1, self.every_ms)

    def _number(self, until_ms: int) -> int:
        """Count the occurrences that are not later than *until_ms*."""
        return max((min(until_ms, HORIZON_S * 1000 - 1) - self.phase_ms) // self.every_ms + 1, 0)


class _EveryKind(TriggerKind):
    name = "every"
    metavar = "DURATION"
    help = "Again and again, this far apart."
    example = 300
    cause = "the interval ends after year 9999"
    anchor = Anchor.INSTANT
    is_of_zone = False
    elsewhere = "interval"
    is_duration = True

    def parse(self, value: object, tz: str = "UTC") -> tuple[str, int | None]:
        """
        Return the interval *value*, given as seconds, text or timedelta, as whole milliseconds in decimal text.

        Raises:
            InvalidSchedule: not a number, not finite, below 1 ms, above 100 years, or not whole milliseconds.
        """
        value = duration_argument(self.name, value) if isinstance(value, str) else value
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | timedelta):
            raise InvalidSchedule(self.name, value, "not a duration", DURATION_REMEDY)
        if isinstance(value, timedelta):
            ms = Decimal(value // timedelta(microseconds=1)) / 1000
        else:
            seconds = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
            if not seconds.is_finite():
                raise InvalidSchedule(self.name, value, "not a finite number", DURATION_REMEDY)
            ms = seconds * 1000 if abs(seconds) <= LONGEST_MS else seconds  # an exponent of millions would overflow
        if ms <= 0:
            raise InvalidSchedule(self.name, value, "not a positive interval", DURATION_REMEDY)
        if ms > LONGEST_MS:
            raise InvalidSchedule(self.name, value, "longer than 100 years", "the unit is seconds")
        whole = max(round(ms), 1)
        if abs(ms - whole) > _NOISE:
            raise InvalidSchedule(self.name, value, "not whole milliseconds", f"the nearest is {Decimal(whole) / 1000}")
        return str(whole), None

    def rule(self, spec: TriggerSpec, anchor_ms: int) -> Every:
        return Every(int(spec.expr), anchor_ms if spec.starts_ms is None else spec.starts_ms)

    def to_option(self, expr: str) -> timedelta:
        return timedelta(milliseconds=int(expr))

    def describe(self, expr: str) -> str:
        return duration_text(int(expr))


EVERY: Final = _EveryKind()
