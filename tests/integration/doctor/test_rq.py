"""The doctor's checks of RQ: real workers, the queues in use, and other schedulers."""

import shlex
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import pytest
import redis
from rq import Queue, Worker
from rq.cron import CronScheduler
from rq.suspension import suspend
from rq.utils import utcformat
from rq_scheduler import Scheduler

from tests.builders.entries import add_entry
from tests.builders.workers import RqWorkers
from tests.integration.doctor.examining import KEYS, Case, examined, found_as, only
from tests.integration.standing import now_ms
from tests.prefix import IN_ENVIRONMENT, RQ, needs_prefix
from tests.waiting import eventually
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.health.facts import Severity

HOUR = timedelta(hours=1)
OK, WARNING, PROBLEM, SKIPPED = Severity.OK, Severity.WARNING, Severity.PROBLEM, Severity.SKIPPED

Work = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def work(url: str, guard: Guard, tmp_path: Path) -> Work:
    """A function that starts ``rq worker`` with the given arguments."""
    return RqWorkers(guard, url, tmp_path).start


def registered(sound: redis.Redis, name: str = "w1", **fields: str) -> None:
    """Register a worker like RQ, with other *fields*."""
    told = {"version": version("rq"), "queues": "default", "pid": "1", "hostname": "box"} | fields
    sound.hset(f"{RQ}:worker:{name}", mapping=told)
    for key in (f"{RQ}:workers", *(f"{RQ}:workers:{queue}" for queue in told["queues"].split(","))):
        sound.sadd(key, f"{RQ}:worker:{name}")


def worker_of(url: str, *arguments: str) -> list[str]:
    """Return the words of the command that a remedy gives for a worker."""
    return [*IN_ENVIRONMENT, f"RQ_REDIS_URL={url}", "rq", "worker", *arguments]


def waits(sound: redis.Redis, ago: timedelta) -> None:
    """Push a foreign job to the queue email, *ago*."""
    job = Queue("email", connection=sound).enqueue("app.task")
    sound.hset(job.key, "enqueued_at", utcformat(datetime.now(UTC) - ago))


def versions(sound: redis.Redis, *given: str) -> None:
    """Register a worker of each of these versions of RQ."""
    for number, name in enumerate(given, 1):
        registered(sound, f"w{number}", version=name)


def waits_without_a_worker(sound: redis.Redis, minutes: int) -> None:
    registered(sound, queues="default")
    waits(sound, timedelta(minutes=minutes))


def waits_suspended(sound: redis.Redis, minutes: int) -> None:
    registered(sound, queues="email")
    waits(sound, timedelta(minutes=minutes))
    suspend(sound)


def another_scheduler(sound: redis.Redis, begin: Callable[[Scheduler], object]) -> None:
    """Let rq-scheduler have a job, and *begin*."""
    theirs = Scheduler(connection=sound)
    theirs.enqueue_in(HOUR, print)
    begin(theirs)


def locked(sound: redis.Redis, **holders: str) -> None:
    """Let RQ's scheduler of each queue have a lock, of the holder that is given."""
    for queue, holder in holders.items():
        sound.sadd(f"{RQ}:queues", f"{RQ}:queue:{queue}")
        sound.set(f"{RQ}:scheduler-lock:{queue}", holder)


def imported(sound: redis.Redis, *states: Callable[[Scheduler], object]) -> None:
    """Let rq-scheduler have a job that is scheduled here, too, and bring it into *states*, one after the other."""
    theirs = Scheduler(connection=sound)
    theirs.schedule(datetime(2040, 1, 1), "app.task", interval=60, id="a")
    Client(sound).schedule("app.task", id="a", every=HOUR)
    for state in states:
        state(theirs)


def waits_twice(sound: redis.Redis) -> None:
    """Let RQ have two delayed jobs, one of which is scheduled here, too."""
    for id in ("reminder-1", "reminder-2"):
        Queue("email", connection=sound).enqueue_in(HOUR, print, job_id=id)
    Client(sound).schedule("app.task", id="reminder-1", after=HOUR)


def runs_cron(sound: redis.Redis, module: str) -> None:
    """Let RQ's cron run a module whose jobs were imported."""
    Client(sound).schedule("app.task", id="a", every=HOUR, owner="rq-cron:app.cron_config")
    running = CronScheduler(sound, name="box.1")
    running.config_file = module
    running.register_birth()


