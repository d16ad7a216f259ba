"""
The live output: a line for each fired run, and a line for its end.

More than a few runs of similar schedules at one time are a *burst*: one line when they fire, and one line per second
while the workers execute them.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

from zsched.core.clock import Clock
from zsched.core.model import seconds
from zsched.demo.runs import FINISHED, DecidedOccurrence, DemoRun

# -- the figures at the end -------------------------------------------------------------------------


@dataclass
class Summary:
    """Counts and latenesses of the seen runs. A run counts as executed when a worker has finished it."""

    late_ms: list[float] = field(default_factory=list)  # one per run that fired
    waited_ms: list[float] = field(default_factory=list)
    executed: int = 0
    failed: int = 0

    @property
    def fired(self) -> int:
        return len(self.late_ms)

    @property
    def is_good(self) -> bool:
        """Return True if the workers executed all fired runs."""
        return self.fired == self.executed

    def add_fired(self, late_ms: float) -> None:
        """Count a pushed run."""
        self.late_ms.append(late_ms)

    def add_over(self, run: DemoRun) -> None:
        """Count a finished run, succeeded or failed."""
        if run.status == FINISHED:
            self.executed += 1
        else:
            self.failed += 1
        if run.waited_ms is not None:
            self.waited_ms.append(run.waited_ms)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON; durations in seconds, None if nothing fired."""
        figures = zip(("p50", "p99", "max"), _figures(self.late_ms), strict=True)
        late = {name: seconds(ms) for name, ms in figures}
        return {"fired": self.fired, "executed": self.executed, "failed": self.failed, "late_s": late}

    def lines(self) -> Iterator[str]:
        """Yield the summary as lines for people."""
        yield f"{self.fired:,} runs fired, {self.executed:,} executed, {self.failed:,} failed"
        for title, values in (("late, due to queued", self.late_ms), ("queued to started", self.waited_ms)):
            p50, p99, most = _figures(values)
            if p50 is not None and p99 is not None and most is not None:
                yield f"{title}: p50 {p50:,.1f} ms, p99 {p99:,.1f} ms, max {most:,.1f} ms"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of *values* (at least one) that *share* of them do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def _figures(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    if not values:
        return None, None, None
    return percentile(values, 0.5), percentile(values, 0.99), max(values)


# -- lines ------------------------------------------------------------------------------------------


_ALIKE: Final = 3  # runs; more at one time are a burst
_BURST_MS: Final = 1000  # between two lines about one burst
_NUMBERED: Final = re.compile(r"[-_]?\d+$")
_COLOURS: Final = {"push": "magenta", "sms": "yellow", "email": "cyan"}


@dataclass
class _Burst:
    """Runs that are shown together."""

    name: str
    queue: str
    total: int = 0
    done: int = 0
    failed: int = 0
    told_ms: float = 0.0
    untold: list[DemoRun] = field(default_factory=list)


class Screen:
    """Writes lines to stdout, or to stderr when stdout is for JSON. Times are seconds from ``begin`` on."""

    def __init__(self, clock: Clock, *, to_stderr: bool = False) -> None:
        self._clock, self._to_stderr = clock, to_stderr
        self._begun_ms = clock.monotonic_ms()
        self._bursts: dict[tuple[str, int], _Burst] = {}
        self._burst_of: dict[str | None, _Burst] = {}

    def begin(self, at_ms: float) -> None:
        """Set second 0 to *at_ms* of the monotonic clock."""
        self._begun_ms = at_ms

    def say(self, line: str = "") -> None:
        """Write a line unchanged."""
        click.echo(line, err=self._to_stderr)

    def fired(self, runs: Iterable[DemoRun]) -> None:
        """Show pushed runs."""
        alike: dict[tuple[str, int], list[DemoRun]] = defaultdict(list)
        for run in runs:
            alike[_NUMBERED.sub("", run.occurrence.schedule_id), run.occurrence.nominal_ms].append(run)
        for key, group in alike.items():
            if len(group) > _ALIKE or key in self._bursts:
                self._burst_fired(key, group)
            else:
                for run in group:
                    self._line(run.queue, "fired", run.occurrence.schedule_id, f"{run.occurrence.late_ms:.1f} ms late")

    def not_fired(self, occurrence: DecidedOccurrence) -> None:
        """Show an occurrence that was not pushed."""
        self._line("", "passed", occurrence.schedule_id, occurrence.why)

    def over(self, run: DemoRun, said: str | None) -> None:
        """Show the end of a run, or count it for its burst."""
        burst = self._burst_of.pop(run.occurrence.run_id, None)
        if burst is not None:
            burst.done += 1
            burst.failed += run.status != FINISHED
            burst.untold.append(run)
            return
        times = f"started after {run.waited_ms or 0:.1f} ms, took {run.took_ms or 0:.1f} ms"
        remark = f": {said}" if said else ""
        self._line(run.queue, run.status, run.occurrence.schedule_id, f"{times}{remark}")

    def is_in_burst(self, run: DemoRun) -> bool:
        """Return True if *run* is part of a burst."""
        return run.occurrence.run_id in self._burst_of

    def bursts(self) -> None:
        """Show the progress of bursts, each at most once a second."""
        now_ms = self._clock.monotonic_ms()
        for burst in self._bursts.values():
            if burst.untold and (now_ms - burst.told_ms >= _BURST_MS or burst.done == burst.total):
                waited = percentile([run.waited_ms or 0 for run in burst.untold], 0.5)
                took = percentile([run.took_ms or 0 for run in burst.untold], 0.5)
                count = f"{burst.done:,} of {burst.total:,}" + (f", {burst.failed:,} failed" if burst.failed else "")
                self._line(
                    burst.queue, "ran", burst.name, f"{count}: started after {waited:,.0f} ms, took {took:.1f} ms (p50)"
                )
                burst.told_ms, burst.untold = now_ms, []

    def _burst_fired(self, key: tuple[str, int], group: list[DemoRun]) -> None:
        burst = self._bursts.setdefault(key, _Burst(f"{key[0]}-*", group[0].queue))
        burst.total += len(group)
        burst.told_ms = self._clock.monotonic_ms()
        self._burst_of.update((run.occurrence.run_id, burst) for run in group)
        late = [run.occurrence.late_ms for run in group]
        text = f"{len(group):,} runs, {percentile(late, 0.5):.1f} ms late (p50), {max(late):.1f} ms the last"
        self._line(burst.queue, "fired", burst.name, text)

    def _line(self, queue: str, word: str, name: str, text: str) -> None:
        seconds = (self._clock.monotonic_ms() - self._begun_ms) / 1000
        shown_queue = click.style(f"{queue:<6}", fg=_COLOURS.get(queue))
        good = {"fired": None, "passed": "yellow", FINISHED: "green", "ran": "green"}
        shown_word = click.style(f"{word:<9}", fg=good.get(word, "red"))
        self.say(f"{seconds:6.1f} s  {shown_queue} {shown_word} {name:<16} {text}")
