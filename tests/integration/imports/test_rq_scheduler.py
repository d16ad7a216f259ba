"""``zsched import rq-scheduler``, with jobs made by rq-scheduler itself, and the pickles that an import opens."""

import json
import math
import sys
import types
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import Callback, Queue
from rq_scheduler import Scheduler

from tests.builders.command_line import Zsched
from tests.builders.workers import work_off
from tests.integration.imports.crontabs import LATER, summary
from zsched.cli.program import DONE, FAILED
from zsched.client import Client

pytestmark = pytest.mark.once


@pytest.fixture
def theirs(redis_client: redis.Redis) -> Scheduler:
    return Scheduler(queue_name="email", connection=redis_client)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of the package crontab
def test_recurring_jobs_of_rq_scheduler_are_copied(zsched: Zsched, client: Client, theirs: Scheduler) -> None:
    first = datetime(2040, 1, 1, 9, 30)
    cron = theirs.cron("0 9 * * 1-5", "app.tasks.digest", args=[1], kwargs={"a": 2}, timeout=77, meta={"mine": 3})
    every = theirs.schedule(first, "app.tasks.beat", interval=90, repeat=5, queue_name="beat", ttl=60)

    result = zsched("import", "rq-scheduler", "--tz", "Asia/Seoul")
    again = zsched("import", "rq-scheduler", "--tz", "Asia/Seoul")

    digest, beat = client.get(cron.id).to_dict(), client.get(every.id).to_dict()
    assert "2 created, 0 updated, 0 unchanged, 0 removed, 0 refused" == summary(result)
    assert "0 created, 0 updated, 2 unchanged, 0 removed, 0 refused" == summary(again)
    assert {
        "func": "app.tasks.digest",
        "queue": "email",
        "timeout_s": 77,
        "result_ttl_s": None,
    }.items() <= digest.items()
    assert {"expr": "0 9 * * 1-5", "tz": "Asia/Seoul"}.items() <= digest["trigger"].items()
    assert {"queue": "beat", "next_at": "2040-01-01T09:30:00.000Z", "expires_after_s": 60.0}.items() <= beat.items()
    assert {"kind": "every", "expr": "1m30s", "count": 5}.items() <= beat["trigger"].items()
    assert "do not start rq-scheduler on this Redis again" in result.stderr
    assert {cron.id, every.id} == {job.id for job in theirs.get_jobs()}


def test_a_one_shot_of_rq_scheduler_is_moved_and_given_back(
    zsched: Zsched, client: Client, theirs: Scheduler, redis_client: redis.Redis
) -> None:
    at = datetime.now(UTC).replace(microsecond=0, tzinfo=None) + LATER
    job = theirs.enqueue_at(at, "app.tasks.remind", 42, channel="sms")

    result = zsched("import", "rq-scheduler", "--tz", "UTC")
    moved, left = client.get(job.id), list(theirs.get_jobs())
    undone = zsched("import", "undo", "rq-scheduler")

    assert (DONE, "1 created, 0 updated, 0 unchanged, 0 removed, 0 refused") == (result.exit_code, summary(result))
    assert (at.replace(tzinfo=UTC) + timedelta(seconds=1), "email", []) == (moved.next_at, moved.queue, left)
    assert (DONE, "0 cancelled, 1 given back, 0 kept") == (undone.exit_code, summary(undone))
    [(given_back, time)] = theirs.get_jobs(with_times=True)
    assert job.id == given_back.id
    assert at < time < at + timedelta(seconds=1)
    assert ([], -1) == (list(client.list()), redis_client.ttl(job.key))


