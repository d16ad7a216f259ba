"""
``[metrics] listen``: the daemon's meter, and three pages with its measurements and its health.

- ``/metrics`` is for Prometheus. It works while Redis is away, too.
- ``/healthz`` is the liveness page: 200 while the main loop completes its passes, as leader or not, with Redis or
  without (a restart would not help then); 503 when the loop is stuck.
- ``/readyz`` is the readiness page: 200 as ``leader``, or as ``standby`` that could lead. Otherwise 503 with the
  reason: Redis is unreachable, the daemon may not lead on it, or Redis refuses the leader's commands.

**The metrics** are of this daemon's work, of its terms in the log, and of the contents of Redis. Every daemon reports
the same contents of Redis. So over several daemons, take the maximum of gauges and the sum of counters. When Redis does
not answer, ``zsched_redis_up`` is 0 and the metrics of Redis' contents are left out: an old backlog would look like a
present one.

Redis is read at a scrape, at most once a second however many clients scrape. The connections are the collector's own,
with a short timeout: Prometheus gives up after ten seconds by default, and needs the page while Redis is away too.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Final, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from zsched.config.settings import Settings
from zsched.core.clock import Clock
from zsched.core.options.choices import Priority
from zsched.daemon.loop import Failures
from zsched.errors import ZschedError
from zsched.health.facts import TIMEOUTS, DaemonHealth, RedisUnseen
from zsched.health.verdict import judge_health
from zsched.metrics.families import counter, exposition, gauge, histogram
from zsched.metrics.meter import MOST, UNKNOWN, DaemonMeter, LogTally, Names, label_text
from zsched.metrics.pages import served
from zsched.storage.archivers import ArchiveState, Report, last_audit, remembered
from zsched.storage.connection import link_of
from zsched.storage.jobs import Registries
from zsched.storage.keys import keys_of
from zsched.storage.overview import Overview
from zsched.storage.queues import WITHIN_MS, warned_jobs
from zsched.storage.reader import Reader
from zsched.storage.server import Server

LONGEST_S: Final = 2.0  # for a connection or a reply
_EVERY_MS: Final = 1000.0
_SOON_EVERY_MS: Final = 10_000.0  # for the schedules due soon: 15 ms of the processor if each lane is long (measured)


class RedisReading(NamedTuple):
    """One reading of Redis. ``depths``, ``warned`` and ``due_soon``: by queue."""

    overview: Overview
    depths: Mapping[str, int]
    warned: Mapping[str, int]
    due_soon: Mapping[str, Mapping[str, int]]


class CachedReader:
    """Reads Redis by *reader*. Any thread may ask; one thread reads, and the others wait for its result."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader, self._clock, self._lock = reader, clock, Lock()
        self._reading: RedisReading | RedisUnseen = RedisUnseen("it was not read yet")
        self._due_soon: Mapping[str, Mapping[str, int]] = {}
        self._looked_ms = self._counted_ms = float("-inf")

    def read(self) -> RedisReading | RedisUnseen:
        """Return a reading that is at most a second old. A Redis that is unreachable or refuses is a reading too."""
        with self._lock:
            if self._clock.monotonic_ms() - self._looked_ms >= _EVERY_MS:
                self._reading = self._read_redis()
                self._looked_ms = self._clock.monotonic_ms()
            return self._reading

    def _read_redis(self) -> RedisReading | RedisUnseen:
        try:
            overview, warned = self._reader.overview(), self._reader.on_wire(warned_jobs)
            depths = self._reader.on_wire(lambda wire, keys: Registries(wire, keys.rq).depths())
            if self._clock.monotonic_ms() - self._counted_ms >= _SOON_EVERY_MS:
                self._due_soon = self._reader.due_soon()
                self._counted_ms = self._clock.monotonic_ms()
            return RedisReading(overview, depths, warned, self._due_soon)
        except ZschedError as error:
            return RedisUnseen(str(error))


# -- the collector ----------------------------------------------------------------------------------


