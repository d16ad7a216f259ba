"""The product under deploy/redis/users.acl: the abilities of each user."""

import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
import rq
from rq import Queue, Worker
from rq.job import Job

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonProcess
from tests.builders.workers import RqWorkers
from tests.integration.users import DEPLOY, GuardedRedis
from tests.prefix import RQ
from tests.waiting import ENDS_S, WITHIN_S, eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.errors import ZschedError
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

pytestmark = pytest.mark.redis

KEYS = Keys("default")
FAR = datetime(2031, 7, 1, tzinfo=UTC)
Work = Callable[[str, str], None]

TASKS = """
from zsched import Next, current_run, task

@task(queue="chained")
def step(n: int) -> Next | None:
    return Next(after=0, n=n + 1) if n < 3 else None

def note():
    run = current_run()
    run.note(attempt=run.attempt)

def fail():
    raise ValueError("on purpose")
"""


@pytest.fixture
def client(guarded: GuardedRedis) -> Client:
    return Client.from_url(guarded.url("zsched-client"), timeout_s=2 * WITHIN_S, durable_timeout_s=WITHIN_S)


@pytest.fixture
def work(guarded: GuardedRedis, guard: Guard, tmp_path: Path) -> Work:
    """A function that lets an RQ worker of a user empty a queue."""
    return lambda user, queue: RqWorkers(guard, guarded.url(user), tmp_path, TASKS).work(queue)


@pytest.fixture
def leader(
    guarded: GuardedRedis, client: Client, operator: redis.Redis, guard: Guard, tmp_path: Path
) -> Iterator[DaemonProcess]:
    """A daemon that leads, as its user with a password in a file, and with a limit on a queue."""
    (tmp_path / "zsched.toml").write_text("[queues.limited]\nmax_per_second = 1000\n")
    url = guarded.url("zsched-daemon", with_password=False)
    password = {"REDIS_PASSWORD_FILE": guarded.password_file("zsched-daemon")}
    daemon = DaemonProcess(guard, url, CONFIG=str(tmp_path / "zsched.toml"), **password)
    daemon.wait_for("term_began")
    eventually(lambda: has_archive(client))
    yield daemon
    daemon.stop()


def has_archive(client: Client) -> bool:
    """Return True if an archive follows the log."""
    told = client._overview()
    return any(report.is_alive(told.now_ms) for report in told.archives)


def is_over(client: Client, run_id: str | None) -> Callable[[], bool]:
    """Return a function that tells whether the tracker has recorded the end of a run."""
    return lambda: any(run.id == run_id and run.is_over for run in client.runs(limit=100))


@pytest.mark.parametrize("user", ["zsched-worker", "zsched-scheduling-worker"])
def test_a_daemon_inside_a_worker_is_refused_without_a_user_of_its_own(
    guarded: GuardedRedis, operator: redis.Redis, user: str
) -> None:
    told = Zsched(guarded.url(user), "worker").refusal("--with-daemon", "email")

    assert f"--with-daemon: user {user} lacks rights of the role daemon" in told
    assert told.rstrip().endswith("name a settings file with the daemon's own user: --daemon-config FILE")
    assert not operator.exists(KEYS.seats())


def test_a_daemon_inside_a_worker_has_the_user_of_its_own_settings_and_the_namespace_of_the_worker(
    guarded: GuardedRedis, operator: redis.Redis, client: Client, guard: Guard, tmp_path: Path
) -> None:
    url, password = guarded.url("zsched-daemon", with_password=False), guarded.password_file("zsched-daemon")
    (tmp_path / "daemon.toml").write_text(
        f'namespace = "other"\n[redis]\nurl = "{url}"\npassword_file = "{password}"\n'
    )
    options = ("--with-daemon", "--daemon-config", "daemon.toml", "--namespace", "default", "email")
    workers = RqWorkers(guard, guarded.url("zsched-worker"), tmp_path, TASKS)
    worker = workers.start(*options, module="zsched.cli", ZSCHED_REDIS_URL=guarded.url("zsched-worker"))

    eventually(lambda: client._overview().leader)
    run = client.schedule("tasks.note", queue="email", after=0)
    eventually(is_over(client, run.run_id))

    assert [] == [each for each in guarded.refused() if each.startswith("zsched-daemon")]
    worker.terminate()
    assert 0 == worker.wait(ENDS_S), workers.log
    assert not operator.exists(KEYS.seats())


def test_redis_starts_with_the_deployed_redis_conf(guard: Guard) -> None:
    server = EmbeddedRedis(guard=guard, config={"include": str(DEPLOY / "redis.conf")})
    with server, redis.Redis.from_url(server.url) as client:
        told = client.config_get()

    asked = {"appendonly": "yes", "aof-load-truncated": "no", "hash-max-ziplist-value": "512"}
    assert asked == {name: told[name] for name in asked}


