"""The services in ``examples``, run as their first lines say, with a real daemon's thread and real workers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.documents import PROJECT, program
from tests.faults.processes import ENDS_S, WITHIN_S, eventually
from tests.faults.threads import DaemonThread, know
from tests.prefix import RQ
from zsched import Client
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once

EXAMPLES = PROJECT / "examples"


class Example:
    """A copy of one example in a folder, whose programs use a Redis of their own."""

    def __init__(self, folder: Path, redis_url: str, guard: Guard) -> None:
        self.folder, self._guard = folder, guard
        path = [str(folder), *(each for each in sys.path if each)]
        urls = {"ZSCHED_REDIS_URL": redis_url, "RQ_REDIS_URL": redis_url, "SHOP_DB": str(folder / "shop.sqlite3")}
        self.env = {**os.environ, **urls, "PYTHONPATH": os.pathsep.join(path)}
        self.client = Client.from_url(redis_url)

    def run(self, *command: str, code: int = 0) -> str:
        """Return what a Python program of the example printed; it must end with *code*."""
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder, env=self.env, capture_output=True, text=True, check=False, timeout=ENDS_S,
        )  # fmt: skip
        assert code == ran.returncode, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def work(self, queue: str, *options: str) -> str:
        """Run a worker until the queue is empty, and return its log."""
        return self.run("-m", "rq.cli", "worker", "--burst", *options, queue)

    def serve(self, *command: str) -> httpx.Client:
        """Start a server on a free port, and return a client of it."""
        server = self._guard.spawn(
            [sys.executable, *command],
            cwd=self.folder, env=self.env | {"PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert server.stdout is not None
        for line in server.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line.decode()):
                return httpx.Client(base_url=found[0], timeout=WITHIN_S)
        pytest.fail("the server ended")


@pytest.fixture
def example(tmp_path: Path, redis_url: str, redis_client: redis.Redis, request: pytest.FixtureRequest) -> Any:
    """The example that the test's parameter names."""
    shutil.copytree(EXAMPLES / request.param, tmp_path / "example")
    know(redis_client)
    with Guard() as guard, DaemonThread(redis_url):
        yield Example(tmp_path / "example", redis_url, guard)


def waits_in_queue(client: redis.Redis, queue: str) -> None:
    eventually(lambda: client.exists(f"{RQ}:queue:{queue}"))


@pytest.mark.parametrize("example", ["reminders"], indirect=True)
def test_the_reminders_are_set_moved_run_and_explained(example: Example, redis_client: redis.Redis) -> None:
    assert "reminder-concert: created, at 2098-12-24 17:00:00 UTC" in example.run(
        "reminders.py", "set", "concert", "2098-12-24T19:00", "Europe/Vienna"
    )
    assert ": updated, at 2098-12-25" in example.run("reminders.py", "set", "concert", "2098-12-25T19:00")
    assert "reminders: at=" in example.run("reminders.py", "set", "concert", "2001-12-25T19:00", code=1)
    example.client.run_now("reminder-concert")
    waits_in_queue(redis_client, "email")

    assert "concert begins in 60 minutes" in example.work("email")
    eventually(lambda: "succeeded" in example.run("reminders.py", "why", "concert"))
    example.run("reminders.py", "set", "opera", "2098-12-25T19:00")
    assert "reminder-opera: cancelled" in example.run("reminders.py", "cancel", "opera")
    assert "python reminders.py set" in example.run("reminders.py", code=1)


@pytest.mark.parametrize("example", ["fastapi"], indirect=True)
def test_the_fastapi_service_schedules_refuses_and_cancels(example: Example, redis_client: redis.Redis) -> None:
    event = {"begins_at": "2098-12-24T19:00:00+01:00", "to": "ann@example.com"}
    with example.serve("-m", "uvicorn", "service:app", "--port", "0") as service:
        outcomes = [service.put("/events/concert", json=event).json()["outcome"] for _ in range(2)]
        refused = service.put("/events/con%20cert%0A", json=event)
        begins_at = datetime.now(UTC) + timedelta(minutes=30)
        soon = service.put("/events/talk", json=event | {"begins_at": begins_at.isoformat()})
        waits_in_queue(redis_client, "email")
        cancelled = service.delete("/events/concert").json()

    assert (["created", "unchanged"], 422, 200, {"outcome": "cancelled"}) == (
        outcomes, refused.status_code, soon.status_code, cancelled,
    )  # fmt: skip
    assert "to ann@example.com: talk begins soon" in example.work("email")


@pytest.mark.parametrize("example", ["fastapi"], indirect=True)
def test_the_fastapi_services_own_tests_pass_and_are_printed_in_the_guide(example: Example) -> None:
    printed = program("docs/how-to/test-schedules.md", "test_service.py")

    assert printed == (EXAMPLES / "fastapi" / "test_service.py").read_text()
    assert "2 passed" in example.run("-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".")


@pytest.mark.parametrize("example", ["flask"], indirect=True)
def test_the_flask_service_schedules_one_mail_per_person(example: Example) -> None:
    with example.serve("-m", "flask", "--app", "service", "run", "--port", "0") as service:
        outcomes = [service.post("/users/ann").json()["outcome"] for _ in range(2)]
        left = service.delete("/users/ann").json()

    assert (["created", "kept"], {"outcome": "cancelled"}) == (outcomes, left)


@pytest.mark.parametrize("example", ["django/shop"], indirect=True)
def test_the_django_shop_schedules_only_what_is_committed(example: Example, redis_client: redis.Redis) -> None:
    example.run("manage.py", "migrate", "--run-syncdb")
    assert "report: created" in example.run("manage.py", "schedules")
    with example.serve("manage.py", "runserver", "--noreload", "127.0.0.1:0") as shop:
        numbers = [shop.post(f"/orders/{name}").json()["number"] for name in ("ann", "bob")]
        assert 500 == shop.post("/orders/nobody").status_code
        assert 200 == shop.post(f"/orders/{numbers[0]}/pay").status_code

    assert ["unpaid-2"] == [one.id for one in example.client.list(kind="once")]
    assert "open orders: 0 had no schedule, 1 had one" in example.run("manage.py", "schedules")
    example.client.run_now("unpaid-2")
    waits_in_queue(redis_client, "orders")
    assert "order 2: cancelled" in example.work("orders", "--worker-class", "orders.worker.Worker")
    assert "open orders: 0 had no schedule, 0 had one" in example.run("manage.py", "schedules")
