"""Prefixes of RQ's keys: two applications in one Redis, and a namespace with another prefix than the settings."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import redis

from tests.faults.processes import ENDS_S, DaemonProcess, eventually
from tests.faults.threads import know
from tests.integration.command_line import Zsched
from tests.integration.doctor.ground import examined, only
from tests.prefix import RQ, needs_prefix
from tests.rq_workers import RqWorkers
from zsched import Client, OtherPrefix
from zsched.cli.program import DONE, FAILED, USAGE
from zsched.embedded.guard import Guard
from zsched.health.check import Severity

pytestmark = [needs_prefix, pytest.mark.once]
OTHER = "{other}:rq"
HOUR = timedelta(hours=1)

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

    made = subprocess.run(
        [sys.executable, "-m", "zsched.cli", "acl", "-n", "mail"],
        env=env,
        capture_output=True,
        text=True,
        timeout=ENDS_S,
    )

    assert (DONE, "") == (made.returncode, made.stderr)
    rules = {line.split()[1]: line.split() for line in made.stdout.splitlines()}
    assert {"~zsched:{mail}:*", f"~{prefix}:job:*"} <= set(rules["zsched-client"])
    assert f"~{prefix}:*" in rules["zsched-worker"]


def test_a_prefix_with_a_space_is_refused_by_every_command(redis_url: str) -> None:
    refused = Zsched(redis_url, ZSCHED_RQ_PREFIX="a b")("ls")

    assert USAGE == refused.exit_code
    assert "ZSCHED_RQ_PREFIX='a b': use 1 to 64 of a-z, A-Z, 0-9 and _ . : - { }" in refused.stderr
