"""
Measurements of one daemon, kept until somebody asks: those that it told while it worked (``daemon.meter``), and counts
of what the log says of the terms that it led.

Every daemon's archive follows the whole log. So that the sum over all daemons counts everything once, each counts what
was written in its own terms: an entry's id begins with its epoch. It counts when its archive has taken an entry in, in
the archiver's thread; what fires computes nothing. What an archive is given a second time, after a loss, counts once.
An archivist in a process of its own has a meter of its own, which counts for that of the daemon (``counts`` and
``counted``, about once a second).

Not guaranteed: that anybody counts what clients wrote while nobody led, when the leader before that is gone, nor the
last entries of a daemon that was killed. While the archive
is in trouble the counts stand still; they catch up when it reads the log again, but for what was trimmed from it
meanwhile. They begin with 0 in each process that archives: ask Prometheus for rates and increases.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import accumulate
from threading import Lock
from typing import Any, Final

from zsched.core.changes import OUTCOMES as DECIDED
from zsched.core.changes import What
from zsched.core.log import Entry, Position, UnknownEntry, kinds_telling, parse, reading
from zsched.core.log.kinds import ParsedEntry
from zsched.core.runs import Run
from zsched.health.facts import DaemonHealth

# -- labels -----------------------------------------------------------------------------------------


MOST: Final = 50  # values of one label: with more queues a scrape takes longer than 10 ms (measured)
OTHER: Final = "other"  # stands for those that came later
UNKNOWN: Final = "unknown"  # nobody recorded it
_LONGEST: Final = 200  # characters


class Names:
    """The first names that came, each under itself, *most* of them at most; the others are all ``other``."""

    def __init__(self, most: int = MOST) -> None:
        self._room, self._known, self._lock = most, {name: name for name in (OTHER, UNKNOWN)}, Lock()

    def of(self, name: str) -> str:
        """
        The label's value for *name*; the same from now on, also the same object: a pickle of the counts has it once.
        Any thread may ask.
        """
        if (known := self._known.get(name)) is not None:
            return known
        name = label_text(name) or UNKNOWN
        with self._lock:
            if name not in self._known and self._room:
                self._room -= 1
                self._known[name] = name
        return self._known.get(name, OTHER)


def label_text(value: str) -> str:
    """*value* as UTF-8 can say it, cut to a length that is bearable in each line of a page."""
    return value.encode(errors="backslashreplace").decode()[:_LONGEST]


# -- histograms -------------------------------------------------------------------------------------


class Distribution:
    """
    Counts values by *bounds*: each is the largest value of its bucket; they rise.

    One thread notes. Another one may read meanwhile, and then sees some of what is being noted, and perhaps a sum that
    is ahead of the counts: nothing that the next reading does not mend.
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)  # the last: larger than all bounds
        self.total = 0.0

    def note(self, value: float) -> None:
        """One value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def note_all(self, values: list[float]) -> None:
        """Many values, which are sorted for it: a tenth of the time that each by itself takes."""
        values.sort()
        counts, before = self._counts, 0
        for number, bound in enumerate(self._bounds):
            until = bisect_right(values, bound, before)
            counts[number] += until - before
            before = until
        counts[-1] += len(values) - before
        self.total += sum(values)

    def buckets(self) -> list[tuple[str, float]]:
        """Return the buckets for Prometheus: each bound with the number of values that are no larger, ``+Inf`` last."""
        return list(zip(_names_of(self._bounds), accumulate(self._counts.copy()), strict=True))


@cache
def _names_of(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*(repr(float(bound)) for bound in bounds), "+Inf")


# -- what the log says ------------------------------------------------------------------------------


# What becomes of an occurrence, or of a run that was asked for. ``uncertain`` ones were fired too, and may have been
# before; ``fired`` counts the others.
OUTCOMES: Final = tuple(
    "fired enqueued uncertain skipped_overlap skipped_paused skipped_uncertain skipped_missed skipped_limit expired "
    "coalesced duplicate cancelled quarantined pushed_again held withdrawn".split()
)
_COUNTED: Final = (*DECIDED, What.RUN_ENDED)  # a kind that tells of none of it need not be read

LATENESS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)
WAIT_S: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 7200)  # in a queue
DURATION_S: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 7200)
TIMEOUT_RATIO: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1)  # above 1: it was stopped, or should have been
_COUNTS: Final = ("outcomes", "lateness_s", "wait_s", "duration_s", "timeout_ratio", "ended")  # of a LogTally


class LogTally:
    """
    Counts, from the process's start on. ``led`` may be called by any thread, ``see`` by one alone; the counts may be
    read meanwhile.
    """

    def __init__(self, run_suffix: str, queues: Names, daemon: str | None = None) -> None:
        """
        *run_suffix*: the namespace's part of run ids. *daemon*: its id. A term counts from its first entry on, which
        names the daemon; one that began before the tally, from the call of ``led`` on.
        """
        self._run_suffix, self._queues, self._daemon = run_suffix, queues, daemon and daemon.encode()
        self._epochs: set[int] = set()
        self._last: Position | None = None
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.lateness_s = Distribution(LATENESS_S)
        self.wait_s = defaultdict[str, Distribution](partial(Distribution, WAIT_S))  # by queue
        self.duration_s = defaultdict[str, Distribution](partial(Distribution, DURATION_S))  # by queue
        self.timeout_ratio = Distribution(TIMEOUT_RATIO)
        self.ended: Counter[tuple[str, str]] = Counter()  # by queue and status

    def led(self, epoch: int) -> None:
        """This daemon leads, or led, in *epoch*."""
        self._epochs.add(epoch)

    def see(self, entries: Sequence[Entry]) -> None:
        """Count *entries*, if they are of its terms, and new. What cannot be read, the archiver has said."""
        kinds = kinds_telling(*_COUNTED)
        for entry in entries:
            if entry.kind == "term" and self._daemon in entry.body:
                self.led(entry.position.epoch)
            elif entry.kind in kinds and entry.position.epoch in self._epochs and self._is_new(entry.position):
                self._last = entry.position
                with suppress(UnknownEntry), reading(entry):
                    self._count(parse(entry, self._run_suffix))

    def counts(self) -> dict[str, Any]:
        """Return all counts, which change when more is seen: the thread that sees calls it."""
        return {name: getattr(self, name) for name in _COUNTS}

    def take(self, counts: dict[str, Any]) -> None:
        """Have these *counts* from now on, of another process that sees the log."""
        for name in _COUNTS:
            setattr(self, name, counts[name])

    def _is_new(self, position: Position) -> bool:
        """
        Return True if *position* is later than all that was counted. Within a history both id and time rise; what
        another one has at the same ids is later, and what another server's clock has earlier is of a later epoch.
        """
        last = self._last
        return last is None or position.order > last.order or position.t_us > last.t_us

    def _count(self, entry: ParsedEntry) -> None:
        counts, now_ms = entry.counts(), entry.at_us / 1000
        for (what, why), number in counts.happened.items():
            outcome = f"skipped_{why}" if what is What.SKIPPED else why or what.value
            if outcome in self.outcomes:
                self.outcomes[outcome] += number
        self.lateness_s.note_all([(now_ms - due_ms) / 1000 for due_ms in counts.due_ms])
        for run in entry.ended_runs():
            self._note_end(run)

    def _note_end(self, run: Run) -> None:
        queue = self._queues.of(run.queue or UNKNOWN)
        self.ended[queue, run.status.value] += 1
        if run.queue_wait_ms is not None:
            self.wait_s[queue].note(run.queue_wait_ms / 1000)
        if run.duration_ms is not None:
            self.duration_s[queue].note(run.duration_ms / 1000)
            if run.timeout_s:
                self.timeout_ratio.note(run.duration_ms / 1000 / run.timeout_s)


# -- what the daemon told ---------------------------------------------------------------------------


SCRIPT_S: Final = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)
RENEWAL_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
FIRED: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)  # by one script


class DaemonMeter:
    """
    Notes, a few hundred ns each; what the archive takes in goes to *tally*, and *health* says how the main loop is.
    May be read by any thread.
    """

    def __init__(self, tally: LogTally, health: DaemonHealth) -> None:
        self.tally, self.health = tally, health
        self.terms, self.clock_jumps = 0, 0
        self.renewal_s = Distribution(RENEWAL_S)
        self.script_s = defaultdict[str, Distribution](partial(Distribution, SCRIPT_S))
        self.fired_per_tick = Distribution(FIRED)

    def began(self, epoch: int) -> None:
        """A term began."""
        self.tally.led(epoch)
        self.terms += 1

    def renewed(self, took_ms: float) -> None:
        """The lease was renewed."""
        self.renewal_s.note(took_ms / 1000)

    def ran(self, script: str, took_ms: float, fired: int) -> None:
        """A script ran."""
        self.script_s[script].note(took_ms / 1000)
        if fired:
            self.fired_per_tick.note(fired)

    def jumped(self, by_ms: float) -> None:
        """The server's clock jumped."""
        self.clock_jumps += 1

    def archived(self, entries: Sequence[Entry]) -> None:
        """The archive has these."""
        self.tally.see(entries)

    def counts(self) -> dict[str, Any]:
        """Return the counts of the log."""
        return self.tally.counts()

    def counted(self, counts: Any) -> None:
        """Take the counts of another process."""
        self.tally.take(counts)
