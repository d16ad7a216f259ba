"""Redis with runs of every kind, and the dashboard as a separate process."""

from __future__ import annotations

import json
import os
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import redis

from tests.faults.processes import WITHIN_S
from tests.integration.dashboard import tasks
from zsched.embedded.guard import Guard
from zsched.testing import ManualScheduler

START = datetime(2026, 12, 24, 8, 0, tzinfo=UTC)
NOMINAL = "2026-12-24 09:00:00+00:00"  # of every run below
_MS = 1798102800000
WAITS, DONE, FAILED = f"reminder-42-{_MS}", f"digest-{_MS}", f"report-{_MS}"


def fill(client: redis.Redis, serializer: str) -> None:
    """Make three runs of 9 o'clock: one waits in the queue *email*; in *default* one is finished and one failed."""
    with ManualScheduler(client, start=START, serializer=serializer) as scheduler:
        schedule = scheduler.client.schedule
        schedule(tasks.remind, args=("secret-user",), cron="0 9 * * *", id="reminder-42", queue="email")
        schedule(tasks.remind, args=("secret-user",), cron="0 9 * * *", id="digest", meta={"trace": tasks.MARKUP})
        schedule(tasks.fail, args=("secret-user",), cron="0 9 * * *", id="report", description="<b>The</b> report")
        scheduler.advance(hours=1)
        scheduler.work("default")


@dataclass
class Answer:
    """The reply of an HTTP server."""

    status: int
    headers: dict[str, str]
    text: str


class Dashboard:
    """A running ``zsched dashboard``; ``told`` holds the words of its first line."""

    def __init__(self, guard: Guard, *arguments: str, **settings: str) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
        env |= {f"ZSCHED_{name}": value for name, value in settings.items()}
        env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        command = [sys.executable, "-m", "zsched.cli", "dashboard", "--listen", "127.0.0.1:0", "--json", *arguments]
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as stdout:
            self.process = guard.spawn(command, stdout=stdout, env=env)
        with os.fdopen(reading) as lines:
            self.told: dict[str, Any] = json.loads(lines.readline() or "{}")

    @property
    def pid(self) -> int:
        """The pid of the dashboard."""
        return self.process.pid

    def get(self, path: str, user: str | None = None, password: str | None = None) -> Answer:
        """Return the answer to a GET, with the user and password that the dashboard printed unless others are given."""
        given = f"{user or self.told['user']}:{password or self.told.get('password', '')}"
        headers = {"Authorization": "Basic " + b64encode(given.encode()).decode()}
        connection = HTTPConnection(urlsplit(self.told["url"]).netloc, timeout=WITHIN_S)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())
        finally:
            connection.close()

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        return self.process.wait(WITHIN_S)


@contextmanager
def dashboard(*arguments: str, **settings: str) -> Iterator[Dashboard]:
    """A dashboard for the block; *settings* as the environment has them (``REDIS_URL="…"``)."""
    with Guard() as guard:
        yield Dashboard(guard, *arguments, **settings)
