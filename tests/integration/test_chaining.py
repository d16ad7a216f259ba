"""A task that schedules its next run: with real workers, which are killed, and repeated runs."""

import pickle
import subprocess
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import Queue
from rq.job import Job
from rq.serializers import DefaultSerializer, JSONSerializer

from tests.builders.daemons import DaemonThread
from tests.builders.leaders import know
from tests.builders.workers import RqWorkers, work_off
from tests.integration import reminders
from tests.integration.client.calls import payload
from tests.prefix import RQ
from tests.waiting import ENDS_S, eventually
from zsched import Client
from zsched.core.entry import Entry
from zsched.core.runs.run_id import RunId
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.tasks.chaining import Turn

pytestmark = pytest.mark.once
KEYS = Keys("default")
SERIALIZERS = {"pickle": DefaultSerializer, "json": JSONSerializer}


class Stage:
    """A namespace, its client, and its contents."""

    def __init__(self, url: str, redis_client: redis.Redis, folder: Path, serializer: str = "pickle") -> None:
        self.url, self.redis, self.folder, self.serializer = url, redis_client, folder, serializer
        self.client = Client.from_url(url, serializer=serializer)

    def work(self, kind: str = "") -> None:
        """Let a worker empty the queues: in this process, or a process with RQ's class *kind*."""
        if not kind:
            work_off(self.queue("default"), self.redis, self.queue("email"))
            return
        with Guard() as guard:
            assert 0 == self.start_worker(guard, "--burst", "--worker-class", f"rq.{kind}").wait(ENDS_S)

    def start_worker(self, guard: Guard, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker of both queues."""
        serializer = "rq.serializers." + SERIALIZERS[self.serializer].__name__
        return RqWorkers(guard, self.url, self.folder).start("default", "email", "--serializer", serializer, *options)

    def queue(self, name: str) -> Queue:
        return Queue(name, connection=self.redis, serializer=SERIALIZERS[self.serializer])

    def job(self, run_id: str | None) -> Job:
        """Return RQ's own view of a run."""
        assert run_id is not None
        return Job.fetch(run_id, connection=self.redis, serializer=SERIALIZERS[self.serializer])

    def turn(self, run_id: str) -> Turn:
        """Return the turn of a job, as if a worker executed it."""
        parts = RunId.parse(run_id)
        assert parts is not None
        return Turn(Job.create(reminders.untyped, connection=self.redis, id=run_id), parts)

    def error(self, run_id: str | None) -> str:
        """Return the traceback of a run that failed."""
        result = self.job(run_id).latest_result()
        assert result is not None
        return result.exc_string or ""

    def again(self, run_id: str | None, kind: str = "") -> None:
        """Execute a run once more, as RQ's requeue does, by a worker."""
        job = self.job(run_id)
        self.queue(job.origin)._enqueue_job(job)
        self.work(kind)

    def puts(self) -> list[Entry]:
        """Return the puts in order."""
        with closing(Link.from_url(self.url, 5).pool) as pool:
            return [entry for entry in Log(Link(pool, "test", 5), KEYS).entries() if entry.kind == "put"]

    def waiting(self) -> list[str]:
        """Return the ids of the waiting schedules."""
        return [one.id for one in self.client.list()]

    def receipts(self) -> list[str]:
        """Return the receipts of runs."""
        return [text.decode() for text in self.redis.lrange("receipts", 0, -1)]

    def forget_operations(self) -> None:
        """Delete operation ids, as happens after ten minutes."""
        for key in self.redis.keys("zsched:{default}:op:*"):
            self.redis.delete(key)


@pytest.fixture(params=["pickle", "json"])
def each(request: pytest.FixtureRequest, redis_url: str, redis_client: redis.Redis, tmp_path: Path) -> Stage:
    return Stage(redis_url, redis_client, tmp_path, request.param)


@pytest.fixture
def stage(redis_url: str, redis_client: redis.Redis, tmp_path: Path) -> Stage:
    return Stage(redis_url, redis_client, tmp_path)


@pytest.mark.parametrize("kind", ["Worker", "SimpleWorker"])
def test_a_next_repeats_the_task_with_the_runs_payload_and_its_own_changes(each: Stage, kind: str) -> None:
    run = reminders.poll.enqueue(each.client, number=1, seen=[1, 2]).run_id

    each.work(kind)

    [found] = each.client.list()
    assert ("tests.integration.reminders.poll", 30, 3) == (found.func, found.timeout_s, found.retries)
    assert run == each.client.why(found.id).created_by
    assert {"next": [found.id]} == each.job(run).return_value()
    job = each.job(f"{found.id}-{found.next_ms}")
    assert ({"number": 2, "seen": [1, 2]}, []) == (job.kwargs, list(job.args))


def test_a_next_keeps_positional_arguments_of_the_run(stage: Stage) -> None:
    stage.client.enqueue(reminders.poll, (1, 9))

    stage.work()

    [found] = stage.client.list()
    assert {"number": 2, "last": 9} == payload(stage.redis, KEYS.rq.job(f"{found.id}-{found.next_ms}"))[3]


def test_a_next_can_be_a_task_a_path_or_a_function(each: Stage) -> None:
    run = reminders.fan_out.enqueue(each.client).run_id

    each.work()

    found = {one.id: one for one in each.client.list()}
    [plain_id] = set(found) - {"reminder-e2", "third"}
    assert {"next": [plain_id, "reminder-e2", "third"]} == each.job(run).return_value()
    assert plain_id.startswith(f"{run}".rpartition("-")[0] + "-next-")
    assert ("email", ("reminders",)) == (found["reminder-e2"].queue, found["reminder-e2"].tags)
    assert "tests.integration.reminders.untyped" == found["third"].func


def test_a_chain_runs_until_its_end(each: Stage, guard: Guard) -> None:
    know(each.redis)
    each.start_worker(guard)
    with DaemonThread(each.url):
        reminders.poll.schedule(each.client, after=0, id="poll", number=1, last=4)
        reminders.later.schedule(each.client, after=0, number=1)

        for number in range(1, 7):
            eventually(lambda number=number: len(each.receipts()) >= number)  # type: ignore[misc]

    assert {"poll 1", "poll 2", "poll 3", "poll 4", "later 1", "later 2"} == set(each.receipts())
    assert [] == each.waiting()
    assert 6 == len(each.puts())


def test_ids_of_a_chain_do_not_grow(stage: Stage) -> None:
    turn = stage.turn("poll-1700000000000")

    first = turn._id(0)
    second = stage.turn(f"{first}-1700000000001")._id(0)
    long = stage.turn("x" * 128 + "-1700000000000")._id(99)

    assert first != second != turn._id(1) != first
    assert len(first) == len(second)
    assert first.startswith("poll-next-")
    assert second.startswith("poll-next-")
    assert len(long) <= 128


@pytest.mark.parametrize("task", ["poll", "fan_out"])
def test_a_repeated_run_schedules_no_second_next(each: Stage, task: str) -> None:
    given = {"number": 1} if task == "poll" else {}
    run = getattr(reminders, task).enqueue(each.client, **given).run_id
    each.work()
    before, told = each.puts(), each.job(run).return_value()
    assert before

    each.forget_operations()  # the marker alone must do
    each.again(run)

    assert 2 == len(each.receipts())
    assert before == each.puts()
    assert told == each.job(run).return_value()


def test_a_repeated_run_schedules_no_second_next_after_the_first_has_run(stage: Stage) -> None:
    know(stage.redis)
    run = reminders.poll.enqueue(stage.client, number=1, last=2).run_id
    stage.work()
    with DaemonThread(stage.url):
        eventually(lambda: stage.redis.llen(f"{RQ}:queue:default") == 1)
    stage.work()
    assert ["poll 1", "poll 2"] == stage.receipts()

    stage.forget_operations()
    stage.again(run)

    assert ["poll 1", "poll 2", "poll 1"] == stage.receipts()
    assert 1 == len(stage.puts())


@pytest.mark.parametrize(("moment", "is_forgotten"), [("put", False), ("put", True), ("marked", False)])
def test_a_worker_killed_after_scheduling_causes_no_second_next(stage: Stage, moment: Any, is_forgotten: bool) -> None:
    run = reminders.dies.enqueue(stage.client, moment=moment).run_id
    stage.work("Worker")
    [id] = stage.waiting()
    assert ("failed", 1) == (stage.job(run).get_status(), len(stage.puts()))
    if is_forgotten:  # then an unmarked one is put again, under the same id
        stage.forget_operations()

    stage.again(run, "Worker")

    assert "finished" == stage.job(run).get_status()
    assert {"next": [id]} == {"next": stage.waiting()} == stage.job(run).return_value()
    assert 2 == len(stage.receipts())
    assert is_forgotten or 1 == len(stage.puts())


def test_a_run_retried_by_hand_schedules_its_own_next(stage: Stage) -> None:
    run = reminders.poll.enqueue(stage.client, number=1).run_id
    stage.work()
    [first] = stage.waiting()
    assert run is not None

    retried = stage.client.retry(run)
    stage.work()

    assert 2 == len(stage.waiting())
    [second] = set(stage.waiting()) - {first}
    assert {"next": [second]} == stage.job(retried).return_value()


def test_the_next_of_a_run_whose_job_was_deleted_is_scheduled(stage: Stage) -> None:
    reminders.vanishes.enqueue(stage.client)

    stage.work()

    assert ["after-all"] == stage.waiting()


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("mixed", "return='done': a task returned it in a list with Nexts"),
        ("many", "a run can have 100 Nexts"),
        ("past", "ScheduleInPast"),
        ("same", "id='a': two Nexts of one run have it"),
        ("unknown", "did you mean value?"),
        ("urgent", "urgency='ours': a worker knows asap, time_sensitive, digest, and nothing of a client's urgencies="),
    ],
)
def test_a_next_that_is_refused_fails_the_run_visibly(stage: Stage, what: Any, told: str) -> None:
    run = reminders.returns.enqueue(stage.client, what=what).run_id

    stage.work()

    assert told in stage.error(run)
    assert "failed" == stage.job(run).get_status()
    assert [] == stage.waiting() == stage.puts()


