"""The pictures of docs/console.md and README, taken from a demonstration that looks like a product."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis
from playwright.sync_api import expect
from rq import Queue, Worker

from tests.breadth import some
from tests.faults.clocks import now_ms, set_back
from tests.faults.processes import eventually
from tests.faults.threads import DaemonThread
from tests.integration.console import jobs
from tests.integration.console.person import Person
from tests.integration.in_process import work_off
from zsched import Client
from zsched.core.clock import from_ms

pytestmark = pytest.mark.once
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
HIDE = "document.querySelectorAll('.source').forEach((each) => { each.hidden = true })"  # the archive's place
LATER = ".lazy:empty, .preview:empty"  # parts that are read after the page
TASKS = "app.tasks"
ZONES = {"seoul": "Asia/Seoul", "new-york": "America/New_York", "london": "Europe/London"}
POLICIES = {"prices": (600, "all"), "stock": (1800, "none"), "sitemap": (3600, "latest")}
HOUR_MS = 3_600_000


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of the product, as ``app.tasks``."""
    tasks = ModuleType("app.tasks")
    for name in ("digest", "prices", "stock", "sitemap", "newsletter", "remind"):
        setattr(tasks, name, jobs.succeed)
    tasks.invoices = jobs.fail  # type: ignore[attr-defined]  # of a module that is made here
    monkeypatch.setitem(sys.modules, "app", ModuleType("app"))
    monkeypatch.setitem(sys.modules, "app.tasks", tasks)


@pytest.fixture
def product(client: Client, redis_client: redis.Redis, redis_url: str, tasks: None) -> Iterator[str]:
    """
    Schedules of a shop after three hours without a daemon: what passed ran late, or did not run, by the policy of each;
    some runs fail. The id of a failed run.
    """
    now = from_ms(now_ms(redis_client))
    with set_back(redis_client, 3 * HOUR_MS):
        for name, tz in ZONES.items():
            client.schedule(f"{TASKS}.digest", id=f"digest-{name}", cron="0 9 * * 1-5", tz=tz, tags=["mail", "digest"])
        allow: dict[str, Any] = {"overlap": "allow", "catch_up": "all"}
        for name, (every, policy) in POLICIES.items():
            given = allow | {"catch_up": policy, "jitter": every // 10, "description": f"Update the {name}"}
            client.schedule(f"{TASKS}.{name}", id=name, every=every, tags=["shop"], queue="sync", **given)
        client.schedule(f"{TASKS}.invoices", id="invoices", every=3600, tags=["billing"], **allow)
        client.schedule(f"{TASKS}.newsletter", id="newsletter", every=7200, tags=["mail"])
        client.pause("newsletter", "the text is not approved")
    client.schedule_many(
        {"func": f"{TASKS}.remind", "id": f"reminder-{n}", "at": at, "queue": "push", "tags": ["customer"]}
        for n in range(2000)
        if (at := now + timedelta(minutes=10 + n**2 // 3200))
    )
    worker = Worker(["push", "sync", "default"], connection=redis_client, name="mail-1")
    worker.register_birth()
    with DaemonThread(redis_url):
        eventually(lambda: not list(client.list(kind="every", state="active", due_before=now)))
        for queue in ("sync", "default"):
            work_off(Queue(queue, connection=redis_client), redis_client)
        client.run_now("newsletter")
        eventually(lambda: client.runs(status="failed") and not client.runs("sitemap", status="queued"))
        yield client.runs(status="failed")[0].id
    worker.register_death()


@pytest.mark.parametrize("scheme", some(["light", "dark"], "light"))
def test_the_pages_of_the_documentation_are_shown_without_errors(
    ann: Person, product: str, tmp_path: Path, scheme: Any
) -> None:
    folder = Path(os.environ.get("ZSCHED_PICTURES", tmp_path))
    ann.page.emulate_media(color_scheme=scheme)
    for name, path in PICTURES.items():
        for kind, size in (("", DESK), ("-phone", PHONE), ("-wide", WIDE)):
            ann.page.set_viewport_size(size)
            ann.open(path.format(run_id=product))
            expect(ann.page.locator(LATER)).to_have_count(0)
            ann.page.evaluate(HIDE)
            picture = folder / f"console-{name}{kind}{'-dark' if scheme == 'dark' else ''}.png"
            ann.page.screenshot(path=picture)
            assert picture.stat().st_size > 5000
