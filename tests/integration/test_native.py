"""RQ's own delayed jobs with a real daemon process and real workers of RQ."""

import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from rq import Queue, Retry

from tests.builders.daemons import DaemonProcess, DaemonThread, Start
from tests.builders.leaders import know
from tests.builders.workers import RqWorkers
from tests.ledger import await_queued, queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link
from zsched.storage.jobs import Registries
from zsched.storage.rqkeys import RqKeys

pytestmark = pytest.mark.once
OURS = b"zsched:default"

TASKS = """
import os, redis
from rq import get_current_job

def note():
    with redis.Redis.from_url(os.environ["TASKS_REDIS"]) as client:
        client.rpush("noted", get_current_job().id)

def fail():
    note()
    raise ValueError("on purpose")

def fail_and_tell():
    # Note how many ms after the end of its last attempt it was queued again.
    job = get_current_job()
    if job.ended_at:
        with redis.Redis.from_url(os.environ["TASKS_REDIS"]) as client:
            client.rpush("waits", (job.enqueued_at - job.ended_at).total_seconds() * 1000)
    raise ValueError("on purpose")
"""

Work = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def work(tmp_path: Path, guard: Guard, redis_url: str) -> Work:
    """A function that starts ``rq worker`` with the given arguments."""
    return RqWorkers(guard, redis_url, tmp_path, TASKS).start


@pytest.fixture
def start_daemon(guard: Guard, redis_url: str, redis_client: redis.Redis) -> Start:
    """A function that starts a daemon process without a hold, and returns when it leads."""

    def start(**settings: str) -> DaemonProcess:
        know(redis_client)
        daemon = DaemonProcess(guard, redis_url, **settings)
        daemon.wait_for("term_began")
        return daemon

    return start


def delay(client: redis.Redis, *ids: str, in_s: float = 0, queue: str = "default", task: str = "note") -> None:
    rq = Queue(queue, connection=client)
    for id in ids:
        rq.enqueue_in(timedelta(seconds=in_s), f"tasks.{task}", job_id=id)


def noted(client: redis.Redis) -> list[str]:
    return [id.decode() for id in client.lrange("noted", 0, -1)]


def served(daemon: DaemonProcess, queue: str = "default") -> bool:
    return queue in {event["queue"] for event in daemon.of("native_queue_served")}


def scripts_run(client: redis.Redis) -> int:
    return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])


def test_a_plain_worker_runs_jobs_that_enqueue_in_delayed(
    start_daemon: Start, redis_client: redis.Redis, work: Work
) -> None:
    start_daemon()
    work("default", "other")
    delay(redis_client, "soon", "soon-too", in_s=1)
    delay(redis_client, "elsewhere", in_s=1, queue="other")

    eventually(lambda: len(noted(redis_client)) >= 3)

    assert {"soon": 1, "soon-too": 1, "elsewhere": 1} == Counter(noted(redis_client))
    eventually(lambda: redis_client.hget(f"{RQ}:job:soon", "status") == b"finished")


@pytest.mark.parametrize("filled", [[], [0], [7, 499, 500, 1999], list(range(2000))])
def test_a_few_commands_find_the_registries_among_those_of_thousands_of_queues(
    link: Link, redis_client: redis.Redis, filled: list[int]
) -> None:
    rq, queues = RqKeys(RQ), [f"tenant-{number}" for number in range(2000)]
    redis_client.sadd(rq.queues(), *map(rq.queue, queues))
    for number in filled:
        redis_client.zadd(rq.registry("finished", queues[number]), {"job": 1})

    with link.wire() as wire:
        before = redis_client.info("commandstats").get("cmdstat_exists", {"calls": 0})["calls"]
        found = Registries(wire, rq).keys()
        commands = redis_client.info("commandstats")["cmdstat_exists"]["calls"] - before

    assert {rq.registry("finished", queues[number]) for number in filled} <= found.keys()
    assert len(found) <= 4 * len(filled)
    assert commands <= 8 + 24 * len(filled)
    assert commands <= 128


