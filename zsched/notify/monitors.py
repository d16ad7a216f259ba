"""
Monitors: one per recurring schedule at Sentry or healthchecks, made from its trigger and zone, and removed with it.

They notice what zsched cannot tell: that no daemon, or no Redis, is there to do it. A rule that they do not understand
(``rrule``, seconds, less than a minute) has none.

Sentry makes a monitor of a check-in (docs.sentry.io, crons, "upserting"). healthchecks has an API, version 3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from zsched.core.model import Schedule
from zsched.core.runs.run import Run, RunStatus
from zsched.notify.sinks import HttpSink, Ping, Sentry, Sink

if TYPE_CHECKING:
    import httpx

_SLUG: Final = 50  # characters, at most, at Sentry
_MARGIN_S: Final = 300  # a run may be so late
_LONGEST_S: Final = 1800  # the same for its duration, without a timeout


class Monitor(NamedTuple):
    """A monitor: *id* of its schedule, its name there, and when the next run is expected: *cron* or *every_s*."""

    id: str
    slug: str
    cron: str
    every_s: int
    tz: str
    longest_s: int


class Monitors(Protocol):
    """The monitors of one sink. All methods raise SinkFailed."""

    def put(self, monitor: Monitor) -> None:
        """Make *monitor*, or change it."""

    def check_in(self, monitor: Monitor, run: Run) -> None:
        """Tell the end of *run*."""

    def remove(self, id: str) -> None:
        """Remove the monitor of schedule *id*."""


def monitor_of(schedule: Schedule, namespace: str) -> Monitor | None:
    """Return the monitor of a *schedule*; None if its rule cannot be monitored."""
    spec = schedule.trigger
    if spec is None:
        return None
    value = spec.kind.to_option(spec.expr)
    cron = value if isinstance(value, str) else ""
    every_s = int(value.total_seconds()) if isinstance(value, timedelta) else 0
    if len(cron.split()) != 5 and every_s < 60:  # also an rrule
        return None
    return Monitor(
        schedule.id, slug_of(namespace, schedule.id), cron, every_s, spec.tz, schedule.timeout_s or _LONGEST_S
    )


def slug_of(namespace: str, id: str) -> str:
    """Return the name of the monitor of schedule *id*: a-z, 0-9, _ and -; two ids have two names."""
    whole = f"{namespace}-{id}"
    slug = re.sub(r"[^a-z0-9_-]", "-", whole.lower())
    if slug == whole and len(slug) <= _SLUG:
        return slug
    return f"{slug[: _SLUG - 9]}-{blake2b(whole.encode(errors='replace'), digest_size=4).hexdigest()}"


class SentryMonitors:
    """*api*: the organization in Sentry's API, for removing; that needs a token, the secret."""

    def __init__(self, sink: Sentry, api: str) -> None:
        self._sink, self._api = sink, api.rstrip("/")

    def put(self, monitor: Monitor) -> None:
        """Do nothing: a check-in makes it."""

    def check_in(self, monitor: Monitor, run: Run) -> None:
        schedule: dict[str, Any] = {"type": "crontab", "value": monitor.cron}
        if not monitor.cron:
            schedule = {"type": "interval", "value": monitor.every_s // 60, "unit": "minute"}
        id = blake2b(run.id.encode(), digest_size=16).hexdigest()
        config = {"schedule": schedule, "timezone": monitor.tz, "checkin_margin": _MARGIN_S // 60}
        item = {
            "check_in_id": id,
            "monitor_slug": monitor.slug,
            "status": "ok" if run.status is RunStatus.SUCCEEDED else "error",
            "duration": None if run.duration_ms is None else run.duration_ms / 1000,
            "monitor_config": {**config, "max_runtime": max(monitor.longest_s // 60, 1)},
        }
        self._sink.envelope("check_in", item, id)

    def remove(self, id: str) -> None:
        url = f"{self._api}/monitors/{slug_of(self._sink.namespace, id)}/"
        if self._sink.secret is not None:
            self._sink.ask("DELETE", url, Authorization=f"Bearer {self._sink.secret}")


class HealthchecksMonitors:
    """*api*: the address of healthchecks; the key of its API is the secret."""

    def __init__(self, sink: HttpSink, api: str) -> None:
        self._sink, self._api = sink, f"{api.rstrip('/')}/api/v3/checks/"
        self._made = dict[str, tuple[Monitor, str]]()  # by schedule: the last one that was put, and where it is pinged

    def put(self, monitor: Monitor) -> None:
        if monitor.id in self._made and self._made[monitor.id][0] == monitor:
            return
        when = {"schedule": monitor.cron, "tz": monitor.tz} if monitor.cron else {"timeout": monitor.every_s}
        more = {"grace": _MARGIN_S + monitor.longest_s, "tags": "zsched", "unique": ["slug"]}
        made = self._ask("POST", "", {"name": monitor.id, "slug": monitor.slug, **when, **more})
        self._made[monitor.id] = monitor, str(made.json()["ping_url"])

    def check_in(self, monitor: Monitor, run: Run) -> None:
        url = self._made[monitor.id][1] + ("" if run.status is RunStatus.SUCCEEDED else "/fail")
        self._sink.ask("POST", url, run.error.encode())

    def remove(self, id: str) -> None:
        self._made.pop(id, None)
        for check in self._ask("GET", f"?slug={slug_of(self._sink.namespace, id)}").json()["checks"]:
            self._ask("DELETE", str(check["ping_url"]).rpartition("/")[2])

    def _ask(self, method: str, path: str, value: Mapping[str, Any] | None = None) -> httpx.Response:
        body = None if value is None else json.dumps(value).encode()
        return self._sink.ask(method, self._api + path, body, X_Api_Key=self._sink.secret or "")


def monitors_of(sink: Sink) -> Monitors:
    """Return the monitors of *sink*, whose settings name ``monitors``."""
    if isinstance(sink, Sentry):
        return SentryMonitors(sink, sink.given["monitors"])
    assert isinstance(sink, Ping)  # the settings allow no other
    return HealthchecksMonitors(sink, sink.given["monitors"])
