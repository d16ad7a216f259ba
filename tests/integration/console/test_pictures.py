"""The pictures of docs/console.md and README, taken from a demonstration that looks like a product."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import Queue

from tests.faults.processes import eventually
from tests.faults.threads import DaemonThread
from tests.integration.console.person import Person
from tests.integration.in_process import work_off
from zsched import Client
from zsched.core.clock import from_ms

pytestmark = [pytest.mark.redis, pytest.mark.once]
PICTURES = {
    "now": "/",
    "timeline": "/timeline",
    "schedules": "/schedules",
    "story": "/schedules/invoices",
    "edit": "/schedules/digest-seoul/edit",
    "busiest": "/timeline/busiest",
    "run": "/find?q={run_id}",
    "queues": "/queues",
    "doctor": "/doctor",
}
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 800}


@pytest.fixture
def product(client: Client, daemon: DaemonThread, redis_client: redis.Redis) -> str:
    """Schedules of a shop, some of whose runs failed, and an outage. The id of a failed run."""
    jobs, tasks = "tests.integration.console.jobs", "app.tasks"
    seconds, _ = redis_client.time()
    now = from_ms(int(seconds) * 1000)
    for name, zone in (("seoul", "Asia/Seoul"), ("new-york", "America/New_York"), ("london", "Europe/London")):
        client.schedule(f"{tasks}.digest", id=f"digest-{name}", cron="0 9 * * 1-5", tz=zone, tags=["mail", "digest"])
    for name, every in (("prices", 60), ("stock", 300), ("sitemap", 3600)):
        client.schedule(f"{tasks}.{name}", id=name, every=every, tags=["shop"], queue="sync", jitter=every // 10)
    client.schedule(f"{jobs}.fail", id="invoices", every=60, tags=["billing"], queue="billing", enabled=False)
    client.resume("invoices", missed="skip")
    client.schedule_many(
        {"func": f"{tasks}.remind", "id": f"reminder-{n}", "at": at, "queue": "push", "tags": ["customer"]}
        for n in range(2000)
        if (at := from_ms(int(seconds) * 1000 + (n % 240) * 300_000 + 600_000))
    )
    client.pause("sitemap", "the site moves on Monday")
    run_id = ""
    for name, queue in (("invoices", "billing"), ("prices", "sync"), ("stock", "sync")):
        run_id = client.run_now(name) if name != "invoices" or not run_id else run_id
        work_off(Queue(queue, connection=redis_client), redis_client)
    eventually(lambda: client.runs(status="failed"))
    assert now
    return client.runs(status="failed")[0].id


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_of_the_documentation_are_shown_without_errors(
    ann: Person, product: str, tmp_path: Path, scheme: Any
) -> None:
    folder = Path(os.environ.get("ZSCHED_PICTURES", tmp_path))
    ann.page.emulate_media(color_scheme=scheme)
    for name, path in PICTURES.items():
        for kind, size in (("", DESK), ("-phone", PHONE)):
            ann.page.set_viewport_size(size)
            ann.open(path.format(run_id=product))
            ann.page.wait_for_load_state("load")
            picture = folder / f"console-{name}{kind}{'-dark' if scheme == 'dark' else ''}.png"
            ann.page.screenshot(path=picture)
            assert picture.stat().st_size > 5000