@pytest.mark.parametrize("who", ["RQ", "zsched"])
def test_a_failing_job_is_retried_until_no_retries_are_left(
    start_daemon: Start, redis_client: redis.Redis, redis_url: str, work: Work, who: str
) -> None:
    start_daemon()
    work("default")
    retry = Retry(max=2, interval=1)

    if who == "RQ":
        run = Queue("default", connection=redis_client).enqueue("tasks.fail", job_id="fails", retry=retry).id
    else:
        run = Client.from_url(redis_url).schedule("tasks.fail", id="fails", after=0, retry=retry).run_id

    eventually(lambda: redis_client.hget(f"{RQ}:job:{run}", "status") == b"failed")
    assert [run] * 3 == noted(redis_client)
    assert b"0" == redis_client.hget(f"{RQ}:job:{run}", "retries_left")
    assert (b"2" if who == "zsched" else None) == redis_client.hget(f"{RQ}:job:{run}", "zs_retries")


@pytest.mark.parametrize("who", ["RQ", "zsched"])
def test_a_retry_starts_a_whole_interval_after_the_end_of_the_last_attempt(
    start_daemon: Start, redis_client: redis.Redis, redis_url: str, work: Work, who: str
) -> None:
    start_daemon()
    work("default")
    retry, client, queue = Retry(max=2, interval=[1]), Client.from_url(redis_url), Queue(connection=redis_client)

    for number in range(6):
        if who == "RQ":
            queue.enqueue("tasks.fail_and_tell", retry=retry)
        else:
            client.schedule("tasks.fail_and_tell", after=number * 0.15, retry=retry)

    eventually(lambda: redis_client.llen("waits") == 12)
    assert 1000 <= min(float(ms) for ms in redis_client.lrange("waits", 0, -1))


def test_rqs_delayed_jobs_are_never_queued_early(start_daemon: Start, redis_client: redis.Redis) -> None:
    start_daemon()
    queue, due = Queue(connection=redis_client), {}
    for n in range(16):
        wait = timedelta(seconds=1, milliseconds=n * 137)
        job = queue.enqueue_in(wait, "tasks.note")
        due[job.id] = job.created_at + wait
        at = datetime.now(UTC) + wait
        due[queue.enqueue_at(at, "tasks.note").id] = at

    eventually(lambda: len(queued(redis_client)) == len(due))

    for id, at in due.items():
        assert at <= datetime.fromisoformat(redis_client.hget(f"{RQ}:job:{id}", "enqueued_at").decode())


def test_a_running_rq_scheduler_keeps_its_queue_and_no_job_is_queued_twice(
    start_daemon: Start, redis_client: redis.Redis, work: Work
) -> None:
    redis_client.sadd(f"{RQ}:queues", f"{RQ}:queue:default", f"{RQ}:queue:free")
    work("--with-scheduler", "default")
    holder = eventually(lambda: redis_client.get(f"{RQ}:scheduler-lock:default"))
    daemon = start_daemon()

    left = daemon.wait_for("native_queue_left")
    ids = [f"job-{n}" for n in range(20)]
    delay(redis_client, *ids, in_s=1)
    delay(redis_client, "free", queue="free")

    assert ("default", holder.decode()) == (left["queue"], left["holder"])
    eventually(lambda: len(noted(redis_client)) >= 20)
    assert dict.fromkeys(ids, 1) == Counter(noted(redis_client))
    eventually(lambda: queued(redis_client, "free") == ["free"])
    assert holder == redis_client.get(f"{RQ}:scheduler-lock:default")
    assert not served(daemon)


def test_a_worker_with_scheduler_leaves_a_served_queue_alone(
    start_daemon: Start, redis_client: redis.Redis, work: Work
) -> None:
    redis_client.sadd(f"{RQ}:queues", f"{RQ}:queue:default")
    daemon = start_daemon()
    daemon.wait_for("native_queue_served")
    work("--with-scheduler", "default")
    eventually(lambda: redis_client.scard(f"{RQ}:workers") == 1)

    ids = [f"job-{n}" for n in range(20)]
    delay(redis_client, *ids, in_s=1)

    eventually(lambda: len(noted(redis_client)) >= 20)
    assert dict.fromkeys(ids, 1) == Counter(noted(redis_client))
    assert OURS == redis_client.get(f"{RQ}:scheduler-lock:default")
    assert [] == daemon.of("native_queue_left")