def test_a_moved_job_runs_with_its_original_arguments(
    zsched: Zsched, client: Client, theirs: Scheduler, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, calls = types.ModuleType("reminded"), []
    vars(module)["remind"] = lambda *args, **kwargs: calls.append((args, kwargs))
    monkeypatch.setitem(sys.modules, "reminded", module)
    job = theirs.enqueue_in(LATER, "reminded.remind", 42, when=timedelta(hours=1))
    zsched("import", "rq-scheduler", "--tz", "UTC")

    client.run_now(job.id)
    work_off(Queue("email", connection=redis_client), redis_client)

    assert [((42,), {"when": timedelta(hours=1)})] == calls


def test_an_overdue_job_is_moved_and_due_at_once(zsched: Zsched, client: Client, theirs: Scheduler) -> None:
    job = theirs.enqueue_in(timedelta(seconds=-60), "app.tasks.remind")

    result = zsched("import", "rq-scheduler", "--tz", "UTC")

    theirs.enqueue_jobs()
    assert (DONE, 0, []) == (
        result.exit_code,
        len(Queue("email", connection=theirs.connection)),
        list(theirs.get_jobs()),
    )
    assert client.get(job.id).next_at < datetime.now(UTC)


@pytest.mark.parametrize(
    ("score", "meta", "problem"),
    [
        (1.8e12, {}, "after 1970, is not valid"),
        (math.inf, {"interval": 60}, "after 1970, is not valid"),
        (4e9, {"interval": [60]}, r"interval = [60], not a number"),
        (4e9, {"interval": 60, "repeat": "x"}, "repeat = 'x', not a number"),
        (4e9, ["interval"], "its meta is list, not a dict"),
    ],
)
def test_an_invalid_job_of_rq_scheduler_is_refused_and_the_rest_is_moved(
    zsched: Zsched, client: Client, theirs: Scheduler, score: float, meta: Any, problem: str
) -> None:
    good, odd = (theirs.enqueue_in(LATER, "app.tasks.remind") for _ in range(2))
    odd.save()
    theirs.connection.hset(odd.key, "meta", odd.serializer.dumps(meta))  # RQ 3 writes no list
    theirs.connection.zadd("rq:scheduler:scheduled_jobs", {odd.id: score})

    result = zsched("import", "rq-scheduler", "--tz", "UTC", "--json")

    (refused,) = json.loads(result.stdout)["refused"]
    assert (FAILED, odd.id, [good.id]) == (result.exit_code, refused["place"], [one.id for one in client.list()])
    assert problem in refused["problem"]


def test_an_import_is_refused_while_an_rq_scheduler_runs(zsched: Zsched, client: Client, theirs: Scheduler) -> None:
    theirs.enqueue_in(LATER, "app.tasks.remind")
    theirs.register_birth()

    refused, shown = zsched("import", "rq-scheduler"), zsched("import", "rq-scheduler", "--dry-run")
    before = list(client.list())
    theirs.register_death()
    result = zsched("import", "rq-scheduler")

    assert (FAILED, DONE, DONE) == (refused.exit_code, shown.exit_code, result.exit_code)
    assert f"an rq-scheduler runs on this Redis ({theirs.name}; " in refused.stderr
    assert "every job would run twice; stop it first" in shown.stderr
    assert ([], 1) == (before, len(list(client.list())))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("cron", "imported"),
    [
        ("0 0 13 * *", "0 0 13 * *"),
        ("0 0 */2 * 1", "0 0 */2 * 1"),
        ("0 0 1,* * 1", "0 0 * * 1"),
        ("0 0 * * sat-sun", "0 0 * * sat-sun"),
        ("5/15 * * * *", "5/15 * * * *"),
        ("0 0 1 1 * *", "0 0 1 1 *"),
        ("30 0 0 1 1 * *", "30 0 0 1 1 *"),
        ("0 0 13 * 5", None),
        ("0 0 1 1 * 2099", None),
    ],
)
def test_cron_strings_of_rq_scheduler_keep_their_meaning_or_are_refused(
    zsched: Zsched, theirs: Scheduler, cron: str, imported: str | None
) -> None:
    theirs.cron(cron, "app.tasks.digest", id="digest")

    told = zsched.json("import", "rq-scheduler", "--dry-run", "--tz", "UTC")

    assert ([] if imported is None else [imported]) == [one["cron"] for one in told["schedules"]]
    assert ([] if imported else ["digest"]) == [one["place"] for one in told["refused"]]


# -- pickles, which run what they open: SECURITY.md says when ----------------------------------------


class Opened:
    """An argument whose pickle makes a file where it is opened."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._file,)


def put_with_rq(queue: Queue, argument: Opened) -> None:
    queue.enqueue_in(LATER, "app.tasks.remind", argument)


def put_with_rq_scheduler(queue: Queue, argument: Opened) -> None:
    scheduler = Scheduler(queue_name=queue.name, connection=queue.connection)
    scheduler.schedule(datetime(2040, 1, 1), "app.tasks.beat", args=[argument], interval=90)


@pytest.mark.parametrize(
    ("command", "put"), [(["rq-scheduled"], put_with_rq), (["rq-scheduler", "--tz", "UTC"], put_with_rq_scheduler)]
)
def test_an_import_opens_a_pickle_before_it_finds_the_function_not_allowed(
    zsched: Zsched,
    client: Client,
    queue: Queue,
    tmp_path: Path,
    command: list[str],
    put: Callable[[Queue, Opened], None],
) -> None:
    put(queue, Opened(tmp_path / "ran"))
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "other.*"

    result = zsched("import", *command)

    assert (FAILED, True) == (result.exit_code, "allow_callables" in result.stderr)
    assert [] == list(client.list())
    assert (tmp_path / "ran").exists()


def test_an_import_refuses_a_job_with_a_forbidden_callback(zsched: Zsched, client: Client, queue: Queue) -> None:
    queue.enqueue_in(LATER, "app.tasks.remind", on_success=Callback("os.abort"))
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.*.*"

    result = zsched("import", "rq-scheduled")

    assert (FAILED, True) == (result.exit_code, "on_success='os.abort'" in result.stderr)
    assert [] == list(client.list())
