"""
Measurements of one daemon: its reports while it works, and counts of log entries of its own terms.

Every daemon's archive follows the whole log. Each daemon counts only the entries of its own terms (an entry's id begins
with its epoch), so the sum over all daemons counts each entry once. The archiver's thread counts an entry when its
archive has stored it; the firing loop computes nothing. An entry that an archive receives again, after a loss, counts
once. The archivist has its own meter, and sends its counts to the daemon's about once a second (``counts`` and
``counted``).

Not guaranteed: the entries that clients wrote while no daemon led, if the leader before is gone; the last entries of a
killed daemon. While the archive fails, the counts do not change. They catch up when it reads the log again, except for
entries that were trimmed meanwhile. They begin with 0 in each process that archives: ask Prometheus for rates and
increases.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import accumulate
from threading import Lock
from typing import Any, Final

from zsched.core.entry import Entry, Position, UnknownEntry
from zsched.core.log.kinds import ParsedEntry, kinds_telling, parse
from zsched.core.occurrences.lateness import LATE_MS, Waits
from zsched.core.occurrences.outcomes import OUTCOMES, Outcome, What
from zsched.core.runs.run import Run
from zsched.daemon.meter import Meter
from zsched.health.facts import DaemonHealth

# -- labels -----------------------------------------------------------------------------------------


MOST: Final = 50  # values of one label: with more queues a scrape takes longer than 10 ms (measured)
OTHER: Final = "other"  # the label of all later names
UNKNOWN: Final = "unknown"  # not recorded
_LONGEST: Final = 200  # characters


class Names:
    """Label values of names: the first *most* names keep their own, all later ones get ``other``."""

    def __init__(self, most: int = MOST) -> None:
        self._room, self._known, self._lock = most, {name: name for name in (OTHER, UNKNOWN)}, Lock()

    def of(self, name: str) -> str:
        """
        Return the label value for *name*. Any thread may call.
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
    """Return *value* as valid UTF-8, cut to a length that suits each line of a page."""
    return value.encode(errors="backslashreplace").decode()[:_LONGEST]


# -- histograms -------------------------------------------------------------------------------------


