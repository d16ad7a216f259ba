"""The pictures of docs/console.md and README, taken from a demonstration that looks like a product."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import Queue

from tests.faults.clocks import now_ms, set_back
from tests.faults.processes import eventually
from tests.faults.threads import STEADY, DaemonThread
from tests.integration.console.person import Person
from tests.integration.in_process import work_off
from zsched import Client
from zsched.core.clock import from_ms, to_ms

pytestmark = [pytest.mark.redis, pytest.mark.once]
PICTURES = {
    "now": "/",
    "timeline": "/timeline",
    "schedules": "/schedules",
    "story": "/schedules/invoices",
    "edit": "/schedules/digest-seoul/edit",
    "busiest": "/timeline/busiest",
    "run": "/find?q={run_id}",
    "runs": "/runs",
    "queues": "/queues",
    "log": "/log",
    "doctor": "/doctor",
}
PHONE, DESK, WIDE = ({"width": width, "height": height} for width, height in ((390, 844), (1280, 800), (1920, 1000)))
FAILS, DONE = "tests.integration.console.jobs.fail", "tests.integration.console.jobs.succeed"
HOUR_MS = 3_600_000


@pytest.fixture
def product(client: Client, redis_client: redis.Redis, redis_url: str) -> Iterator[str]:
    """
    Schedules of a shop after three hours without a daemon: what passed ran late, or did not run, by the policy of each;
    some runs fail. The id of a failed run.
    """
    now = from_ms(now_ms(redis_client))
    with set_back(redis_client, 3 * HOUR_MS):
        for name, zone in (("seoul", "Asia/Seoul"), ("new-york", "America/New_York"), ("london", "Europe/London")):
            client.schedule(DONE, id=f"digest-{name}", cron="0 9 * * 1-5", tz=zone, tags=["mail", "digest"])
        for name, every, policy in (("prices", 600, "all"), ("stock", 1800, "none"), ("sitemap", 3600, "latest")):
            client.schedule(
                DONE, id=name, every=every, catch_up=policy, overlap="allow", tags=["shop"], queue="sync",
                jitter=every // 10, description=f"Update the {name}",
            )  # fmt: skip
        client.schedule(FAILS, id="invoices", every=3600, catch_up="all", overlap="allow", tags=["billing"])
        client.schedule(DONE, id="newsletter", every=7200, tags=["mail"])
        client.pause("newsletter", "the text is not approved")
    client.schedule_many(
        {"func": DONE, "id": f"reminder-{n}", "at": at, "queue": "push", "tags": ["customer"]}
        for n in range(2000)
        if (at := now + timedelta(minutes=10 + n**2 // 3200))
    )
    with DaemonThread(redis_url, **STEADY):
        eventually(lambda: not [one for one in client.list(kind="every") if (one.next_ms or 0) < to_ms(now)])
        for queue in ("sync", "default"):
            work_off(Queue(queue, connection=redis_client), redis_client)
        client.run_now("newsletter")
        eventually(lambda: client.runs(status="failed") and not client.runs("sitemap", status="queued"))
        yield client.runs(status="failed")[0].id


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_of_the_documentation_are_shown_without_errors(
    ann: Person, product: str, tmp_path: Path, scheme: Any
) -> None:
    folder = Path(os.environ.get("ZSCHED_PICTURES", tmp_path))
    ann.page.emulate_media(color_scheme=scheme)
    for name, path in PICTURES.items():
        for kind, size in (("", DESK), ("-phone", PHONE), ("-wide", WIDE)):
            ann.page.set_viewport_size(size)
            ann.open(path.format(run_id=product))
            ann.page.wait_for_load_state("load")
            picture = folder / f"console-{name}{kind}{'-dark' if scheme == 'dark' else ''}.png"
            ann.page.screenshot(path=picture)
            assert picture.stat().st_size > 5000
