"""Data is never code: only workers run payloads, and no event, metric or message has arguments."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis
from rq import Queue

from tests.faults.processes import DaemonProcess, archive_of_its_own, eventually
from tests.faults.threads import know
from tests.integration.asking import a_daemon, ask, pages_of
from tests.integration.command_line import Zsched
from tests.prefix import RQ
from tests.rq_workers import work_off
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once
FAR = datetime(2031, 7, 1, tzinfo=UTC)
ARGUMENT, ENDED, ERROR = "s3cret-argument", "s3cret-of-an-ended-run", "s3cret-of-a-task"
EACH = ("show", "why", "next")
ALL = (
    "status", "status --json", "ls", "ls --json", "history", "history --json", "log", "log --json", "export", "doctor",
    "recover --dry-run",
)  # fmt: skip


class Bomb:
    """A value whose pickle makes a file when it is opened."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._file,)


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The path of the file that a bomb makes."""
    return tmp_path / "ran"


@pytest.fixture
def archive() -> str:
    return archive_of_its_own()


@pytest.fixture
def daemon(
    redis_url: str, redis_client: redis.Redis, guard: Guard, archive: str, link: Link
) -> Iterator[DaemonProcess]:
    know(redis_client)
    daemon = a_daemon(guard, redis_url, ARCHIVE_PATH=archive, LOG_LEVEL="debug")
    eventually(Archivers(link, Keys("default")).alive)
    yield daemon
    if not daemon.has_ended:
        daemon.stop()


def test_a_daemon_and_the_command_line_run_no_payload_from_redis(
    client: Client, redis_client: redis.Redis, redis_url: str, daemon: DaemonProcess, ran: Path
) -> None:
    zsched, bomb = Zsched(redis_url), Bomb(ran)
    waits = client.schedule("app.task", args=(bomb,), id="waits", at=FAR, durable=True)
    client.schedule("app.task", kwargs={"x": bomb}, id="daily", cron="0 9 * * *", durable=True)
    client.schedule("app.task", args=(bomb,), id="ticks", every=0.1, count=3, overlap="allow", durable=True)
    client.enqueue("app.task", args=(bomb,), id="now", durable=True)
    redis_client.hset(f"{RQ}:job:{waits.run_id}", "meta", pickle.dumps({"x": bomb}))
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default") == 4)

    for command in [*ALL, *(f"{each} {id}" for each in EACH for id in ("waits", "daily", "ticks", "now"))]:
        zsched(*command.split())
    zsched("set", "waits", "--kwargs", '{"a": 1}')
    zsched("pause", "daily")
    zsched("resume", "daily")
    redis_client.flushall()
    daemon.wait_for("recovery_done")
    eventually(lambda: {"waits", "daily"} <= {one.id for one in client.list()})
    zsched("cancel", "waits", "daily")

    assert not ran.exists()
    pickle.loads(pickle.dumps(bomb))  # as a worker would
    assert ran.exists()


def test_arguments_are_only_in_the_archive_and_in_no_event_metric_or_story(
    client: Client, redis_client: redis.Redis, redis_url: str, daemon: DaemonProcess, archive: str
) -> None:
    where, zsched = pages_of(daemon), Zsched(redis_url)
    client.schedule("builtins.len", args=(ARGUMENT,), id="waits", at=FAR, durable=True)
    client.schedule("builtins.len", kwargs={"x": ARGUMENT}, id="daily", cron="0 9 * * *", durable=True)
    client.enqueue("builtins.len", args=(ENDED,), id="now", durable=True)
    client.enqueue("builtins.int", args=(ERROR,), id="fails", durable=True)
    work_off(Queue("default", connection=redis_client), redis_client)
    eventually(lambda: all(any(run.is_over for run in client.runs(id)) for id in ("now", "fails")))

    told = {command: zsched(*command.split()).output for command in ALL if command != "export" and "ls" not in command}
    told |= {id: zsched("why", id).output for id in ("waits", "daily", "now")}
    told |= {path: ask(where, path).text for path in ("/metrics", "/healthz", "/readyz")}
    story = zsched("why", "fails").output
    daemon.stop()
    told["events"] = json.dumps(daemon.events)
    files = b"".join(
        Path(f"{archive}{part}").read_bytes() for part in ("", "-wal") if Path(f"{archive}{part}").exists()
    )

    assert [] == [source for source, text in told.items() if ARGUMENT in text or ENDED in text]
    assert 'queue="default"' in told["/metrics"]  # names of queues it does tell
    assert f"invalid literal for int() with base 10: '{ERROR}'" in story  # what the task put into its error
    assert [] == [word for word in (ARGUMENT, ENDED, ERROR) if word.encode() not in files]