ONLY_EMAIL = {"rq": {"native": ["email"]}}
NO_WORKER = "…no RQ worker is registered…"
ABSENT = "no worker listens to queue email, where 1 job waits for …"
SUSPENDED = ("RQ's workers are suspended: 1 job waits for … in queue email", "resume them: …RQ_REDIS_URL=…resume")
CASES = {
    "no worker": Case(lambda sound: None, "workers", WARNING, NO_WORKER),
    "no worker after a loss of Redis": Case(
        lambda sound: add_entry(
            sound, KEYS.log(), "3-1", "merged", now_ms(sound) * 1000, "archive", "x", "rows", 1, "3-1", 5
        ), "workers", WARNING, "…unless workers ran when Redis lost…",
    ),
    "an old RQ": Case(lambda sound: versions(sound, "1.16.2"), "workers", PROBLEM, "…1 worker of RQ 1.16.2 (w1)…"),
    "a future RQ": Case(lambda sound: versions(sound, "4.0.0"), "workers", PROBLEM, "…1 worker of RQ 4.0.0 (w1)…"),
    "RQ 2 and RQ 3 in a queue": Case(
        lambda sound: versions(sound, "2.12.0", "3.0.0"), "workers", PROBLEM,
        "…workers of RQ 2 and of RQ 3 take from default…",
    ),
    "workers of different versions": Case(
        lambda sound: versions(sound, "2.8.0", "2.12.0"), "workers", WARNING,
        "workers are of different versions of RQ: 2.12.0 (1), 2.8.0 (1)",
    ),
    "another serializer": Case(
        lambda sound: Client(sound).schedule("app.task", id="a", every=HOUR), "serializer", PROBLEM,
        "…payloads are pickle, and these settings say json…", '…serializer = "pickle"…', {"rq": {"serializer": "json"}},
    ),
    "a lock of this namespace": Case(
        lambda sound: locked(sound, email=f"zsched:{KEYS.namespace}"), "rq's scheduler", OK, "…",
    ),
    "a lock of another namespace": Case(
        lambda sound: locked(sound, email="zsched:other"), "rq's scheduler", WARNING, "…the namespace other has…",
    ),
    "a lock, and RQ moves its own jobs": Case(
        lambda sound: locked(sound, email="somebody"), "rq's scheduler", OK, "…", asked={"rq": {"native": False}},
    ),
    "a lock of an unlisted queue": Case(
        lambda sound: locked(sound, push="somebody"), "rq's scheduler", OK,
        "…in email; those of other queues are left to RQ's schedulers…", asked=ONLY_EMAIL,
    ),
    "a lock of a listed queue": Case(
        lambda sound: locked(sound, push="somebody", email="somebody"), "rq's scheduler", WARNING,
        "…has the scheduler's lock of email:…", asked=ONLY_EMAIL,
    ),
    "a job that waits here and in RQ": Case(
        waits_twice, "rq's delayed jobs", WARNING, "1 delayed job of RQ waits here, too: reminder-1",
    ),
    "imported jobs of rq-scheduler": Case(
        lambda sound: imported(sound), "rq-scheduler", OK, "…all of them scheduled here…",
    ),
    "imported jobs that rq-scheduler runs": Case(
        lambda sound: imported(sound, Scheduler.register_birth), "rq-scheduler", PROBLEM,
        "…with 1 job, 1 of them scheduled here, too: that runs twice…",
    ),
    "imported jobs that rq-scheduler ran": Case(
        lambda sound: imported(sound, Scheduler.register_birth, Scheduler.register_death), "rq-scheduler", OK, "…",
    ),
    "an imported module that RQ's cron runs": Case(
        lambda sound: runs_cron(sound, "app.cron_config"), "rq's cron", PROBLEM,
        "…whose jobs were imported: they run twice…",
    ),
    "an imported file that RQ's cron runs": Case(
        lambda sound: runs_cron(sound, "/srv/app/cron_config.py"), "rq's cron", PROBLEM,
        "…whose jobs were imported: they run twice…",
    ),
    "a worker that has stopped": Case(
        lambda sound: registered(sound, death="2026-01-01T00:00:00Z"), "workers", WARNING, NO_WORKER,
    ),
    "the usual prefix": Case(lambda sound: None, "prefix", OK, f"…RQ's keys begin with {RQ}:…"),
    "jobs wait for minutes": Case(lambda sound: waits_without_a_worker(sound, 6), "queues", PROBLEM, ABSENT),
    "jobs wait": Case(lambda sound: waits_without_a_worker(sound, 0), "queues", WARNING, ABSENT),
    "suspended for minutes": Case(lambda sound: waits_suspended(sound, 6), "queues", PROBLEM, *SUSPENDED),
    "suspended": Case(lambda sound: waits_suspended(sound, 0), "queues", WARNING, *SUSPENDED),
    "an unused queue": Case(
        lambda sound: sound.sadd(f"{RQ}:queues", f"{RQ}:queue:old"), "queues", OK, "no queue is used",
    ),
    "rq-scheduler has jobs": Case(
        lambda sound: another_scheduler(sound, lambda theirs: None), "rq-scheduler", WARNING,
        "rq-scheduler has 1 job, 0 of them scheduled here (it does not run)", "zsched import rq-scheduler",
    ),
    "rq-scheduler runs": Case(
        lambda sound: another_scheduler(sound, Scheduler.register_birth), "rq-scheduler", WARNING,
        "rq-scheduler runs (…) with 1 job", "stop it, then: zsched import rq-scheduler",
    ),
    "rq-scheduler without a heartbeat": Case(
        lambda sound: another_scheduler(sound, Scheduler.acquire_lock), "rq-scheduler", WARNING,
        "…rq-scheduler runs (one that has the lock)…",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_fault_of_rq_is_found(url: str, sound: redis.Redis, case: Case) -> None:
    found_as(case, url, sound)


def test_the_doctor_lists_a_real_worker_with_its_version_and_queues(
    url: str, sound: redis.Redis, work: Work, client: Client
) -> None:
    client.schedule("app.task", id="a", every=HOUR, queue="email")
    work("email", "default")
    eventually(lambda: Worker.count(connection=sound))

    found = examined(url)

    assert f"1 worker of RQ {version('rq')}" in only(found["workers"], OK).text
    assert "every queue in use has workers (1)" == only(found["queues"], OK).text


@pytest.mark.parametrize("used", [False, True])
def test_checks_of_missing_workers_name_one_queue(url: str, sound: redis.Redis, client: Client, used: bool) -> None:
    if used:
        client.schedule("app.task", id="later", every=HOUR, queue="email")
    waits(sound, timedelta(0))

    found = examined(url)

    remedies = [only(found[group], WARNING).remedy for group in ("workers", "queues")]
    assert [worker_of(url, "email")] * 2 == [shlex.split(remedy.rpartition(": ")[2]) for remedy in remedies]


def test_a_finding_about_many_queues_names_a_few(url: str, sound: redis.Redis, client: Client) -> None:
    for n in range(300):
        client.schedule("app.task", id=f"s{n}", every=HOUR, queue=f"tenant-{n}")
    queues = [f"tenant-{n}" for n in range(300)]

    found = [one for group in examined(url).values() for one in group]

    assert [worker_of(url, *sorted(queues)[:4])] * 2 == [
        shlex.split(one.remedy.rpartition(": ")[2]) for one in found if " rq worker " in one.remedy
    ]
    assert [] == [one for one in found if len(one.text + one.remedy) > 500]


def test_workers_that_take_jobs_unregistered_cause_no_fault(url: str, sound: redis.Redis, client: Client) -> None:
    client.schedule("app.task", id="a", every=HOUR, queue="email")
    ended = Queue("email", connection=sound).enqueue("app.task")
    sound.delete(f"{RQ}:queue:email")
    sound.hset(ended.key, mapping={"ended_at": utcformat(datetime.now(UTC)), "worker_name": "w1"})
    sound.zadd(f"{RQ}:finished:email", {ended.id: 9e9})
    sound.hset(f"{RQ}:worker:w1", "last_heartbeat", utcformat(datetime.now(UTC)))

    found = examined(url)

    assert "workers take jobs: they began before Redis lost its data" in only(found["workers"], Severity.NOTE).text
    assert "every queue in use has workers (1)" == only(found["queues"], OK).text


def test_unregistered_workers_do_not_hide_a_queue_without_workers(url: str, sound: redis.Redis, client: Client) -> None:
    client.schedule("app.task", id="a", every=HOUR, queue="email")
    client.schedule("app.task", id="b", every=HOUR, queue="sms")
    sound.zadd(f"{RQ}:wip:email", {"job:execution": 9e9})  # a running job

    found = examined(url)

    assert "workers take jobs" in only(found["workers"], Severity.NOTE).text
    assert "no worker listens to queue sms, which schedules use" == only(found["queues"], WARNING).text


def test_the_serializer_check_is_skipped_for_json(url: str) -> None:
    Client.from_url(url, serializer="json").schedule("app.task", id="a", every=HOUR)

    found = examined(url, rq={"serializer": "json"})

    assert "do not report" in only(found["serializer"], SKIPPED).text
    command = only(found["workers"], WARNING).remedy.partition(": ")[2]
    assert [*IN_ENVIRONMENT, f"RQ_REDIS_URL={url}", "rq", "worker", "--serializer", "json", "default"] == shlex.split(
        command
    )


@needs_prefix
def test_another_prefix_than_the_namespaces_is_a_problem(url: str, client: Client) -> None:
    client.schedule("app.task", id="a", every=HOUR)

    finding = only(examined(url, rq={"prefix": "{app}:rq"})["prefix"], PROBLEM)

    assert f"under RQ's prefix '{RQ}', and these settings say '{{app}}:rq'" in finding.text
    assert f'set [rq] prefix = "{RQ}", or give another namespace' == finding.remedy


@needs_prefix
def test_workers_under_another_prefix_than_the_settings_are_a_problem(url: str, sound: redis.Redis) -> None:
    registered(sound)

    other, nobody = examined(url, rq={"prefix": "{app}:rq"})["prefix"]

    assert f"RQ_KEY_PREFIX of this environment makes RQ's prefix '{RQ}', and [rq] prefix is '{{app}}:rq'" == other.text
    assert (WARNING, PROBLEM) == (other.severity, nobody.severity)
    assert f"workers take jobs under RQ's prefix '{RQ}', none under '{{app}}:rq'" in nobody.text
    command = nobody.remedy.partition(": ")[2]
    assert ["RQ_KEY_PREFIX={app}:rq", f"RQ_REDIS_URL={url}", "rq", "worker", "default"] == shlex.split(command)


@pytest.mark.parametrize("one_shot", [False, True])
def test_a_used_queue_without_workers_is_found(url: str, sound: redis.Redis, client: Client, one_shot: bool) -> None:
    registered(sound, queues="default,sms")
    when = {"at": datetime.now(UTC) + HOUR} if one_shot else {"every": HOUR}
    client.schedule("app.task", id="a", queue="email", **when)
    client.schedule("app.task", id="b", queue="sms", every=HOUR)

    finding = only(examined(url)["queues"], WARNING)

    assert "no worker listens to queue email, which schedules use" == finding.text
    assert worker_of(url, "email") == shlex.split(finding.remedy.rpartition(": ")[2])


def test_a_worker_with_scheduler_is_named(url: str, sound: redis.Redis, work: Work) -> None:
    work("--with-scheduler", "email")
    eventually(lambda: sound.exists(f"{RQ}:scheduler-lock:email") and Worker.count(connection=sound))

    finding = only(examined(url)["rq's scheduler"], WARNING)

    holder = sound.get(f"{RQ}:scheduler-lock:email").decode()
    assert f"RQ's scheduler {holder}" in finding.text
    assert "lock of email" in finding.text
    assert "without --with-scheduler" in finding.remedy


def test_rqs_cron_is_a_warning_while_it_has_a_heartbeat(url: str, sound: redis.Redis) -> None:
    killed, running = CronScheduler(sound, name="killed"), CronScheduler(sound, name="box.1")
    killed.register_birth()
    sound.zadd(f"{RQ}:cron_schedulers", {"killed": sound.time()[0] - 3600})
    assert OK is only(examined(url)["rq's cron"], OK).severity

    running.config_file = "app/cron_config.py"
    running.register_birth()
    finding = only(examined(url)["rq's cron"], WARNING)
    assert "RQ's cron runs: box.1, app/cron_config.py" == finding.text
    assert finding.remedy.endswith("import the module you gave it: zsched import rq-cron MODULE")
