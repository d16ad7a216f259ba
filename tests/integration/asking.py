"""Asking a daemon over HTTP, as Prometheus and probes do."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from structlog.testing import capture_logs

from tests.builders.daemons import DaemonProcess
from tests.waiting import WITHIN_S
from zsched.config.settings import MetricsSettings, RedisSettings, Settings
from zsched.core.clock import ManualClock
from zsched.embedded.guard import Guard
from zsched.health.facts import DaemonHealth
from zsched.metrics.serving import serving

ANYWHERE = "127.0.0.1:0"


class Answer(NamedTuple):
    """The reply to an HTTP request."""

    status: int
    text: str


def ask(where: str, path: str, method: str = "GET", **headers: str) -> Answer:
    request = urllib.request.Request(f"http://{where}{path}", method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_S) as reply:
            return Answer(reply.status, reply.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode())


def a_daemon(guard: Guard, url: str, **settings: str) -> DaemonProcess:
    return DaemonProcess(guard, url, **({"METRICS_LISTEN": ANYWHERE} | settings))


def pages_of(daemon: DaemonProcess) -> str:
    """Return host and port of the daemon's pages."""
    return str(daemon.wait_for("metrics_served")["listen"])


@contextmanager
def pages(
    url: str,
    listen: str = ANYWHERE,
    clock: ManualClock | None = None,
    health: DaemonHealth | None = None,
) -> Iterator[str]:
    """Serve the pages of an idle daemon, healthy unless *health* says otherwise; yield host and port."""
    clock = clock or ManualClock()
    if health is None:
        health = DaemonHealth(clock)
        health.trouble = None
    settings = Settings(redis=RedisSettings(url=url), metrics=MetricsSettings(listen=listen))
    with capture_logs() as events, serving(settings, clock, health, {"rq": None}):
        yield str(events[0]["listen"])
