"""A person who looks at the console of a running ``zsched web`` in Chromium. Each page must be free of errors."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
import redis
from rq import Queue, Worker

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.builders.workers import work_off
from tests.clocks import KEYS, now_ms, set_back
from tests.integration.console import jobs
from tests.integration.console.person import Person
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms

TASKS = "app.tasks"
ZONES = {"seoul": "Asia/Seoul", "new-york": "America/New_York", "london": "Europe/London"}
POLICIES = {"prices": (600, "all"), "stock": (1800, "none"), "sitemap": (3600, "latest")}
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
LONG_ID = "newsletter-of-the-week-for-all-customers-".ljust(128, "x")
OUTAGE_MS = 105 * 60_000  # ten occurrences of every ten minutes passed; the last one five minutes ago


@pytest.fixture
def ann(web: Web, chromium: object) -> Iterator[Person]:
    """An operator who has logged in."""
    with Person.of(web, chromium, "ann", sees_arguments=True) as person:
        yield person


@pytest.fixture
def eve(web: Web, chromium: object) -> Iterator[Person]:
    """A viewer who has logged in."""
    with Person.of(web, chromium, "eve", "viewer") as person:
        yield person


@pytest.fixture
def outage(client: Client, redis_url: str, redis_client: redis.Redis) -> Iterator[int]:
    """A daemon after an outage, of which it skipped ten occurrences of each of two schedules. The length in ms."""
    with set_back(redis_client, OUTAGE_MS):
        for id in ("beat", "pulse"):
            client.schedule("app.tasks.remind", id=id, every=600, catch_up="none", queue="mail")
    with DaemonThread(redis_url):
        eventually(lambda: len(client.history()) >= 2)
        yield OUTAGE_MS


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
    with set_back(redis_client, 3 * HOUR_MS - 4 * MINUTE_MS):  # so that none is due while the worker works
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


@pytest.fixture
def town(product: str, client: Client, redis_client: redis.Redis) -> str:
    """
    The schedules of the shop, and what is rare: texts with HTML, an id of 128 characters, a quarantined, a cancelled
    and a long-dead schedule, a calendar, a queue without workers, and a run of each outcome. The id of a failed run.
    """
    html = "<script>alert(1)</script>"
    client.put_calendar("holidays", dates=["12-25 Christmas"], windows=["Sat,Sun"], owner=html)
    client.schedule(
        f"{TASKS}.digest", id=LONG_ID, cron="0 9 * * 1-5", exclude=["holidays"], jitter=600, queue="<b>lone</b>",
        description=html, name=html, owner=html, tags=[html, "digest"], args=[html], kwargs={"to": html},
        overlap="queue", starts=from_ms(now_ms(redis_client)), retry=3,
    )  # fmt: skip
    client.skip(LONG_ID, note=html)
    client.schedule(f"{TASKS}.digest", id="over", every=3600, tags=[html])
    client.cancel("over")
    client.schedule(f"{TASKS}.digest", id="halted", every=3600, tags=[html])
    client.pause("halted", html, until=from_ms(now_ms(redis_client) + HOUR_MS))
    runs = {
        status: client.enqueue(f"{TASKS}.digest", id=f"once-{status}", queue="fax", expires_after=wait_s, name=html)
        for status, wait_s in (("cancelled", 600), ("lost", 600), ("expired", 1), ("queued", 600))
    }
    client.cancel_run(runs["cancelled"].run_id or "")
    redis_client.delete(KEYS.rq.job(runs["lost"].run_id or ""))
    redis_client.zadd(KEYS.due_normal(), {"stray": 1})  # a schedule that is due, and has no definition
    eventually(lambda: redis_client.hexists(KEYS.quarantine(), "stray"))
    for status in runs:
        eventually(lambda status=status: client.runs(f"once-{status}", status))  # type: ignore[misc]
    return product
