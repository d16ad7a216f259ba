"""
Counts what the log says of the terms that this daemon led.

Every daemon's archive follows the whole log. So that the sum over all daemons counts everything once, each counts what
was written in its own terms: an entry's id begins with its epoch. It counts when its archive has taken an entry in, in
the archiver's thread; what fires computes nothing. What an archive is given a second time, after a loss, counts once.

Not guaranteed: that anybody counts what clients wrote while nobody led, when the leader before that is gone, or in the
milliseconds before the leader hears that it leads, nor the last entries of a daemon that was killed. While the archive
is in trouble the counts stand still; they catch up when it reads the log again, but for what was trimmed from it
meanwhile. They begin with 0 in each process: ask Prometheus for rates and increases.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from zsched.core.changes import OUTCOMES as DECIDED
from zsched.core.changes import What
from zsched.core.log import Entry, Position, UnknownEntry, kinds_telling, parse, reading
from zsched.core.log.kinds import ParsedEntry
from zsched.core.runs import Run
from zsched.metrics.distribution import Distribution
from zsched.metrics.labels import UNKNOWN, Names

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


class LogTally:
    """
    Counts, from the process's start on. ``led`` may be called by any thread, ``see`` by one alone; the counts may be
    read meanwhile.
    """

    def __init__(self, run_suffix: str, queues: Names) -> None:
        """*run_suffix*: the namespace's part of run ids."""
        self._run_suffix, self._queues = run_suffix, queues
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
            if entry.kind in kinds and entry.position.epoch in self._epochs and self._is_new(entry.position):
                self._last = entry.position
                with suppress(UnknownEntry), reading(entry):
                    self._count(parse(entry, self._run_suffix))

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