class Distribution:
    """
    Counts values by *bounds*, in rising order; each bound is the largest value of its bucket.

    One thread writes. Another thread may read at the same time, and see a part of a change, or a sum that is ahead of
    the counts. The next reading is right again.
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)  # the last: larger than all bounds
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def observe_all(self, values: list[float]) -> None:
        """Count many values, sorted first: this takes a tenth of the time of single calls."""
        values.sort()
        counts, before = self._counts, 0
        for number, bound in enumerate(self._bounds):
            until = bisect_right(values, bound, before)
            counts[number] += until - before
            before = until
        counts[-1] += len(values) - before
        self.total += sum(values)

    def to_list(self) -> list[float]:
        """Return the counts and their total, for ``set``."""
        return [*self._counts, self.total]

    def set(self, counted: list[Any]) -> None:
        """Take over the counts of another one with the same bounds."""
        *self._counts, self.total = counted

    def buckets(self) -> list[tuple[str, float]]:
        """Return the buckets for Prometheus: each bound with the number of values that are no larger, ``+Inf`` last."""
        return list(zip(_names_of(self._bounds), accumulate(self._counts.copy()), strict=True))


@cache
def _names_of(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*(repr(float(bound)) for bound in bounds), "+Inf")


# -- what the log says ------------------------------------------------------------------------------


def _label(what: What, reason: str) -> str:
    return f"skipped_{reason}" if what is What.SKIPPED else reason or what.value


# Labels of outcomes. ``uncertain`` ones were fired, and may have been fired before; ``fired`` counts the others.
LABELS: Final = tuple(dict.fromkeys(_label(one.what, one.reason) for one in Outcome if one.what is not None))
# Kinds without any of these changes need not be parsed.
_COUNTED: Final = (*OUTCOMES, What.RUN_ENDED, What.PUT, What.RESUMED, What.REPLANNED)

LATENESS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)
WAIT_S = DURATION_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 7200)  # in a queue, and of a run
TIMEOUT_RATIO: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1)  # above 1: the run was stopped, or should have been


class LogTally(Meter):
    """
    Counts of log entries since the process's start. Any thread may call ``began`` and read the counts; only one thread
    may call ``archived``.
    """

    def __init__(self, run_suffix: str, queues: Names, daemon: str | None = None) -> None:
        """
        *run_suffix*: the namespace's part of run ids. *daemon*: its id. A term counts from its first entry, which
        names the daemon. A term that began before the tally counts from the call of ``began``.
        """
        self._run_suffix, self._queues, self._daemon = run_suffix, queues, daemon and daemon.encode()
        self._epochs: set[int] = set()
        self._last: Position | None = None
        self._waits = Waits()
        self.outcomes = dict.fromkeys(LABELS, 0)
        self.lateness_s = Distribution(LATENESS_S)
        self.wait_s = defaultdict[str, Distribution](partial(Distribution, WAIT_S))  # by queue
        self.duration_s = defaultdict[str, Distribution](partial(Distribution, DURATION_S))  # by queue
        self.timeout_ratio = Distribution(TIMEOUT_RATIO)
        self.ended: Counter[tuple[str, str]] = Counter()  # by queue and status
        self.requeued: Counter[tuple[str, str]] = Counter()  # ends among them that do not count any more

    def began(self, epoch: int) -> None:
        """Count entries of *epoch* from now on: it is a term of this daemon."""
        self._epochs.add(epoch)

    def archived(self, entries: Sequence[Entry]) -> None:
        """Count *entries* of its own terms that are new. The archiver reports entries that cannot be read."""
        kinds = kinds_telling(*_COUNTED)
        for entry in entries:
            if entry.kind == "term" and self._daemon in entry.body:
                self._epochs.add(entry.position.epoch)
            elif entry.kind in kinds:
                with suppress(UnknownEntry), parse(entry, self._run_suffix) as parsed:
                    self._waits.lates_ms(parsed.at_us, parsed.made_due(), ())
                    if entry.position.epoch in self._epochs and self._is_new(entry.position):
                        self._last = entry.position
                        self._count(parsed)

    def counts(self) -> dict[str, Any]:
        """Return a copy of all counts, for JSON. Only the thread that calls ``archived`` may call it."""
        return {
            "outcomes": self.outcomes.copy(),
            "lateness_s": self.lateness_s.to_list(),
            "timeout_ratio": self.timeout_ratio.to_list(),
            "wait_s": {queue: each.to_list() for queue, each in self.wait_s.items()},
            "duration_s": {queue: each.to_list() for queue, each in self.duration_s.items()},
            "ended": [[*key, number] for key, number in self.ended.items()],
            "requeued": [[*key, number] for key, number in self.requeued.items()],
        }

    def counted(self, counts: dict[str, Any]) -> None:
        """Replace the counts by *counts* of another process, which reads the log."""
        self.outcomes = counts["outcomes"]
        self.lateness_s.set(counts["lateness_s"])
        self.timeout_ratio.set(counts["timeout_ratio"])
        for name in ("wait_s", "duration_s"):
            for queue, each in counts[name].items():
                getattr(self, name)[queue].set(each)
        for name in ("ended", "requeued"):
            setattr(self, name, Counter({(queue, status): number for queue, status, number in counts[name]}))

    def _is_new(self, position: Position) -> bool:
        """
        Return True if *position* is later than all counted ones. Within a history id and time rise together. Another
        history has later times at the same ids, or, if its server's clock is behind, a later epoch.
        """
        last = self._last
        return last is None or position.order > last.order or position.t_us > last.t_us

    def _count(self, entry: ParsedEntry) -> None:
        counts, now_ms = entry.counts(), entry.at_us / 1000
        for (what, why), number in counts.happened.items():
            if (outcome := _label(what, why)) in self.outcomes:
                self.outcomes[outcome] += number
        lates_ms = [now_ms - due_ms for due_ms in counts.due_ms]
        if lates_ms and self._waits and max(lates_ms) > LATE_MS:
            lates_ms = self._waits.lates_ms(entry.at_us, (), entry.fired())
        self.lateness_s.observe_all([late_ms / 1000 for late_ms in lates_ms])
        for run in entry.ended_runs():
            self._note_end(run)

    def _note_end(self, run: Run) -> None:
        queue = self._queues.of(run.queue or UNKNOWN)
        self.ended[queue, run.status.value] += 1
        if run.was is not None:
            self.requeued[queue, run.was.value] += 1
        elif run.queue_wait_ms is not None:
            self.wait_s[queue].observe(run.queue_wait_ms / 1000)
        if run.duration_ms is not None:
            self.duration_s[queue].observe(run.duration_ms / 1000)
        if run.timeout_share is not None:
            self.timeout_ratio.observe(run.timeout_share)


# -- measurements of the daemon ---------------------------------------------------------------------


SCRIPT_S: Final = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)
RENEWAL_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
FIRED: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)  # by one script


class DaemonMeter(LogTally):
    """
    Records measurements, in a few hundred ns each, and counts log entries. *health* is that of the main loop. Any
    thread may read it.
    """

    def __init__(self, run_suffix: str, queues: Names, health: DaemonHealth) -> None:
        super().__init__(run_suffix, queues)
        self.health = health
        self.terms, self.clock_jumps = 0, 0
        self.renewal_s = Distribution(RENEWAL_S)
        self.script_s = defaultdict[str, Distribution](partial(Distribution, SCRIPT_S))
        self.fired_per_tick = Distribution(FIRED)

    def began(self, epoch: int) -> None:
        """Record that a term began."""
        super().began(epoch)
        self.terms += 1

    def renewed(self, took_ms: float) -> None:
        """Record a renewal of the lease."""
        self.renewal_s.observe(took_ms / 1000)

    def ran(self, script: str, took_ms: float, fired: int) -> None:
        """Record a call of a script."""
        self.script_s[script].observe(took_ms / 1000)
        if fired:
            self.fired_per_tick.observe(fired)

    def jumped(self, by_ms: float) -> None:
        """Record a jump of the server's clock."""
        self.clock_jumps += 1
