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

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from zsched.core.changes import What, outcomes
from zsched.core.entries import Ended, advanced, ended, quarantined
from zsched.core.log import Entry, Position, UnknownEntry, reading
from zsched.core.runs import Run, ended_as, of_row
from zsched.metrics.distribution import Distribution
from zsched.metrics.labels import UNKNOWN, Names

# What becomes of an occurrence, or of a run that was asked for. ``uncertain`` ones were fired too, and may have been
# before; ``fired`` counts the others.
OUTCOMES: Final = tuple(
    "fired enqueued uncertain skipped_overlap skipped_paused skipped_uncertain skipped_missed skipped_limit expired "
    "coalesced duplicate cancelled quarantined pushed_again held withdrawn".split()
)
_OF_ADVANCE: Final = {  # words of advance.lua
    "fired": "fired",
    "deferred": "fired",
    "uncertain": "uncertain",
    "skipped": "skipped_uncertain",
    "overlap": "skipped_overlap",
    "expired": "expired",
    "duplicate": "duplicate",
    "quarantined": "quarantined",
}
_PASSED: Final = {"coalesced": "coalesced", "missed": "skipped_missed", "limit": "skipped_limit"}

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
        self._nominal = re.compile(rb"-(\d{1,18})%b(?: |$)" % re.escape(run_suffix.encode()))
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
        for entry in entries:
            count = _COUNTS.get(entry.kind)
            if count is not None and entry.position.epoch in self._epochs and self._is_new(entry.position):
                self._last = entry.position
                with suppress(UnknownEntry), reading(entry):
                    count(self, entry)

    def _is_new(self, position: Position) -> bool:
        """
        Whether *position* is later than all that was counted. Within a history both id and time rise; what another
        one has at the same ids is later, and what another server's clock has earlier is of a later epoch.
        """
        last = self._last
        return last is None or position.order > last.order or position.t_us > last.t_us

    # -- by the kind of entry ---------------------------------------------------------------------

    def _fire(self, entry: Entry) -> None:
        """Without a value for each run: there are up to 5,000 in an entry."""
        fields = entry.fields()
        number = {name: len(fields.get(name, b"").split()) for name in (b"runs", b"uncertain", b"skipped", b"expired")}
        self.outcomes["fired"] += number[b"runs"] - number[b"uncertain"]
        self.outcomes["uncertain"] += number[b"uncertain"]
        self.outcomes["skipped_uncertain"] += number[b"skipped"]
        self.outcomes["expired"] += number[b"expired"]
        self.outcomes["cancelled"] += len(fields.get(b"cancelled", b"").split())
        self.outcomes["quarantined"] += sum(1 for _ in quarantined(fields.get(b"quarantined")))
        now_ms = entry.position.t_us / 1000
        nominals = self._nominal.findall(fields.get(b"runs", b""))  # of a one-shot, when it was due
        self.lateness_s.note_all([(now_ms - int(nominal)) / 1000 for nominal in nominals])

    def _advance(self, entry: Entry) -> None:
        now_ms, late_s = entry.position.t_us / 1000, list[float]()
        for row in advanced(entry):
            for passed in row.passed:
                self.outcomes[_PASSED[passed.why.value]] += passed.range.count
            if row.word in _OF_ADVANCE:
                self.outcomes[_OF_ADVANCE[row.word]] += 1
            if row.is_pushed and row.nominal_ms is not None:
                late_s.append((now_ms - row.nominal_ms - row.jitter_ms) / 1000)
        self.lateness_s.note_all(late_s)

    def _end(self, entry: Entry) -> None:
        for row in ended(entry):
            run = _run_of(row)
            queue = self._queues.of(run.queue or UNKNOWN)
            self.ended[queue, run.status.value] += 1
            if run.queue_wait_ms is not None:
                self.wait_s[queue].note(run.queue_wait_ms / 1000)
            if run.duration_ms is not None:
                self.duration_s[queue].note(run.duration_ms / 1000)
                if run.timeout_s:
                    self.timeout_ratio.note(run.duration_ms / 1000 / run.timeout_s)

    def _others(self, entry: Entry) -> None:
        for change in outcomes(entry, self._run_suffix):
            outcome = f"skipped_{change.why}" if change.what is What.SKIPPED else change.what.value
            if outcome in self.outcomes:
                self.outcomes[outcome] += change.count


def _run_of(row: Ended) -> Run:
    """The run that ended; what a foreign hand made unreadable is left out."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        run = of_row(*row)
        if run.is_over:
            return run
    return Run(row.run_id, ended_as(row.status))


_COUNTS: Final[dict[str, Callable[[LogTally, Entry], None]]] = {
    "fire": LogTally._fire,
    "advance": LogTally._advance,
    "end": LogTally._end,
    **dict.fromkeys("enqueue run_now backfill cancel resume quarantine restore".split(), LogTally._others),
}
