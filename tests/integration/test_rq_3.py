"""Features of RQ 3: rate limits as an option of calls, files and the command line; and prefixes of its keys."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
import rq
from rq import Queue, Worker
from rq.job import Job

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonProcess, DaemonThread, leading_daemon
from tests.builders.leaders import know
from tests.builders.workers import RqWorkers, work_off
from tests.integration.doctor.examining import examined, only
from tests.integration.reruns.ends import archived
from tests.ledger import queued
from tests.prefix import RQ, needs_prefix
from tests.waiting import ENDS_S, eventually
from zsched import Client, InvalidSchedule, OtherPrefix
from zsched.cli.program import DONE, FAILED, USAGE
from zsched.core.options.forms import RateLimit
from zsched.embedded.guard import Guard
from zsched.health.facts import Severity
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

pytestmark = needs_prefix  # as rate limits do
LATER = datetime(2100, 1, 1, tzinfo=UTC)
FUNC = "tests.integration.reruns.tasks.done"
OTHER = "{other}:rq"
HOUR = timedelta(hours=1)


def runs_of(redis_client: redis.Redis, of: str, key: str = "mail") -> list[str]:
    return [run.decode() for run in redis_client.zrange(f"{RQ}:rl:{key}:{of}", 0, -1)]


def test_a_schedule_keeps_its_rate_limit_through_updates(client: Client) -> None:
    client.schedule(FUNC, id="once", at=LATER, rate_limit=rq.RateLimit("mail", 3))
    client.schedule(FUNC, id="rule", every=60, rate_limit=("mail", 3))

    for id in ("once", "rule"):
        client.update(id, args=(1,))
        assert RateLimit("mail", 3) == client.get(id).rate_limit
        assert {"key": "mail", "concurrency": 3} == client.get(id).to_dict()["rate_limit"]
        client.update(id, rate_limit="mail:5")
        assert RateLimit("mail", 5) == client.get(id).rate_limit
        client.update(id, rate_limit=None)
        assert client.get(id).rate_limit is None


def test_the_same_call_with_the_same_rate_limit_changes_nothing(client: Client) -> None:
    for id, when in (("once", {"at": LATER}), ("rule", {"cron": "0 0 1 1 *"})):
        client.schedule(FUNC, id=id, rate_limit="mail:3", **when)  # type: ignore[arg-type]  # a time or a rule

        again = client.schedule(FUNC, id=id, rate_limit={"key": "mail", "concurrency": 3}, **when)  # type: ignore[arg-type]
        other = client.schedule(FUNC, id=id, rate_limit="mail:4", **when)  # type: ignore[arg-type]

        assert ("unchanged", "updated") == (again.outcome, other.outcome)


def test_the_command_line_and_files_give_a_rate_limit(zsched: Zsched, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text(f'owner = "us"\n[schedules.filed]\nfunc = "{FUNC}"\nevery = "1h"\nrate_limit = "mail:2"\n')

    added = zsched("add", "told", FUNC, "--every", "1h", "--rate-limit", "mail:4")
    applied = zsched("apply", str(file))

    limits = {one.id: one.rate_limit for one in client.list()}
    assert {"told": RateLimit("mail", 4), "filed": RateLimit("mail", 2)} == limits
    assert 'rate_limit = "mail:4"' in zsched("export").stdout
    cleared = zsched("set", "told", "--unset", "rate-limit")
    assert [(0, "")] * 3 == [(done.exit_code, done.stderr) for done in (added, applied, cleared)]
    assert client.get("told").rate_limit is None


def test_a_bad_rate_limit_is_refused_before_anything_is_written(client: Client) -> None:
    with pytest.raises(InvalidSchedule, match=r"^rate_limit='mail:allowed:3': .*; give another key$"):
        client.enqueue(FUNC, rate_limit="mail:allowed:3")

    assert [] == [*client.list()]


def test_a_run_without_a_slot_is_shown_with_its_limit_and_can_be_cancelled(
    client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    first, second, third = (client.enqueue(FUNC, id=id, rate_limit="mail:1").run_id for id in ("a", "b", "c"))

    story = client.why("b")

    assert ([first], [second, third]) == (runs_of(redis_client, "allowed"), runs_of(redis_client, "rate_limited"))
    assert "is queued; it waits for a slot of RQ's limit mail (1)" in story.verdict.text
    assert f"; a slot has: run {first} is queued since " in story.verdict.text
    assert ("NOT RUN", True) == (story.verdict.word.value, story.verdict.remedy.endswith("rq worker default"))
    worker = Worker(["default"], connection=redis_client, name="w")
    worker.register_birth()
    redis_client.hset(f"{RQ}:job:{first}", mapping={"status": "started", "worker_name": "w"})
    story = client.why("b")
    assert f"; a slot has: run {first} is running on worker w" in story.verdict.text
    assert ("QUEUED", True) == (story.verdict.word.value, story.verdict.remedy.endswith(f"zsched cancel-run {first}"))
    redis_client.hset(f"{RQ}:job:{first}", "status", "queued")
    assert second is not None
    assert "cancelled" == client.cancel_run(second)
    assert [third] == runs_of(redis_client, "rate_limited")
    assert "canceled" == Job.fetch(second, connection=redis_client).get_status()


def test_rqs_worker_takes_runs_and_jobs_of_one_limit_in_order_of_arrival(
    client: Client, redis_client: redis.Redis
) -> None:
    queue = Queue("default", connection=redis_client)
    ids = []
    for n in range(3):
        ids.append(client.enqueue(FUNC, (f"ours{n}",), id=f"o{n}", rate_limit=("mail", 1)).run_id)
        ids.append(queue.enqueue(FUNC, f"rqs{n}", rate_limit=rq.RateLimit("mail", 1)).id)
    assert 1 == len(queue)

    for _ in ids:
        work_off(queue, redis_client)

    assert {"finished"} == {Job.fetch(str(id), connection=redis_client).get_status() for id in ids}
    assert [] == runs_of(redis_client, "allowed") + runs_of(redis_client, "rate_limited")
    assert 6 == redis_client.llen("receipts")


def test_a_retried_run_keeps_its_rate_limit(client: Client, redis_client: redis.Redis) -> None:
    run = client.enqueue(FUNC, id="a", rate_limit="mail:1").run_id
    assert run is not None
    work_off(Queue("default", connection=redis_client), redis_client)
    blocker = client.enqueue(FUNC, id="b", rate_limit="mail:1").run_id

    again = client.retry(run)

    assert ([blocker], [again]) == (runs_of(redis_client, "allowed"), runs_of(redis_client, "rate_limited"))


@pytest.mark.parametrize("is_archived_first", [True, False], ids=["pushed after", "pushed before"])
def test_runs_that_redis_lost_get_and_wait_for_slots_again(
    client: Client, redis_url: str, link: Link, redis_client: redis.Redis, is_archived_first: bool
) -> None:
    """An archive learns of the runs from the log, or finds them in RQ when it begins."""
    runs: list[str | None] = []

    def push() -> None:
        runs.extend(client.enqueue(FUNC, id=id, rate_limit="mail:1").run_id for id in "abc")

    if not is_archived_first:
        push()
        redis_client.xtrim(Keys("default").log(), maxlen=0)  # so only RQ knows of them
    with leading_daemon(redis_url):
        if is_archived_first:
            push()
        client.schedule(FUNC, id="later", at=LATER)
        archived(link)

        redis_client.flushall()

        eventually(lambda: len(runs_of(redis_client, "rate_limited")) == 2)
    assert set(runs) == {*runs_of(redis_client, "allowed"), *runs_of(redis_client, "rate_limited")}
    assert runs_of(redis_client, "allowed") == queued(redis_client)
    assert {b"mail"} == redis_client.smembers(f"{RQ}:rl-keys")


# -- prefixes -----------------------------------------------------------------------------------------


TASKS = """
import os, redis

