"""
zsched's log as the measuring instrument: when each run was fired, by the server's own clock.

An entry's ``t`` is TIME in µs as its script began. What a script pushes is visible when it ends, up to
3 ms later (``script_target_ms``); its duration is not in the lateness, but is in rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.arena import Ground
from bench.results import Broken, percentile
from zsched.core.entry import Entry
from zsched.core.log.fires import AdvanceEntry
from zsched.core.log.lives import EndEntry
from zsched.core.runs.run_id import RunId
from zsched.storage.log import Log

_PAGE = 1000  # entries per read


@dataclass(frozen=True, slots=True)
class Fire:
    """
    One script's runs. ``kind`` is fire (one-shots) or advance (recurring); ``epoch`` its leader's;
    ``coalesced`` counts occurrences that were folded into a later one.
    """

    epoch: int
    kind: str
    t_us: int
    runs: list[str]
    coalesced: int = 0


@dataclass(frozen=True, slots=True)
class Lateness:
    """Lateness of runs, in ms."""

    p50: float
    p99: float
    max: float
    min: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Lateness:
        """
        The summary of *values* in ms.

        Raises:
            Broken: there are none, or a run was early.
        """
        if not values:
            raise Broken("no run was fired")
        if min(values) < 0:
            raise Broken(f"a run was {-min(values):.3f} ms early")
        return cls(percentile(values, 50), percentile(values, 99), max(values), min(values))

    def others(self) -> dict[str, float]:
        """Return the figures beside the 99th percentile."""
        return {"p50": self.p50, "max": self.max, "min": self.min}


def fires(ground: Ground) -> Iterator[Fire]:
    """The entries of the log that fired something, in order."""
    for page in _pages(ground, "-"):
        for entry in page:
            if entry.kind == "fire" and (runs := entry.fields().get(b"runs")):
                yield Fire(entry.position.epoch, entry.kind, entry.position.t_us, runs.decode().split(" "))
            elif (advance := AdvanceEntry.of(entry)) is not None:
                yield _advanced(advance)


class Ends:
    """Delays from a run's end to its log entry, by the worker's clock and the server's; read bit by bit."""

    def __init__(self, ground: Ground) -> None:
        self._ground, self._after = ground, "-"
        self.late_ms: list[float] = []
        self._ended_ms: list[int] = []

    def read(self) -> int:
        """Read on; how many ends were recorded by now."""
        for page in _pages(self._ground, self._after):
            for entry in page:
                if (end := EndEntry.of(entry)) is not None:
                    ended_ms = [run.ended_ms for run in end.ended_runs() if run.ended_ms is not None]
                    self._ended_ms += ended_ms
                    self.late_ms += [entry.position.t_us / 1000 - each for each in ended_ms]
            if page:
                self._after = f"({page[-1].position.id}"
        return len(self.late_ms)

    def per_second(self) -> float:
        """At what rate they ended."""
        return len(self._ended_ms) / max(max(self._ended_ms) - min(self._ended_ms), 1) * 1000


def per_second(fired: Sequence[Fire]) -> float:
    """
    Runs per second from the first entry to the last. The last batch's own time is not known, so it is
    not counted; connecting and starting are before the first.

    Raises:
        Broken: too few entries to tell.
    """
    if len(fired) < 2:
        raise Broken("fewer than two batches: too small to measure")
    return sum(len(one.runs) for one in fired[:-1]) / (fired[-1].t_us - fired[0].t_us) * 1_000_000


def lateness_ms(fired: Sequence[Fire], from_ms: int = 0, until_ms: int = 1 << 62) -> list[float]:
    """Return the lateness of each run whose nominal time is in [*from_ms*, *until_ms*)."""
    late = []
    for one in fired:
        for run in one.runs:
            nominal_ms = nominal(run)
            if from_ms <= nominal_ms < until_ms:
                late.append(one.t_us / 1000 - nominal_ms)
    return late


def nominal(run: str) -> int:
    """The time that a run id says, in ms."""
    parsed = RunId.parse(run)
    if parsed is None:
        raise Broken(f"{run!r} is not a run id")
    return parsed.nominal_ms


def _pages(ground: Ground, after: str) -> Iterator[list[Entry]]:
    """The log's entries behind *after*, in pages."""
    with ground.wire() as wire:
        while True:
            page = Log(wire, ground.keys).read(after, _PAGE)
            yield page
            if len(page) < _PAGE:
                return
            after = f"({page[-1].position.id}"


def _advanced(advance: AdvanceEntry) -> Fire:
    """Return the runs that an entry of advance.lua tells of."""
    position, moves = advance.entry.position, advance.moves
    runs = [f"{move.id}-{move.run}" for move in moves if move.outcome.is_pushed]
    coalesced = sum(one.number for move in moves for one in move.passed)
    return Fire(position.epoch, "advance", position.t_us, runs, coalesced)
