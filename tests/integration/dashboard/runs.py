"""Redis with runs of every kind, for rq-dashboard."""

from datetime import UTC, datetime
from typing import Any

import httpx
import redis

from tests.integration.dashboard import tasks
from zsched.testing import ManualScheduler

START = datetime(2026, 12, 24, 8, 0, tzinfo=UTC)
NOMINAL = "2026-12-24 09:00:00+00:00"  # of every run below
_MS = 1798102800000
WAITS, DONE, FAILED = f"reminder-42-{_MS}", f"digest-{_MS}", f"report-{_MS}"


def job(browser: httpx.Client, run_id: str) -> Any:
    return browser.get(f"/0/data/job/{run_id}.json").json()


def listed(browser: httpx.Client, queue: str, registry: str) -> Any:
    """Return the jobs of a list."""
    answer = browser.get(f"/0/data/jobs/{queue}/{registry}/8/asc/1.json")
    assert 200 == answer.status_code
    return answer.json()["jobs"]


def fill(client: redis.Redis, serializer: str) -> None:
    """Make three runs of 9 o'clock: one waits in the queue *email*; in *default* one is finished and one failed."""
    with ManualScheduler(client, start=START, serializer=serializer) as scheduler:
        schedule = scheduler.client.schedule
        schedule(tasks.remind, args=("secret-user",), cron="0 9 * * *", id="reminder-42", queue="email")
        schedule(tasks.remind, args=("secret-user",), cron="0 9 * * *", id="digest", meta={"trace": tasks.MARKUP})
        schedule(tasks.fail, args=("secret-user",), cron="0 9 * * *", id="report", description="<b>The</b> report")
        scheduler.advance(hours=1)
        scheduler.work("default")