def note(what):
    with redis.Redis.from_url(os.environ["TASKS_REDIS"]) as client:
        client.rpush("noted", f"{os.environ['RQ_KEY_PREFIX']} {what}")
"""


def test_two_applications_with_different_prefixes_do_not_see_each_other(
    redis_url: str, redis_client: redis.Redis, guard: Guard, tmp_path: Path
) -> None:
    both, workers = {"default": RQ, "other": OTHER}, RqWorkers(guard, redis_url, tmp_path, TASKS)
    for namespace, prefix in both.items():
        know(redis_client, namespace)
        DaemonProcess(guard, redis_url, NAMESPACE=namespace, RQ_PREFIX=prefix).wait_for("term_began")
        workers.start(RQ_KEY_PREFIX=prefix)
        client = Client.from_url(redis_url, namespace, rq_prefix=prefix)
        for number in range(20):
            client.enqueue("tasks.note", [f"{namespace} {number}"])
        client.schedule("tasks.note", args=[f"{namespace} every second"], id="rule", every=timedelta(seconds=1))

    eventually(lambda: all(_noted(redis_client, f"{prefix} {name} every") for name, prefix in both.items()))
    eventually(lambda: all(20 <= _noted(redis_client, f"{prefix} {name} ") for name, prefix in both.items()))

    ours = [f"{prefix} {name} ".encode() for name, prefix in both.items()]
    assert not [told for told in redis_client.lrange("noted", 0, -1) if not told.startswith(tuple(ours))]
    for namespace, prefix in both.items():
        found = examined(redis_url, namespace=namespace, rq={"prefix": prefix})
        assert only(found["workers"], Severity.OK).text.startswith("1 worker of RQ ")
        assert "no other scheduler of RQ's delayed jobs" == only(found["rq's scheduler"], Severity.OK).text


def _noted(client: redis.Redis, start: str) -> int:
    return sum(told.startswith(start.encode()) for told in client.lrange("noted", 0, -1))


def test_a_daemon_with_another_prefix_than_its_namespace_ends_for_good(redis_url: str, guard: Guard) -> None:
    Client.from_url(redis_url).schedule("app.task", id="a", every=HOUR)

    daemon = DaemonProcess(guard, redis_url, RQ_PREFIX=OTHER)

    assert USAGE == daemon.wait()
    assert (
        f"namespace 'default' keeps its runs under RQ's prefix '{RQ}', and here that is '{OTHER}': set [rq] prefix or "
        f"RQ_KEY_PREFIX to '{RQ}', or give another namespace"
    ) == daemon.wait_for("daemon_failed")["reason"]


def test_a_client_with_another_prefix_than_its_namespace_is_refused_and_nothing_is_written(
    redis_url: str, redis_client: redis.Redis
) -> None:
    Client.from_url(redis_url).schedule("app.task", id="a", every=HOUR)
    before = set(redis_client.keys())

    with pytest.raises(OtherPrefix, match="keeps its runs under RQ's prefix"):
        Client.from_url(redis_url, rq_prefix=OTHER).schedule("app.task", id="b", every=HOUR)

    assert before == set(redis_client.keys())
    refused = Zsched(redis_url, ZSCHED_RQ_PREFIX=OTHER)("pause", "a")
    assert (FAILED, "") == (refused.exit_code, refused.stdout)
    assert "set [rq] prefix or RQ_KEY_PREFIX to" in refused.stderr


@pytest.mark.parametrize(
    ("settings", "prefix"),
    [
        ({}, "rq"),
        ({"RQ_KEY_PREFIX": OTHER}, OTHER),
        ({"RQ_KEY_PREFIX": "rq", "ZSCHED_RQ_PREFIX": OTHER}, OTHER),
    ],
)
def test_acl_prints_the_users_of_the_namespace_and_of_the_prefix(settings: dict[str, str], prefix: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "RQ_KEY_PREFIX"} | settings

    command = [sys.executable, "-m", "zsched.cli", "files", "users.acl", "-n", "mail"]
    made = subprocess.run(command, env=env, capture_output=True, text=True, timeout=ENDS_S)

    assert (DONE, "") == (made.returncode, made.stderr)
    rules = {line.split()[1]: line.split() for line in made.stdout.splitlines()}
    assert {"~zsched:{mail}:*", f"~{prefix}:job:*"} <= set(rules["zsched-client"])
    assert f"~{prefix}:*" in rules["zsched-worker"]


def test_a_prefix_with_a_space_is_refused_by_every_command(redis_url: str) -> None:
    refused = Zsched(redis_url, ZSCHED_RQ_PREFIX="a b")("ls")

    assert USAGE == refused.exit_code
    assert "ZSCHED_RQ_PREFIX='a b': use 1 to 64 of a-z, A-Z, 0-9 and _ . : - { }" in refused.stderr
