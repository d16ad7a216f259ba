"""Deadlines (``done_by``) with real daemons and workers: each that is missed is logged once, with the run's state."""

import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonProcess, DaemonThread, leading_daemon
from tests.builders.leaders import know
from tests.builders.workers import RqWorkers
from tests.faults.archives import await_caught_up
from tests.faults.leases import await_listeners, lapse
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.archive import History
from zsched.archive.deadlines import deadlines_of
from zsched.core.clock import LAST_MS
from zsched.core.log.kinds import changes
from zsched.core.occurrences.changes import Change
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log

TASKS = """
from rq import get_current_job

def wait():
    get_current_job().connection.blpop("go on", 60)

def fail():
    raise ValueError("no mail server")

def recover():
    if get_current_job().connection.incr("tries") == 1:
        raise ValueError("the first one")

def succeed():
    pass
"""


@pytest.fixture
def missed(link: Link) -> Callable[[], list[Change]]:
    """Return the missed deadlines in the log."""
    log = Log(link, Keys("default"))
    return lambda: [one for entry in log.entries() if entry.kind == "deadline" for one in changes(entry)]


@pytest.fixture
def work(redis_url: str, guard: Guard, tmp_path: Path) -> Callable[[], object]:
    """Start a worker."""
    return lambda: RqWorkers(guard, redis_url, tmp_path, TASKS).start("--worker-class", "zsched.rq.Worker")


Missed = Callable[[], list[Change]]


def put(client: Client, task: str, id: str = "a", done_by: float = 1, **options: Any) -> str | None:
    """Put a one-shot of *task* that is due in a moment."""
    soon = datetime.now(UTC) + timedelta(seconds=0.2)
    return client.schedule(f"tasks.{task}", **({"id": id, "at": soon, "done_by": done_by} | options)).run_id  # type: ignore[arg-type]


def archive_of(daemon: DaemonThread) -> Path:
    """Return the path of the archive that *daemon* has open."""
    path = daemon.archivist.archiver.path
    assert path is not None
    return path


def pending(path: Path) -> list[str]:
    """Return the runs with a deadline that is not settled."""
    with History(path) as history:
        return [one.run_id for one in deadlines_of(history, 0, LAST_MS, 10)]


def kill_leader(daemons: dict[str, DaemonProcess], redis_client: redis.Redis) -> None:
    """Kill all processes of the daemon that leads."""
    lease = cast(bytes, eventually(lambda: redis_client.get(Keys("default").lease())))
    daemons.pop(lease.decode().partition(":")[0]).send_to_all(signal.SIGKILL)
    lapse(redis_client)


def assert_once(client: Client, missed: Missed, id: str = "a") -> Change:
    """Check that *id* has one missed deadline, at its time, also after a later deadline; return it."""
    eventually(missed)
    put(client, "succeed", id="last", queue="nobody")
    eventually(lambda: "last" in [one.id for one in missed()])
    [found] = [one for one in missed() if one.id == id]
    assert found.next_ms is not None
    assert found.next_ms <= found.at_us // 1000
    return found


@pytest.mark.parametrize("rule", [False, True])
def test_a_run_that_hangs_misses_its_deadline_once(
    daemon: DaemonThread, client: Client, missed: Missed, work: Callable[[], object], rule: bool
) -> None:
    work()
    soon = datetime.now(UTC) + timedelta(seconds=0.2)
    given: dict[str, Any] = {"at": None, "every": 3600, "starts": soon} if rule else {}
    put(client, "wait", done_by=3, **given)

    found = assert_once(client, missed)

    assert found.run_id is not None
    assert found.why.startswith("was running for ")
    assert found.nominal_ms is not None
    assert found.next_ms == found.nominal_ms + 3000
    story = client.why("a")
    assert "LATE" == story.verdict.word
    assert story.verdict.text.startswith("missed its deadline ")
    [listed] = client.history("a", status="deadline_missed")
    assert found.entry == listed.entry


