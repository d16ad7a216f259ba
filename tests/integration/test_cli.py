"""The frame of the command line: shared options, help, errors and exit codes, pipes and Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner, Result

from tests.builders.command_line import Zsched
from tests.builders.workers import RqWorkers
from tests.integration.standing import report
from tests.prefix import RQ
from tests.waiting import WITHIN_S
from zsched.cli import program
from zsched.cli.program import DONE, FAILED, INTERRUPTED, NOT_FOUND, PIPE_CLOSED, UNHEALTHY, USAGE
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once

FUNC = "zsched.demo.tasks.heartbeat"
COMMANDS = sorted(program.commands)


def offline(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(program, arguments, env=env)


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "zsched.cli", *arguments]


def test_the_shared_options_are_understood_before_and_after_the_command_and_the_later_one_counts(
    zsched: Zsched,
) -> None:
    zsched("-n", "email", "add", "welcome", FUNC, "--every", "1h")

    before = zsched("--json", "-n", "email", "ls")
    after = zsched("ls", "--json", "--namespace=email")

    assert before.output == after.output
    assert ["welcome"] == [one["id"] for one in json.loads(before.output)]
    assert [] == zsched.json("ls")
    assert DONE == zsched("-n", "other", "show", "welcome", "-n", "email").exit_code


def test_the_url_may_be_an_option_or_in_a_configuration_file(redis_url: str, tmp_path: Path) -> None:
    file = tmp_path / "zsched.toml"
    file.write_text(f'namespace = "from_file"\n[redis]\nurl = "{redis_url}"\n')

    status = offline("-c", str(file), "status", "--json")

    assert "from_file" == json.loads(status.stdout)["namespace"]
    assert DONE == offline("ls", "-u", redis_url).exit_code


@pytest.mark.parametrize("command", COMMANDS)
def test_the_option_n_is_the_namespace_in_every_command(command: str) -> None:
    assert "-n, --namespace NS" in offline(command, "-h").output


def test_next_shows_as_many_times_as_its_number() -> None:
    result = offline("next", "--every", "60", "--number", "2", "-n", "email", "--json")

    assert 2 == len(json.loads(result.output))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    result = offline(command, "-h")

    assert DONE == result.exit_code
    assert f"zsched {command}" in result.output.split("Example")[1]
    assert "--redis-url" in result.output


def test_the_version_option_prints_the_version() -> None:
    assert "0.1.0" in offline("--version").output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "zsched up --demo"),  # the help
        (("ls", "--bogus"), r"^zsched: .*see [^\n]*\n\Z"),
        (("ls", "-n", "No Such Namespace"), "--namespace"),
    ],
)
def test_a_usage_error_names_the_help_or_the_option(arguments: tuple[str, ...], told: str) -> None:
    result = offline(*arguments)

    assert USAGE == result.exit_code
    assert re.search(told, result.stderr)


def test_an_unreachable_redis_is_a_failure_without_the_password() -> None:
    result = offline("ls", ZSCHED_REDIS_URL="redis://user:secret@127.0.0.1:1/0")

    assert FAILED == result.exit_code
    assert "127.0.0.1:1/0 (ZSCHED_REDIS_URL): " in result.stderr
    assert "secret" not in result.stderr
    assert "Traceback" not in result.output


def test_a_refused_password_names_the_places_of_address_and_password(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("wrong")
    with EmbeddedRedis(config={"requirepass": "secret"}) as server:
        missing = offline("ls", ZSCHED_REDIS_URL=server.url)
        wrong = offline("ls", ZSCHED_REDIS_URL=server.url, ZSCHED_REDIS_PASSWORD_FILE=str(file))

    # Redis 6.2 refuses the first command of redis-py, which names a user, as if that had a wrong password.
    assert re.search(r"(needs user and|refused user or) password; check ZSCHED_REDIS_URL\n$", missing.stderr)
    assert wrong.stderr.endswith(f"refused user or password; check ZSCHED_REDIS_URL, password from {file}\n")


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (("show", "nobody"), NOT_FOUND, "ScheduleNotFound"),
        (("add", "x", FUNC), USAGE, "InvalidSchedule"),
        (("add", "x", "not-dotted", "--every", "5"), USAGE, "NotImportable"),
        (("ls", "--limit", "none"), USAGE, "BadParameter"),
        (("no-such-command",), USAGE, "UsageError"),
    ],
)
def test_an_error_with_json_is_json_on_stderr(zsched: Zsched, arguments: tuple[str, ...], code: int, kind: str) -> None:
    result = zsched(*arguments, "--json")
    told = json.loads(result.stderr)

    assert code == result.exit_code
    assert kind in (told["type"], "UsageError")
    assert told["error"]
    assert "" == result.stdout


@pytest.mark.true_start
def test_a_closed_pipe_is_not_an_error(redis_url: str, zsched: Zsched, guard: Guard) -> None:
    zsched("add", "beat", FUNC, "--every", "1h")
    reading, writing = os.pipe()
    os.close(reading)
    env = {**os.environ, "ZSCHED_REDIS_URL": redis_url}

    child = guard.spawn(command_line("ls"), stdout=writing, stderr=subprocess.PIPE, env=env)
    os.close(writing)
    _, told = child.communicate(timeout=WITHIN_S)

    assert (PIPE_CLOSED, b"") == (child.returncode, told)


@pytest.mark.true_start
def test_ctrl_c_ends_a_command_without_a_traceback(guard: Guard, tmp_path: Path) -> None:
    fifo = tmp_path / "settings.toml"  # opening it waits for a writer: a command that is surely at work
    os.mkfifo(fifo)
    child = guard.spawn(command_line("ls", "-c", str(fifo)), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)

    with fifo.open("w"):  # returns when the command reads
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=WITHIN_S)

    assert INTERRUPTED == child.returncode
    assert b"Traceback" not in told


def test_status_shows_leader_backlog_and_health(zsched: Zsched, led: redis.Redis) -> None:
    report(led)
    zsched("add", "beat", FUNC, "--every", "1h", "--priority", "high")
    zsched("add", "once", FUNC, "--after", "1h")
    zsched("pause", "once")

    for_people, for_programs = zsched("status"), zsched("status", "--json")
    told = json.loads(for_programs.stdout)

    assert (DONE, DONE) == (for_people.exit_code, for_programs.exit_code)
    assert "1 waiting, 0 of them due" in for_people.output
    assert {"high": 1, "normal": 0, "low": 0} == told["waiting"]
    expected = {"healthy": True, "problems": [], "leader": "somebody", "recurring": 1, "paused": 1, "late_s": 0}
    assert expected.items() <= told.items()


def test_status_with_something_long_overdue_is_unhealthy(zsched: Zsched, led: redis.Redis) -> None:
    report(led)
    zsched("add", "late", FUNC, "--at", "2026-01-01T00:00Z", "--allow-past")
    led.hset(f"{RQ}:job:late-1767225600000", "created_at", "2025-12-01T00:00:00.000000Z")  # it was not put late

    result = zsched("status", "--json")
    told = json.loads(result.stdout)

    assert UNHEALTHY == result.exit_code
    assert "2026-01-01T00:00:00.000Z" == told["oldest_due_at"]
    assert 1 == len(told["problems"])


def test_a_schedule_from_the_command_line_fires_and_a_real_worker_runs_it(
    redis_url: str, zsched: Zsched, redis_client: redis.Redis, guard: Guard, tmp_path: Path
) -> None:
    env = {**os.environ, "ZSCHED_REDIS_URL": redis_url}
    added = zsched("add", "once", FUNC, "--after", "500ms", "--json")
    run_id = json.loads(added.stdout)["run_id"]

    daemon = guard.spawn(command_line("daemon"), stderr=subprocess.DEVNULL, env=env)
    arrived = redis_client.blmove(f"{RQ}:queue:default", f"{RQ}:queue:default", WITHIN_S, "LEFT", "LEFT")
    daemon.terminate()
    RqWorkers(guard, redis_url, tmp_path).work()

    assert run_id.encode() == arrived
    assert DONE == daemon.wait(WITHIN_S)
    assert b"finished" == redis_client.hget(f"{RQ}:job:{run_id}", "status")


def test_a_path_in_an_option_may_begin_with_the_home(zsched: Zsched, led: redis.Redis, tmp_path: Path) -> None:
    result = zsched("archive", "recover", "--dry-run", "--from=~/none.db", HOME=str(tmp_path))

    assert f"--from='{tmp_path}/none.db': there is no such file" in result.stderr
    (tmp_path / "z.toml").write_text('namespace = "mail"\n')
    assert "mail" == json.loads(zsched("status", "--json", "--config=~/z.toml", HOME=str(tmp_path)).stdout)["namespace"]