def test_a_next_cannot_replace_the_recurring_schedule_of_its_run(stage: Stage) -> None:
    reminders.returns.schedule(stage.client, id="recurs", every=3600, what="own")
    run = stage.client.run_now("recurs")

    stage.work()

    assert "would replace the recurring schedule of this run" in stage.error(run)
    assert "every" == stage.client.get("recurs").kind


def test_a_list_of_nexts_with_a_bad_payload_schedules_nothing(stage: Stage) -> None:
    run = reminders.fan_out.enqueue(stage.client, bad_once=True).run_id

    stage.work()  # with a retry at once

    assert ["fan_out", "fan_out"] == stage.receipts()
    assert "finished" == stage.job(run).get_status()
    assert 3 == len(stage.waiting()) == len(stage.puts())


def test_a_repeated_run_continues_a_list_of_nexts_where_it_was_refused(stage: Stage) -> None:
    stage.client.schedule(reminders.untyped, id="taken", after=timedelta(hours=1), args=(1,))
    run = reminders.stumble.enqueue(stage.client).run_id

    stage.work()

    assert ["stumble", "stumble"] == stage.receipts()
    assert "finished" == stage.job(run).get_status()
    [first] = set(stage.waiting()) - {"taken"}
    assert {"next": [first, "taken"]} == stage.job(run).return_value()
    assert 3 == len(stage.puts())  # taken, first, taken again
    mark = stage.redis.hget(KEYS.rq.job(run or ""), "zs_next")
    assert f"{run} all {first} taken".encode() == mark