def test_redis_does_not_start_before_every_password_is_filled_in(guard: Guard) -> None:
    server = EmbeddedRedis(guard=guard, config={"aclfile": str(DEPLOY / "users.acl")})

    with pytest.raises(ZschedError, match=r"users\.acl.*hash must be exactly 64|users\.acl.*hash"):
        server.start()


def test_client_daemon_and_worker_need_no_right_beyond_their_users(
    guarded: GuardedRedis, client: Client, leader: DaemonProcess, work: Work, operator: redis.Redis
) -> None:
    once = client.schedule("tasks.note", id="once", after=0, durable=True, expires_after=timedelta(hours=1))
    client.schedule("tasks.note", id="limited", after=0, queue="limited")
    client.schedule("tasks.note", id="rule", every=0.2, count=2, overlap="queue")
    client.schedule("tasks.note", id="replaced", every=0.2, count=3, overlap="cancel_previous", queue="limited")
    failing = client.enqueue("tasks.fail", id="failing", retry=1)
    client.schedule_many({"func": "tasks.note", "id": f"many-{n}", "at": FAR} for n in range(3))
    client.schedule("tasks.note", id="daily", cron="0 9 * * *", tz="Asia/Seoul")
    client.update("daily", queue="other")
    client.pause("daily", note="for now")
    client.resume("daily")
    client.pause("many-2")
    extra = client.run_now("daily")
    client.backfill("daily", datetime.now(UTC) - timedelta(days=2), datetime.now(UTC))
    withdrawn = client.enqueue("tasks.note", id="withdrawn", queue="nobody")
    client.cancel("many-0")
    assert "no RQ worker is registered for queue nobody" in client.why("withdrawn").verdict.text
    client.cancel_run(str(withdrawn.run_id))
    Queue("default", connection=operator).enqueue_in(timedelta(0), "tasks.fail")
    eventually(lambda: operator.llen(f"{RQ}:queue:default") >= 3 and not operator.exists(f"{RQ}:scheduled:default"))
    eventually(lambda: client.get("rule").next_ms is None and client.get("replaced").next_ms is None)

    for queue in ("default", "limited", "other"):
        work("zsched-worker", queue)
    eventually(is_over(client, once.run_id))
    eventually(is_over(client, failing.run_id))
    client.retry(str(failing.run_id))

    notes = {run.schedule_id: run.note for run in client.runs(limit=100) if run.note}
    assert {"once", "rule", "daily"} <= set(notes)
    assert {"daily", "many-1", "many-2", "rule", "replaced"} == {one.id for one in client.list()}
    assert client.why("once").source.archive is not None
    assert extra in {run.id for run in client.runs("daily", limit=100)}
    assert client.history("once")
    assert list(client.log()[0])
    assert client.preview("daily", n=1)
    assert client._overview().leader is not None
    assert [] == guarded.refused()
    assert not [event for event in leader.events if event["level"] in ("error", "critical")]


@pytest.mark.skipif(not hasattr(rq, "RateLimit"), reason="RQ 2 has no rate limits")
def test_rate_limits_need_no_right_beyond_their_users(
    guarded: GuardedRedis, client: Client, leader: DaemonProcess, work: Work, operator: redis.Redis
) -> None:
    runs = [client.schedule("tasks.note", id=f"limited-{n}", after=0, rate_limit="mail:1").run_id for n in range(3)]
    eventually(lambda: operator.zcard(f"{RQ}:rl:mail:rate_limited") == 2)
    waits = str(client.enqueue("tasks.note", id="waits", rate_limit="mail:1").run_id)
    assert "it waits for a slot of RQ's limit mail (1)" in client.why("waits").verdict.text
    client.cancel_run(waits)
    operator.hset(f"{RQ}:job:gone", "status", "finished")
    operator.sadd(f"{RQ}:rl-keys", "other")
    operator.hset(f"{RQ}:rl:other", "concurrency", 1)
    operator.zadd(f"{RQ}:rl:other:allowed", {"gone": 1})

    work("zsched-worker", "default")

    for run in runs:
        eventually(is_over(client, run))
    eventually(lambda: not operator.exists(f"{RQ}:rl:other:allowed"))
    assert [] == guarded.refused()
    assert not [event for event in leader.events if event["level"] in ("error", "critical")]


def test_a_worker_that_schedules_needs_the_rights_of_a_client(
    guarded: GuardedRedis, client: Client, leader: DaemonProcess, work: Work, operator: redis.Redis
) -> None:
    client.schedule("tasks.step", id="step", after=0, kwargs={"n": 1}, queue="chained")
    eventually(lambda: operator.llen(f"{RQ}:queue:chained") == 1)

    for _ in range(3):
        work("zsched-scheduling-worker", "chained")
        eventually(lambda: not list(client.list()))

    eventually(lambda: len([run for run in client.runs(limit=10) if run.status == "succeeded"]) == 3)
    assert [] == guarded.refused()