def test_a_queue_whose_scheduler_stopped_is_served_until_a_clean_stop(
    start_daemon: Start, redis_client: redis.Redis
) -> None:
    delay(redis_client, "a")
    redis_client.set(f"{RQ}:scheduler-lock:default", "somebody", ex=60)
    daemon = start_daemon()
    daemon.wait_for("native_queue_left")

    redis_client.delete(f"{RQ}:scheduler-lock:default")

    daemon.wait_for("native_queue_served")
    eventually(lambda: queued(redis_client) == ["a"])
    assert OURS == redis_client.get(f"{RQ}:scheduler-lock:default")
    daemon.stop()
    assert redis_client.get(f"{RQ}:scheduler-lock:default") is None


def test_native_false_leaves_rqs_jobs_and_locks_alone(
    start_daemon: Start, redis_client: redis.Redis, redis_url: str
) -> None:
    delay(redis_client, "a")
    daemon = start_daemon(RQ_NATIVE="false", RQ_SERIALIZER="pickle", DAEMON_IDLE_MS="50")

    Client.from_url(redis_url).schedule("tasks.note", id="ours", after=0, queue="ours")

    eventually(lambda: queued(redis_client, "ours"))
    passes = scripts_run(redis_client)
    eventually(lambda: scripts_run(redis_client) >= passes + 20)  # in each it would have looked for RQ's jobs
    assert [] == queued(redis_client)
    assert redis_client.get(f"{RQ}:scheduler-lock:default") is None
    assert [] == daemon.of("native_queue_served")


def test_a_list_of_native_queues_serves_only_these_queues(start_daemon: Start, redis_client: redis.Redis) -> None:
    for queue in ("mail", "default"):
        delay(redis_client, f"in-{queue}", queue=queue)
    daemon = start_daemon(RQ_NATIVE="mail,reports")
    eventually(lambda: queued(redis_client, "mail") == ["in-mail"])

    delay(redis_client, "later", queue="reports")

    eventually(lambda: queued(redis_client, "reports") == ["later"])
    assert [] == queued(redis_client)
    assert redis_client.get(f"{RQ}:scheduler-lock:default") is None
    daemon.wait_for("native_queue_served", 2)
    assert {"mail", "reports"} == {event["queue"] for event in daemon.of("native_queue_served")}


def test_a_steady_stream_of_schedules_does_not_starve_rqs_jobs(redis_client: redis.Redis, redis_url: str) -> None:
    know(redis_client)
    delay(redis_client, *(f"rq-{n}" for n in range(50)), queue="rqs")
    client, ours = Client.from_url(redis_url), 0

    def put_more(number: int) -> None:
        nonlocal ours
        client.schedule_many({"func": "tasks.note", "id": f"o{ours + n}", "after": 0} for n in range(number))
        ours += number

    def are_served_during_the_stream() -> bool:
        with redis_client.pipeline() as at_once:
            at_once.llen(f"{RQ}:queue:rqs")
            at_once.zcard("zsched:{default}:due:normal")
            served, waiting = at_once.execute()
        if waiting < 20_000:
            put_more(5_000)
        return served == 50 and waiting > 0

    put_more(30_000)
    with DaemonThread(redis_url, batch_max=5):
        eventually(are_served_during_the_stream)
        await_queued(redis_client, ours)


def test_a_registry_of_a_wrong_type_does_not_stop_schedules(
    start_daemon: Start, redis_client: redis.Redis, redis_url: str
) -> None:
    delay(redis_client, "a")
    redis_client.set(f"{RQ}:scheduled:broken", "no registry")
    redis_client.sadd(f"{RQ}:queues", f"{RQ}:queue:broken")
    daemon = start_daemon()

    told = daemon.wait_for("native_queue_left")
    eventually(lambda: queued(redis_client) == ["a"])
    Client.from_url(redis_url).schedule("tasks.note", id="ours", after=0, queue="ours")

    eventually(lambda: queued(redis_client, "ours"))
    assert ("broken", f"wrong type at {RQ}:scheduled:broken") == (told["queue"], told["reason"])
    assert [] == daemon.of("redis_refused")


def test_a_delayed_job_that_has_finished_is_logged_and_not_queued_again(
    start_daemon: Start, redis_client: redis.Redis
) -> None:
    delay(redis_client, "a")
    redis_client.hset(f"{RQ}:job:a", "status", "finished")

    daemon = start_daemon()

    told = daemon.wait_for("native_jobs_odd")
    assert ("default", 1, "a", "warning") == (told["queue"], told["count"], told["first"], told["level"])
    assert "finished" in told["reason"]
    assert ([], 0) == (queued(redis_client), redis_client.zcard(f"{RQ}:scheduled:default"))
