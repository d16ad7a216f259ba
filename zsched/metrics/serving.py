"""
``[metrics] listen``: what measures the daemon, and three pages that tell of it.

- ``/metrics`` is for Prometheus. It is a page also while Redis is away.
- ``/healthz`` says whether the daemon lives: 200 as long as its main loop ends its passes, led or not, with Redis or
  without, since to restart it would help nobody then; 503 when the loop is stuck.
- ``/readyz`` says whether it is of use: 200 as ``leader`` or as ``standby`` that could lead; else 503, and why: it sees
  no Redis, it may not lead on this one, or Redis refuses what it does as a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from zsched.config import Settings
from zsched.core.clock import Clock
from zsched.daemon.failures import Failures
from zsched.health.facts import TIMEOUTS, DaemonHealth, RedisUnseen
from zsched.health.verdict import problems
from zsched.metrics.collector import LONGEST_S, DaemonCollector, Lookout
from zsched.metrics.meter import DaemonMeter, LogTally, Names
from zsched.metrics.pages import served
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.reader import Reader
from zsched.storage.rqjob import Encoder

_STUCK_MS: Final = 30_000.0  # without a pass, beside what the settings let one take


@contextmanager
def serving(
    settings: Settings,
    clock: Clock,
    health: DaemonHealth,
    build: Mapping[str, str | None],
    archivist: Callable[[], int] | None = None,
) -> Iterator[DaemonMeter]:
    """
    Serve inside the block what the meter that it gives is told, and what *health* says. *build*: versions. *archivist*:
    tells the number of the process that archives.

    Raises:
        ZschedError: nothing can listen there now.
    """
    keys, queues = keys_of(settings), Names()
    meter = DaemonMeter(LogTally(keys.run_suffix, queues), health)
    link = link_of(settings, LONGEST_S)
    lookout = Lookout(Reader(link, keys, Encoder(settings.rq.serializer)), clock)
    registry = CollectorRegistry()
    registry.register(DaemonCollector(meter, lookout, queues, build))
    ProcessCollector(registry=registry)  # seconds of processor, memory, open files
    if archivist is not None:
        ProcessCollector("zsched_archivist", archivist, registry=registry)

    def alive() -> tuple[bool, str]:
        silent_ms = clock.monotonic_ms() - health.last_pass_ms
        return silent_ms <= _patience_ms(settings), f"the main loop ended a pass {silent_ms / 1000:.1f} s ago"

    def ready() -> tuple[bool, str]:
        unseen = lookout.look().trouble
        found = problems(RedisUnseen(unseen), health) if unseen else problems(health)
        return not found, found[0].text if found else "leader" if health.leads else "standby"

    # The plain format, whatever else is accepted: OpenMetrics takes twice as long to write, and says no more of these.
    metrics = partial(generate_latest, registry)
    try:
        pages = {"/healthz": alive, "/readyz": ready}
        with served(settings.metrics, metrics, pages, clock, Failures(health.failing)):
            yield meter
    finally:
        link.pool.disconnect()


def _patience_ms(settings: Settings) -> float:
    """The longest that a pass may take whose daemon is well: its longest sleep, and a Redis that hangs."""
    daemon = settings.daemon
    return _STUCK_MS + daemon.idle_ms + daemon.lease_ms + TIMEOUTS * settings.redis.timeout_s * 1000
