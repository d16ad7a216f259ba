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
from itertools import zip_longest
from typing import Any, Final

import click

from zsched.core.clock import Clock
from zsched.core.model import seconds
from zsched.core.occurrences.changes import Change
from zsched.core.runs.run import Run, RunStatus

# -- the figures at the end -------------------------------------------------------------------------


@dataclass
class Summary:
    """Latenesses and ends of the seen runs. A run counts as executed when a worker has finished it."""

    late_ms: list[float] = field(default_factory=list)  # one per run that fired
    over: list[Run] = field(default_factory=list)

    @property
    def executed(self) -> int:
        return sum(run.status is RunStatus.SUCCEEDED for run in self.over)

    @property
    def is_good(self) -> bool:
        """Return True if the workers executed all fired runs."""
        return len(self.late_ms) == self.executed

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON; durations in seconds, None if nothing fired."""
        late = {name: seconds(ms) for name, ms in zip_longest(("p50", "p99", "max"), _figures(self.late_ms))}
        failed = len(self.over) - self.executed
        return {"fired": len(self.late_ms), "executed": self.executed, "failed": failed, "late_s": late}

    def lines(self) -> Iterator[str]:
        """Yield the summary as lines for people."""
        yield "{fired:,} runs fired, {executed:,} executed, {failed:,} failed".format(**self.to_dict())
        waited_ms = [run.queue_wait_ms for run in self.over if run.queue_wait_ms is not None]
        for title, values in (("late, due to queued", self.late_ms), ("queued to started", waited_ms)):
            if figures := _figures(values):
                yield "{}: p50 {:,.1f} ms, p99 {:,.1f} ms, max {:,.1f} ms".format(title, *figures)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of *values* (at least one) that *share* of them do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def _figures(values: Sequence[float]) -> list[float]:
    return [percentile(values, 0.5), percentile(values, 0.99), max(values)] if values else []


# -- lines ------------------------------------------------------------------------------------------


_ALIKE: Final = 3  # runs; more at one time are a burst
_BURST_MS: Final = 1000  # between two lines about one burst
_NUMBERED: Final = re.compile(r"[-_]?\d+$")
_COLOURS: Final = {"push": "magenta", "sms": "yellow", "email": "cyan"}
_GOOD: Final = {"fired": None, "passed": "yellow", "succeeded": "green", "ran": "green"}


@dataclass
class _Burst:
    """Runs that are shown together. ``untold``: those that are over since its last line."""

    name: str
    queue: str
    told_ms: float = 0.0
    total: int = 0
    done: int = 0
    failed: int = 0
    untold: list[Run] = field(default_factory=list)


class Screen:
    """Writes lines to stdout, or to stderr when stdout is for JSON. Times are seconds from ``begin`` on."""

    def __init__(self, clock: Clock, *, to_stderr: bool = False) -> None:
        self._clock, self._to_stderr = clock, to_stderr
        self._begun_ms = clock.monotonic_ms()
        self._bursts: dict[tuple[str, int | None], _Burst] = {}
        self._burst_of: dict[str, _Burst] = {}

    def begin(self, at_ms: float) -> None:
        """Set second 0 to *at_ms* of the monotonic clock."""
        self._begun_ms = at_ms

    def say(self, line: str = "") -> None:
        """Write a line unchanged."""
        click.echo(line, err=self._to_stderr)

    def fired(self, runs: Iterable[Run]) -> None:
        """Show pushed runs."""
        alike: dict[tuple[str, int | None], list[Run]] = defaultdict(list)
        for run in runs:
            alike[_NUMBERED.sub("", run.schedule_id), run.nominal_ms].append(run)
        for key, group in alike.items():
            late = [run.lateness_ms or 0 for run in group]
            if len(group) > _ALIKE or key in self._bursts:
                burst = self._bursts.setdefault(key, _Burst(f"{key[0]}-*", group[0].queue))
                burst.total += len(group)
                burst.told_ms = self._clock.monotonic_ms()
                self._burst_of.update((run.id, burst) for run in group)
                text = f"{len(group):,} runs, {percentile(late, 0.5):.1f} ms late (p50), {max(late):.1f} ms the last"
                self._line(burst.queue, "fired", burst.name, text)
            else:
                for run, late_ms in zip(group, late, strict=True):
                    self._line(run.queue, "fired", run.schedule_id, f"{late_ms:.1f} ms late")

    def not_fired(self, change: Change) -> None:
        """Show an occurrence that was not pushed."""
        self._line("", "passed", change.id, f"{change.what.value} {change.why}".rstrip())

    def over(self, run: Run, said: str) -> None:
        """Show the end of a run, or count it for its burst."""
        burst = self._burst_of.pop(run.id, None)
        if burst is None:
            text = f"started after {run.queue_wait_ms or 0} ms, took {run.duration_ms or 0} ms"
            self._line(run.queue, run.status.value, run.schedule_id, f"{text}: {said}" if said else text)
        else:
            burst.done += 1
            burst.failed += run.status is not RunStatus.SUCCEEDED
            burst.untold.append(run)

    def is_in_burst(self, run: Run) -> bool:
        """Return True if *run* is part of a burst."""
        return run.id in self._burst_of

    def bursts(self) -> None:
        """Show the progress of bursts, each at most once a second."""
        now_ms = self._clock.monotonic_ms()
        for burst in self._bursts.values():
            if burst.untold and (now_ms - burst.told_ms >= _BURST_MS or burst.done == burst.total):
                waited = percentile([run.queue_wait_ms or 0 for run in burst.untold], 0.5)
                took = percentile([run.duration_ms or 0 for run in burst.untold], 0.5)
                count = f"{burst.done:,} of {burst.total:,}" + (f", {burst.failed:,} failed" if burst.failed else "")
                text = f"{count}: started after {waited:,} ms, took {took:,} ms (p50)"
                self._line(burst.queue, "ran", burst.name, text)
                burst.told_ms, burst.untold = now_ms, []

    def _line(self, queue: str, word: str, name: str, text: str) -> None:
        seconds = (self._clock.monotonic_ms() - self._begun_ms) / 1000
        shown_queue = click.style(f"{queue:<6}", fg=_COLOURS.get(queue))
        shown_word = click.style(f"{word:<9}", fg=_GOOD.get(word, "red"))
        self.say(f"{seconds:6.1f} s  {shown_queue} {shown_word} {name:<16} {text}")
