"""The figures at the end of the demo."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from zsched.demo.runs import FINISHED, DemoRun


@dataclass
class Summary:
    """Counts and latenesses; add what was seen. A run is executed when a worker finished it."""

    late_ms: list[float] = field(default_factory=list)  # one per run that fired
    waited_ms: list[float] = field(default_factory=list)
    executed: int = 0
    failed: int = 0

    @property
    def fired(self) -> int:
        return len(self.late_ms)

    @property
    def is_good(self) -> bool:
        """True if the workers executed all that fired."""
        return self.fired == self.executed

    def add_fired(self, late_ms: float) -> None:
        """A run was pushed."""
        self.late_ms.append(late_ms)

    def add_over(self, run: DemoRun) -> None:
        """A worker is done with a run, well or badly."""
        if run.status == FINISHED:
            self.executed += 1
        else:
            self.failed += 1
        if run.waited_ms is not None:
            self.waited_ms.append(run.waited_ms)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON; in milliseconds, None where nothing fired."""
        figures = zip(("p50", "p99", "max"), _figures(self.late_ms), strict=True)
        late = {name: None if ms is None else round(ms, 3) for name, ms in figures}
        return {"fired": self.fired, "executed": self.executed, "failed": self.failed, "late_ms": late}

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.fired:,} runs fired, {self.executed:,} executed, {self.failed:,} failed"
        for title, values in (("late, due to queued", self.late_ms), ("queued to started", self.waited_ms)):
            p50, p99, most = _figures(values)
            if p50 is not None and p99 is not None and most is not None:
                yield f"{title}: p50 {p50:,.1f} ms, p99 {p99:,.1f} ms, max {most:,.1f} ms"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of *values* (at least one) that *share* of them do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def _figures(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    if not values:
        return None, None, None
    return percentile(values, 0.5), percentile(values, 0.99), max(values)
