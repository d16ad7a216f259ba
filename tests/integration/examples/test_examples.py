"""The services in ``examples``, run as their first lines say, with a real daemon's thread and real workers."""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.builders.leaders import know
from tests.documents import PROJECT
from tests.prefix import RQ
from tests.waiting import ENDS_S, WITHIN_S, eventually
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
    assert "remind-concert: created, at 2098-12-24 17:00:00 UTC" in example.run(
        "reminders.py", "set", "concert", "2098-12-24T19:00", "Europe/Vienna"
    )
    assert ": updated, at 2098-12-25" in example.run("reminders.py", "set", "concert", "2098-12-25T19:00")
    assert "error: at=" in example.run("reminders.py", "set", "concert", "2001-12-25T19:00", code=2)
    example.client.run_now("remind-concert")
    waits_in_queue(redis_client, "reminders")

    assert "concert begins in 60 minutes" in example.work("reminders")
    eventually(lambda: "succeeded" in example.run("reminders.py", "why", "concert"))
    example.run("reminders.py", "set", "opera", "2098-12-25T19:00")
    assert "remind-opera: cancelled" in example.run("reminders.py", "cancel", "opera")
    assert "python reminders.py set" in example.run("reminders.py", "--help")


ODD_ARGUMENTS = [
    *((words, "COMMAND") for words in ("", "-x", "--", "nonsense", "SET concert 2098-12-24T19:00", "delete concert")),
    *((f"set x {at}", f"argument begins_at: {at!r} is not a time; give one such as 2026-12-24T19:00") for at in
      ("notatime", "24.12.2098", "2098-13-01", "2098-02-30T19:00", "19:00", "tomorrow", "1e999", "0", "0001-01-01",
       "2098-12-24T25:00", "2098-12-24T19:00Europe/Vienna", "99999-01-01")),
    ("set x ''", "argument begins_at: '' is not a time"),
    *((f"set x 2098-12-24T19:00 {tz}", f"tz={tz!r}") for tz in
      ("EST", "Vienna", "Europe/Wien", "+01:00", "CET-1CEST", "utc/", "Mars/Olympus", "1", "*")),
    *((f"set {event} 2098-12-24T19:00", "event") for event in ("ünder", "a.b", "a/b", "*", "{event}", "a" * 200)),
    *((words, "required: ") for words in ("set", "set x", "cancel", "why")),
    *((words, "unrecognized arguments") for words in ("cancel a b", "why a --json", "set x 2098-12-24T19:00 UTC UTC")),
    ("set x 2001-12-24T19:00", "at="), ("cancel a.b", "event"), ("why a.b", "event"), ("why --help=x", "--help"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "told"), ODD_ARGUMENTS)
def test_odd_arguments_of_the_reminders_are_errors_with_the_field(
    redis_url: str,
    words: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = EXAMPLES / "reminders"
    monkeypatch.setenv("ZSCHED_REDIS_URL", redis_url)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "argv", ["reminders.py", *shlex.split(words)])
    monkeypatch.delitem(sys.modules, "tasks", raising=False)

    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(folder / "reminders.py"), run_name="__main__")
    monkeypatch.delitem(sys.modules, "tasks", raising=False)

    printed = capsys.readouterr()
    assert (2, "") == (caught.value.code, printed.out)
    assert told in printed.err


ODD_TIMES = ["", "notatime", "2098-12-24T19:00", "0001-01-01T00:00:00Z", "24.12.2098", 1e300, -1, None, "tomorrow", {}]


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
        odd = [
            service.put(f"/events/{event}", json=given).status_code
            for event, given in [
                ("a.b", event), ("-%20", event), ("a" * 300, event), ("a", {}), ("a", []), ("a", event | {"to": 5}),
                *(("a", event | {"begins_at": at}) for at in ODD_TIMES),
            ]
        ]  # fmt: skip

    assert [422] * len(odd) == odd
    assert (["created", "unchanged"], 422, 200, {"outcome": "cancelled"}) == (
        outcomes, refused.status_code, soon.status_code, cancelled,
    )  # fmt: skip
    assert "to ann@example.com: talk begins soon" in example.work("email")


@pytest.mark.parametrize("example", ["fastapi"], indirect=True)
def test_the_fastapi_service_answers_503_while_redis_is_away(example: Example) -> None:
    example.env["ZSCHED_REDIS_URL"] = "redis://127.0.0.1:1/0"

    with example.serve("-m", "uvicorn", "service:app", "--port", "0") as service:
        unreachable = service.delete("/events/concert")

    assert (503, "2") == (unreachable.status_code, unreachable.headers["Retry-After"])


@pytest.mark.parametrize("example", ["fastapi"], indirect=True)
def test_the_fastapi_services_own_tests_pass(example: Example) -> None:
    assert "2 passed" in example.run("-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("example", ["flask"], indirect=True)
def test_the_flask_service_schedules_one_mail_per_person(example: Example) -> None:
    with example.serve("-m", "flask", "--app", "service", "run", "--port", "0") as service:
        outcomes = [service.post("/users/ann").json()["outcome"] for _ in range(2)]
        left = service.delete("/users/ann").json()
        refused = [service.post(f"/users/{user}").status_code for user in ("a%20b", "a.b", "%C3%BC", "a" * 200, "%2A")]

    assert [422] * 5 == refused
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