def test_a_daemon_with_its_own_rights_restores_what_redis_lost(
    guarded: GuardedRedis, client: Client, leader: DaemonProcess, operator: redis.Redis
) -> None:
    client.schedule("tasks.note", id="far", at=FAR, durable=True)
    client.schedule("tasks.note", id="daily", cron="0 9 * * *", durable=True)

    operator.flushall()

    leader.wait_for("recovery_done")
    assert {"far", "daily"} == {one.id for one in client.list()}
    assert [] == guarded.refused()


def test_a_daemon_with_its_own_rights_serves_metrics(
    guarded: GuardedRedis, operator: redis.Redis, guard: Guard
) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra ops")
    daemon = DaemonProcess(guard, guarded.url("zsched-daemon"), METRICS_LISTEN="127.0.0.1:0")
    metrics = daemon.wait_for("metrics_served")["listen"]
    daemon.wait_for("term_began")

    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=WITHIN_S) as answer:
        told = answer.read().decode()
    daemon.stop()
    assert "zsched_redis_up 1.0" in told
    assert [] == guarded.refused()


def test_a_web_user_can_read_all_keys_of_rq_and_zsched(
    guarded: GuardedRedis, client: Client, leader: DaemonProcess, work: Work, operator: redis.Redis
) -> None:
    run_id = str(client.enqueue("tasks.fail", id="failing").run_id)
    work("zsched-worker", "default")
    eventually(is_over(client, run_id))
    client.schedule("tasks.note", id="waits", at=FAR)

    with guarded.connect("zsched-web") as reader:
        [queue] = Queue.all(connection=reader)
        job = Job.fetch(run_id, connection=reader)
        result = job.latest_result()
        failed = queue.failed_job_registry.get_job_ids(cleanup=False)
        workers = Worker.all(connection=reader)
    status = Zsched(guarded.url("zsched-web")).json("status")

    assert ("default", "failed", [run_id], []) == (queue.name, job.get_status(refresh=False), failed, workers)
    assert result is not None
    assert "on purpose" in str(result.exc_string)
    assert status["leader"]
    assert ["default"] == [one["queue"] for one in status["unheard"]]
    assert (False, ["waits"]) == (status["suspended"], [one["id"] for one in status["next"]])
    assert [] == guarded.refused()


@pytest.mark.parametrize("user", ["zsched-client", "zsched-daemon"])
def test_status_names_the_user_to_use_if_queues_may_not_be_read(guarded: GuardedRedis, user: str) -> None:
    Client.from_url(guarded.url("zsched-client")).enqueue("tasks.note", queue="nobody")

    told = Zsched(guarded.url(user)).json("status")

    assert (None, None) == (told["unheard"], told["suspended"])
    [remedy] = [one["remedy"] for one in told["warnings"] if one["name"] == "queues_unknown"]
    assert "zsched-web of zsched files users.acl" in remedy


def test_a_client_user_can_ask_why_its_run_waits(guarded: GuardedRedis, client: Client, operator: redis.Redis) -> None:
    client.enqueue("tasks.note", queue="push")
    Worker(["push"], connection=operator).register_birth()
    run_id = str(client.enqueue("tasks.note", id="run", queue="email").run_id)
    told = client.why(run_id).verdict.text
    assert "no RQ worker is registered for queue email" in told
    assert "queues with workers: push" in told

    operator.set(f"{RQ}:suspended", 1)
    assert "RQ's workers are suspended" in client.why(run_id).verdict.text
    assert [] == guarded.refused()


def test_rq_dashboard_works_as_the_user_of_the_web_server(guarded: GuardedRedis, operator: redis.Redis) -> None:
    pytest.importorskip("rq_dashboard", reason="needs the extra dashboard")
    from tests.integration.dashboard.runs import DONE, FAILED, fill
    from zsched.dashboard.app import make_pages

    operator.flushall()  # what know() wrote
    fill(operator, "pickle")
    operator.sadd(f"{RQ}:workers", f"{RQ}:worker:dead")  # whose own key has lapsed: RQ would take it out of the set
    browser = make_pages(Link.from_url(guarded.url("zsched-web"), 5.0)).test_client()
    lists = [f"jobs/default/{name}/8/asc/1" for name in ("queued", "finished", "failed", "started", "deferred")]
    data = [f"/0/data/{part}.json" for part in ("queues", "workers", f"job/{DONE}", f"job/{FAILED}", *lists)]

    for path in ["/", "/0/view/queues", "/0/view/jobs", "/0/view/workers", *data]:
        answer = browser.get(path, follow_redirects=True)
        assert (200, path) == (answer.status_code, path)

    assert operator.sismember(f"{RQ}:workers", f"{RQ}:worker:dead")
    assert [] == guarded.refused()
