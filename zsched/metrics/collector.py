"""
Prometheus' families of what this daemon did, of what the log says of its terms, and of what Redis holds.

Every daemon tells the same of Redis, so over several daemons gauges are taken as a maximum and counters as a sum. When
Redis gives no answer, ``zsched_redis_up`` is 0 and what only Redis knows is left out: yesterday's backlog would look
like today's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from zsched.core.model import Priority
from zsched.metrics.distribution import Distribution
from zsched.metrics.labels import MOST, UNKNOWN, Names, shown
from zsched.metrics.lookout import Lookout
from zsched.metrics.meter import DaemonMeter
from zsched.metrics.tally import LogTally
from zsched.storage.archivers import ArchiveState, Report
from zsched.storage.reader import Overview

_FORGOTTEN_MS: Final = 3_600_000  # an archive that reported nothing for longer has moved, or is gone


class DaemonCollector(Collector):
    """Collects of one daemon; *build*: versions, by label."""

    def __init__(self, meter: DaemonMeter, lookout: Lookout, queues: Names, build: Mapping[str, str | None]) -> None:
        self._meter, self._lookout, self._queues, self._build = meter, lookout, queues, build

    def collect(self) -> Iterator[Metric]:
        """All families."""
        yield from _of_log(self._meter.tally)
        yield from _of_daemon(self._meter)
        versions = [version or UNKNOWN for version in self._build.values()]
        yield _gauges("build_info", "Versions of this daemon.", [*self._build], [(versions, 1)])
        sight = self._lookout.look()
        yield _gauge("redis_up", "Whether Redis answered when this daemon looked last.", sight.overview is not None)
        if sight.overview is not None:
            yield from _of_redis(sight.overview)
            yield from _of_archives(sight.overview)
            yield self._of_queues(sight.depths)

    def _of_queues(self, depths: Mapping[str, int]) -> Metric:
        """The deepest first: they are the ones that should have names."""
        by_label: dict[str, int] = {}
        for queue, depth in sorted(depths.items(), key=lambda pair: (-pair[1], pair[0])):
            label = self._queues.of(queue)
            by_label[label] = by_label.get(label, 0) + depth
        rows = [([queue], depth) for queue, depth in by_label.items()]
        return _gauges("queue_depth", "Jobs that wait in RQ's queues, whoever put them there.", ["queue"], rows)


# -- what this daemon knows -------------------------------------------------------------------------


def _of_log(tally: LogTally) -> Iterator[Metric]:
    help = "What became of occurrences and of runs that were asked for, in this daemon's terms."
    fires = CounterMetricFamily("zsched_fires", help, labels=["outcome"])
    for outcome, number in tally.outcomes.items():
        fires.add_metric([outcome], number)
    yield fires
    yield _histogram("lateness_seconds", "From when an occurrence was due until its run was queued.", tally.lateness_s)
    yield _histograms("queue_wait_seconds", "From queued to started, of runs that ended.", "queue", tally.wait_s)
    yield _histograms("run_duration_seconds", "From started to ended.", "queue", tally.duration_s)
    help = "Which share of its timeout a run took."
    yield _histogram("run_timeout_ratio", help, tally.timeout_ratio)
    ended = CounterMetricFamily("zsched_runs_ended", "Runs that are over.", labels=["queue", "status"])
    for (queue, status), number in tally.ended.copy().items():
        ended.add_metric([queue, status], number)
    yield ended


def _of_daemon(meter: DaemonMeter) -> Iterator[Metric]:
    yield _gauge("leader", "1: this daemon leads; 0: it stands by.", meter.leads)
    yield CounterMetricFamily("zsched_terms", "Terms that this daemon began.", meter.terms)
    yield _histogram("fired_per_tick", "Runs that one fire or advance queued, of those that did.", meter.fired_per_tick)
    help = "Round trips that renewed the lease."
    yield _histogram("lease_renewal_seconds", help, meter.renewal_s)
    yield _histograms("script_seconds", "Round trips of the firing loop's scripts.", "script", meter.script_s)
    help = "Jumps of the Redis server's clock that held the firing."
    yield CounterMetricFamily("zsched_clock_jumps", help, meter.clock_jumps)


# -- what Redis knows -------------------------------------------------------------------------------


def _of_redis(seen: Overview) -> Iterator[Metric]:
    waiting, late_ms = sum(seen.waiting.values()), 0
    if seen.oldest_due_ms is not None:
        late_ms = max(seen.now_ms - seen.oldest_due_ms, 0)
    lanes = list(Priority)
    rows = [([lane.value], seen.waiting[lane] - seen.overdue[lane]) for lane in lanes]
    yield _gauges("due", "Schedules that wait for their time, or for room in their queue.", ["lane"], rows)
    rows = [([lane.value], seen.overdue[lane]) for lane in lanes]
    yield _gauges("overdue", "Schedules whose time has passed and that have not fired yet.", ["lane"], rows)
    yield _gauge("oldest_due_age_seconds", "How late the oldest of them is; 0 without any.", late_ms / 1000)
    states = {
        "waiting": waiting,
        "recurring": seen.recurring,
        "paused": seen.paused,
        "quarantined": seen.quarantined,
        "held_back": sum(held.waiting for held in seen.held_back),
    }
    help = "Schedules; recurring ones are of one of the other states too, held_back ones are among the waiting."
    yield _gauges("schedules", help, ["state"], [([state], number) for state, number in states.items()])
    yield _gauge("epoch", "The number of the latest term, whoever leads.", seen.epoch)
    yield _gauge("log_entries", "Entries of the log that Redis holds.", seen.log_length)


def _of_archives(seen: Overview) -> Iterator[Metric]:
    """Those that were heard of lately, but for those of daemons that stopped in order; of each place the latest."""
    lately: dict[str, Report] = {}
    for report in seen.archives:  # the latest first
        is_here = report.is_recent(seen.now_ms, _FORGOTTEN_MS) and not report.is_stopped
        if is_here and len(lately) < MOST:
            lately.setdefault(shown(report.place), report)
    lags = [([place], lag) for place, each in lately.items() if (lag := seen.behind(each)) is not None]
    yield _gauges("archive_lag_entries", "Entries of the log that an archive lacks.", ["archive"], lags)
    rows = [([place], each.state is ArchiveState.FOLLOWING) for place, each in lately.items()]
    yield _gauges("archive_following", "Whether an archive says that it follows the log.", ["archive"], rows)
    ages = [([place], max(seen.now_ms - each.told_ms, 0) / 1000) for place, each in lately.items()]
    yield _gauges("archive_seconds_since_report", "Since an archive was heard of.", ["archive"], ages)
    audits = [audit for each in lately.values() if (audit := each.audit) is not None]
    if audits:
        last = max(audits, key=lambda audit: audit.at_ms)
        yield _gauge("audit_alarms", "What the last audit found wrong, also what it put right.", last.alarms)
        yield _gauge("audit_checked", "Schedules that the last audit looked at.", last.checked)
        yield _gauge("audit_age_seconds", "Since the last audit.", max(seen.now_ms - last.at_ms, 0) / 1000)


# -- families ---------------------------------------------------------------------------------------


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(f"zsched_{name}", help, value)


def _gauges(name: str, help: str, labels: list[str], rows: Iterable[tuple[list[str], float]]) -> Metric:
    family = GaugeMetricFamily(f"zsched_{name}", help, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _histogram(name: str, help: str, distribution: Distribution) -> Metric:
    return HistogramMetricFamily(f"zsched_{name}", help, distribution.buckets(), distribution.total)


def _histograms(name: str, help: str, label: str, by_label: dict[str, Distribution]) -> Metric:
    family = HistogramMetricFamily(f"zsched_{name}", help, labels=[label])
    for value, distribution in by_label.copy().items():  # others come meanwhile
        family.add_metric([value], distribution.buckets(), distribution.total)
    return family