def test_a_run_without_a_worker_misses_its_deadline(daemon: DaemonThread, client: Client, missed: Missed) -> None:
    put(client, "succeed", id="before", done_by=3600)
    put(client, "succeed")

    found = assert_once(client, missed)

    assert found.why.endswith(", behind 1 other in queue default")


def test_a_failed_run_misses_its_deadline(
    daemon: DaemonThread, client: Client, missed: Missed, work: Callable[[], object]
) -> None:
    work()
    put(client, "fail", done_by=3)

    found = assert_once(client, missed)

    assert found.why.startswith("failed after ")
    assert found.why.endswith("ValueError: no mail server")


def test_a_retry_that_succeeds_before_the_deadline_saves_it(
    daemon: DaemonThread, client: Client, missed: Missed, work: Callable[[], object]
) -> None:
    work()
    run_id = put(client, "recover", done_by=20)
    eventually(lambda: "failed" == client.get_run(str(run_id))[0].status.value)
    client.retry(str(run_id))

    eventually(lambda: "succeeded" in [run.status.value for run in client.runs("a")])

    assert [] == list(client.history("a", status="deadline_missed"))
    eventually(lambda: [] == pending(archive_of(daemon)))


def test_a_schedule_that_its_queue_holds_back_never_fires_and_misses_its_deadline(
    daemon: DaemonThread, client: Client, missed: Missed, redis_client: redis.Redis
) -> None:
    redis_client.set(f"{RQ}:queue:bad", "a string")
    put(client, "succeed", queue="bad")

    found = assert_once(client, missed)

    assert found.run_id is None
    assert "never fired: held back with queue bad" == found.why


def test_a_deadline_that_passes_without_a_daemon_is_logged_by_the_next_one(
    client: Client, missed: Missed, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    know(redis_client)
    put(client, "succeed")
    [due] = client.list()
    eventually(lambda: redis_client.time()[0] * 1000 > (due.next_ms or 0) + 2000)

    with leading_daemon(redis_url, tmp_path / "archive.db"):
        found = assert_once(client, missed)

    assert found.nominal_ms == due.next_ms


@pytest.mark.parametrize("done_by", [1, 6])
def test_a_deadline_is_logged_once_although_redis_is_flushed_in_between(
    daemon: DaemonThread, client: Client, missed: Missed, redis_client: redis.Redis, redis_url: str, done_by: int
) -> None:
    put(client, "succeed", done_by=done_by)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))
    await_caught_up(redis_url, archive_of(daemon))  # a run that no archive saw fire is held for a minute
    redis_client.flushall()
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))

    found = assert_once(client, missed)

    assert found.why.startswith("was queued for ")


def test_a_logged_deadline_is_not_logged_again_after_redis_was_flushed(
    daemon: DaemonThread, client: Client, missed: Missed, redis_client: redis.Redis, zsched: Zsched
) -> None:
    put(client, "succeed", id="before")
    eventually(missed)
    eventually(lambda: list(client.history(status="deadline_missed")))
    redis_client.flushall()
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))
    put(client, "succeed")

    assert_once(client, missed)

    assert ["before", "a", "last"] == [one.id for one in reversed(list(client.history(status="deadline_missed")))]
    late = zsched.json("history", "--status", "late")["occurrences"]
    assert ["last", "a", "before"] == [one["id"] for one in late]


def test_a_deadline_is_logged_once_although_leaders_are_killed_before_and_after(
    client: Client, missed: Missed, redis_url: str, redis_client: redis.Redis, guard: Guard, link: Link
) -> None:
    know(redis_client)
    started = [DaemonProcess(guard, redis_url) for _ in range(3)]
    daemons = {one.wait_for("daemon_started")["daemon"]: one for one in started}
    eventually(lambda: 3 == len(Archivers(link, Keys("default")).reports()))
    await_listeners(redis_client, 3)
    put(client, "succeed", done_by=3)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))
    kill_leader(daemons, redis_client)
    eventually(missed)
    kill_leader(daemons, redis_client)

    found = assert_once(client, missed)

    assert found.why.startswith("was queued for ")
