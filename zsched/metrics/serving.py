"""
``[metrics] listen``: the daemon's meter, and three pages with its measurements and its health.

- ``/metrics`` is for Prometheus. It works while Redis is away, too.
- ``/healthz`` is the liveness page: 200 while the main loop completes its passes, as leader or not, with Redis or
  without (a restart would not help then); 503 when the loop is stuck.
- ``/readyz`` is the readiness page: 200 as ``leader``, or as ``standby`` that could lead. Otherwise 503 with the
  reason: Redis is unreachable, the daemon may not lead on it, or Redis refuses the leader's commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from zsched.config.settings import Settings
from zsched.core.clock import Clock
from zsched.daemon.loop import Failures
from zsched.health.facts import TIMEOUTS, DaemonHealth, RedisUnseen
from zsched.health.verdict import problems
from zsched.metrics.collector import LONGEST_S, CachedReader, DaemonCollector
from zsched.metrics.meter import DaemonMeter, Names
from zsched.metrics.pages import served
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.reader import Reader
from zsched.storage.rqjob import Encoder

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
    reader = CachedReader(Reader(link, keys, Encoder(settings.rq.serializer)), clock)
    registry = CollectorRegistry()
    registry.register(DaemonCollector(meter, reader, queues, build))
    ProcessCollector(registry=registry)  # seconds of processor, memory, open files
    if archivist is not None:
        ProcessCollector("zsched_archivist", archivist, registry=registry)

    def alive() -> tuple[bool, str]:
        silent_ms = clock.monotonic_ms() - health.last_pass_ms
        return silent_ms <= _patience_ms(settings), f"the main loop ended a pass {silent_ms / 1000:.1f} s ago"

    def ready() -> tuple[bool, str]:
        seen = reader.read()
        server = None if seen.overview is None else seen.overview.server
        found = problems(RedisUnseen(seen.trouble) if seen.overview is None else server, health)
        reasons = [one.text for one in found if one.name != "memory"]  # it works until then
        if not reasons and server and (objection := server.objection(settings.daemon.allow_eviction)):
            reasons = [f"may not lead: {objection}"]  # it changed since this daemon connected
        return not reasons, reasons[0] if reasons else "leader" if health.leads else "standby"

    # Always the plain format: OpenMetrics takes twice as long to write, and adds nothing for these metrics.
    metrics = partial(generate_latest, registry)
    try:
        pages = {"/healthz": alive, "/readyz": ready}
        with served(settings.metrics, metrics, pages, clock, Failures(health.failing)):
            yield meter
    finally:
        link.pool.disconnect()


def _patience_ms(settings: Settings) -> float:
    """Return the longest time of a pass of a healthy daemon: its longest sleep, and the timeouts of a hanging Redis."""
    daemon = settings.daemon
    return _STUCK_MS + daemon.idle_ms + daemon.lease_ms + TIMEOUTS * settings.redis.timeout_s * 1000