def test_a_task_called_inside_another_run_returns_its_next(stage: Stage) -> None:
    reminders.calls_itself.enqueue(stage.client)

    stage.work()

    assert ["outer"] == stage.waiting()
    assert "depth 0: None" == stage.receipts()[0]
    assert "id': 'inner'" in stage.receipts()[1]


def test_a_foreign_job_returns_its_next_unchanged(stage: Stage) -> None:
    job = stage.queue("default").enqueue(reminders.poll, 1, job_id="other")

    stage.work()

    assert reminders.Next(after=0, number=2) == job.return_value()
    assert [] == stage.waiting()


@pytest.mark.parametrize("mark", ["", "x", "b-1 all a", "poll-1700000000000", "\xff all"])
def test_a_marker_of_another_run_is_ignored(stage: Stage, mark: str) -> None:
    turn = stage.turn("poll-1700000000000")

    assert ([], False) == turn._read(mark)
    assert (["a", "b"], False) == turn._read("poll-1700000000000 some a b")
    assert (["a"], True) == turn._read("poll-1700000000000 all a")


def test_the_most_advanced_marker_of_two_executions_is_kept_and_brings_no_deleted_job_back(stage: Stage) -> None:
    turn, job_key = stage.turn("poll-1700000000000"), KEYS.rq.job("poll-1700000000000")

    turn._mark(["a"], is_all=True)
    assert [] == stage.redis.keys("*")

    stage.redis.hset(job_key, "data", pickle.dumps(1))
    turn._mark(["a", "b"], is_all=True)
    turn._mark(["a"], is_all=False)
    assert b"poll-1700000000000 all a b" == stage.redis.hget(job_key, "zs_next")


def test_a_next_is_scheduled_at_the_time_that_it_names(stage: Stage) -> None:
    before = datetime.now(UTC)
    reminders.calls_itself.enqueue(stage.client, depth=0)

    stage.work()

    next_at = stage.client.get("inner").next_at
    assert next_at is not None
    assert next_at >= before + timedelta(hours=1) - timedelta(milliseconds=1)