class DaemonCollector(Collector):
    """Collector of one daemon's metrics; *build*: versions, by label."""

    def __init__(self, meter: DaemonMeter, redis: CachedReader, queues: Names, build: Mapping[str, str | None]) -> None:
        self._meter, self._redis, self._queues, self._build = meter, redis, queues, build

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families."""
        yield from _of_log(self._meter)
        yield from _of_daemon(self._meter)
        versions = tuple(version or UNKNOWN for version in self._build.values())
        yield gauge("build_info", "Versions of this daemon.", {versions: 1}, tuple(self._build))
        reading = self._redis.read()
        help = "Reachability of Redis at this daemon's last reading: 1 or 0."
        yield gauge("redis_up", help, isinstance(reading, RedisReading))
        if isinstance(reading, RedisReading):
            if reading.overview.server is not None:
                yield from _of_server(reading.overview.server)
            yield from _of_redis(reading.overview)
            yield from _of_archives(reading.overview)
            help = "Jobs that wait in RQ's queues, from any producer."
            yield gauge("queue_depth", help, self._by_label(reading.depths), ["queue"])
            help = "Jobs that workers with a guard in the mode warn say they ran, and that enforce would have refused."
            yield counter("jobs_warned", help, self._by_label(reading.warned), ["queue"])
            yield self._of_due_soon(reading.due_soon)

    def _of_due_soon(self, numbers: Mapping[str, Mapping[str, int]]) -> Metric:
        help = (
            "Runs due in a queue within this time, with overdue ones. Of more than 100 one-shots in a lane and a time, "
            "and of more than 1,000 recurring schedules, the queues are estimated from a sample."
        )
        rows = {
            (queue, within): number
            for within in WITHIN_MS
            for queue, number in self._by_label({queue: each[within] for queue, each in numbers.items()}).items()
        }
        return gauge("due_soon", help, rows, ["queue", "within"])

    def _by_label(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """Sum up *numbers* by label. Name the largest first: the number of label values is bounded."""
        by_label = Counter[str]()
        for queue, number in sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0])):
            by_label[self._queues.of(queue)] += number
        return by_label


# -- what this daemon knows -------------------------------------------------------------------------


def _of_log(tally: LogTally) -> Iterator[Metric]:
    help = "Outcomes of occurrences and of requested runs, in this daemon's terms."
    yield counter("fires", help, tally.outcomes, ["outcome"])
    yield histogram(
        "lateness_seconds",
        "Time to an occurrence's push from its due time, or from the later put or resume.",
        tally.lateness_s,
    )
    yield histogram("queue_wait_seconds", "Time in the queue, of runs that ended.", tally.wait_s, ["queue"])
    yield histogram("run_duration_seconds", "Time from start to end of a run.", tally.duration_s, ["queue"])
    help = "Duration of a run as a share of its timeout."
    yield histogram("run_timeout_ratio", help, tally.timeout_ratio)
    help = "Ends of runs; a run that is requeued in RQ ends again."
    yield counter("runs_ended", help, tally.ended, ["queue", "status"])
    help = "Ends of runs that were requeued in RQ and ended again, by the status that no longer counts."
    yield counter("runs_requeued", help, tally.requeued, ["queue", "status"])


def _of_daemon(meter: DaemonMeter) -> Iterator[Metric]:
    yield gauge("leader", "Role of this daemon: 1 leader, 0 not.", meter.health.leads)
    help = "Threads, chores and kinds of questions of this daemon that fail at present; its log has the reasons."
    yield gauge("failing", help, len(meter.health.failing) + len(meter.health.archivist_failing))
    yield counter("terms", "Terms that this daemon began.", meter.terms)
    help = "Runs that one call of fire or advance queued, without calls that queued none."
    yield histogram("fired_per_tick", help, meter.fired_per_tick)
    help = "Round trips that renewed the lease."
    yield histogram("lease_renewal_seconds", help, meter.renewal_s)
    help = "Round trips of the firing loop's scripts."
    yield histogram("script_seconds", help, meter.script_s, ["script"])
    help = "Jumps of the Redis server's clock that suspended the firing."
    yield counter("clock_jumps", help, meter.clock_jumps)


# -- what Redis knows -------------------------------------------------------------------------------


def _of_server(server: Server) -> Iterator[Metric]:
    help = "Writes to Redis: 1 refused, 0 accepted; zsched status names the cause."
    yield gauge("redis_refuses_writes", help, server.write_refusal is not None)
    if server.limit_bytes and not server.makes_room:
        help = "Memory of Redis in use, as a share of maxmemory or its machine's memory; none if it evicts keys."
        yield gauge("redis_memory_ratio", help, server.used_bytes / server.limit_bytes)


def _of_redis(seen: Overview) -> Iterator[Metric]:
    yield gauge("led", "Leadership of the namespace: 1 a daemon leads, 0 none.", seen.leader is not None)
    waiting = {lane.value: seen.waiting[lane] for lane in Priority}
    overdue = {lane.value: seen.overdue[lane] for lane in Priority}
    yield gauge("waiting", "Waiting schedules by lane (priority), with overdue and held-back ones.", waiting, ["lane"])
    yield gauge("overdue", "Waiting schedules whose due time has passed.", overdue, ["lane"])
    yield gauge("oldest_due_age_seconds", "Lateness of the oldest due schedule; 0 without one.", seen.late_ms / 1000)
    states = {
        "waiting": sum(waiting.values()),
        "recurring": seen.recurring,
        "paused": seen.paused,
        "quarantined": seen.quarantined,
        "held_back": sum(held.waiting for held in seen.held_back),
    }
    help = "Schedules by state; recurring ones are also in another state, held_back ones are also waiting."
    yield gauge("schedules", help, states, ["state"])
    help = "Time since the oldest due time among the schedules that are held back; 0 without one."
    since_ms = min((held.since_ms for held in seen.held_back), default=seen.now_ms)
    yield gauge("held_back_age_seconds", help, max(seen.now_ms - since_ms, 0) / 1000)
    troubles = seen.troubles
    help = "Recurring schedules that failed, or were lost, twice or more in a row; zsched status names them."
    yield gauge("schedules_failing", help, troubles.failing.count)
    help = "Recurring schedules that were skipped for overlap five times or more in a row."
    yield gauge("schedules_blocked", help, troubles.blocked.count)
    help = "Paused schedules whose due time has passed, among the first two thousand paused ones."
    yield gauge("schedules_overdue_paused", help, troubles.overdue_paused.count)
    yield gauge("epoch", "Number of the namespace's latest term.", seen.epoch)
    help = "Keys of a wrong type of zsched, and those of RQ that firing needs; zsched status names them."
    yield gauge("keys_of_wrong_type", help, len(seen.wrong_types))
    yield gauge("log_entries", "Entries of the log that Redis holds.", seen.log_length)


def _of_archives(seen: Overview) -> Iterator[Metric]:
    """Yield metrics of the archives of daemons that did not stop in order: the latest report of each place."""
    lately: dict[str, Report] = {}
    for report in remembered(seen.archives, seen.now_ms):
        if not report.is_stopped and len(lately) < MOST:
            lately.setdefault(label_text(report.place), report)
    lags = {place: lag for place, each in lately.items() if (lag := seen.behind(each)) is not None}
    yield gauge("archive_lag_entries", "Log entries that an archive lacks.", lags, ["archive"])
    following = {place: each.state is ArchiveState.FOLLOWING for place, each in lately.items()}
    yield gauge("archive_following", "State of an archive: 1 it follows the log, 0 not.", following, ["archive"])
    ages = {place: max(seen.now_ms - each.told_ms, 0) / 1000 for place, each in lately.items()}
    yield gauge("archive_seconds_since_report", "Time since an archive's last report.", ages, ["archive"])
    unknown = {place: each.unknown_entries for place, each in lately.items()}
    yield gauge("archive_unknown_entries", "Log entries that an archive could not read.", unknown, ["archive"])
    if (last := last_audit(seen.archives, seen.now_ms)) is not None:
        yield gauge("audit_alarms", "Errors that the last audit found, including repaired ones.", last.alarms)
        yield gauge("audit_checked", "Schedules that the last audit checked.", last.checked)
        yield gauge("audit_age_seconds", "Time since the last audit.", max(seen.now_ms - last.at_ms, 0) / 1000)


_STUCK_MS: Final = 30_000.0  # without a pass, in addition to the times that the settings allow


@contextmanager
def serving(
    settings: Settings,
    clock: Clock,
    health: DaemonHealth,
    build: Mapping[str, str | None],
    archivist: Callable[[], int] | None = None,
) -> Iterator[DaemonMeter]:
    """
    Serve metrics and health pages inside the block, and yield the meter to report to.

    *health*: that of the main loop. *build*: versions. *archivist*: returns the id of the process that archives.

    Raises:
        ZschedError: the server cannot listen at this address now.
    """
    keys, queues = keys_of(settings), Names()
    meter = DaemonMeter(keys.run_suffix, queues, health)
    link = link_of(settings, LONGEST_S)
    reader = CachedReader(Reader.by_settings(settings, link), clock)
    metrics = exposition(DaemonCollector(meter, reader, queues, build), archivist)

    # The longest time of a pass of a healthy daemon: its longest sleep, and the timeouts of a hanging Redis.
    sleeps_ms = settings.daemon.idle_ms + settings.daemon.lease_ms
    patience_ms = _STUCK_MS + sleeps_ms + TIMEOUTS * settings.redis.timeout_s * 1000

    def alive() -> tuple[bool, str]:
        silent_ms = clock.monotonic_ms() - health.last_pass_ms
        return silent_ms <= patience_ms, f"the main loop ended a pass {silent_ms / 1000:.1f} s ago"

    def ready() -> tuple[bool, str]:
        seen = reader.read()
        about = seen.overview.server if isinstance(seen, RedisReading) else seen
        reasons = [one.text for one in judge_health(about, health).problems if one.name != "memory"]  # works until then
        allows_eviction = settings.daemon.allow_eviction
        if not reasons and isinstance(about, Server) and (objection := about.objection(allows_eviction)):
            reasons = [f"may not lead: {objection}"]  # it changed since this daemon connected
        return not reasons, reasons[0] if reasons else "leader" if health.leads else "standby"

    try:
        pages = {"/healthz": alive, "/readyz": ready}
        with served(settings.metrics, metrics, pages, clock, Failures(health.failing)):
            yield meter
    finally:
        link.pool.disconnect()
