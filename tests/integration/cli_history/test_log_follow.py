"""``zsched log --follow``: new entries until Ctrl-C, also while the reader or Redis goes away."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import IO, Any

import pytest

from tests.faults.processes import WITHIN_S
from tests.integration.cli_history.ground import ALONE, FUNC, NO_ANSWER
from zsched import Client
from zsched.cli.program import DONE
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once


def start(guard: Guard, url: str, *arguments: str, stdout: Any = subprocess.PIPE) -> subprocess.Popen[bytes]:
    env = {**os.environ, "ZSCHED_REDIS_URL": url}
    command = [sys.executable, "-m", "zsched.cli", *arguments]
    return guard.spawn(command, stdout=stdout, stderr=subprocess.PIPE, env=env)


def line_of(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.readline().decode()


def test_log_follow_prints_new_entries_until_ctrl_c(client: Client, redis_url: str, guard: Guard) -> None:
    client.enqueue(FUNC, id="before")
    child = start(guard, redis_url, "log", "--follow")

    first = line_of(child.stdout)
    client.enqueue(FUNC, id="after")
    second = line_of(child.stdout)
    child.send_signal(signal.SIGINT)
    rest, told = child.communicate(timeout=WITHIN_S)

    assert f"  enqueue  before: enqueued by {client.by}; run before-" in first
    assert f"  enqueue  after: enqueued by {client.by}; run after-" in second
    assert (DONE, b"") == (child.returncode, rest)
    assert re.match(ALONE.encode(), told)


def test_log_follow_of_one_schedule_skips_other_schedules(client: Client, redis_url: str, guard: Guard) -> None:
    client.enqueue(FUNC, id="a")
    child = start(guard, redis_url, "log", "-f", "--id", "a", "--json")

    first = json.loads(line_of(child.stdout))
    client.enqueue(FUNC, id="b")
    client.enqueue(FUNC, id="a")
    second = json.loads(line_of(child.stdout))
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=WITHIN_S)

    assert ["0-1", "0-3"] == [first["entry"], second["entry"]]


def test_log_follow_ends_without_error_when_the_pipe_closes(client: Client, redis_url: str, guard: Guard) -> None:
    client.enqueue(FUNC, id="before")
    child = start(guard, redis_url, "log", "--follow")
    assert child.stdout is not None
    line_of(child.stdout)

    child.stdout.close()
    client.enqueue(FUNC, id="after")
    code = child.wait(WITHIN_S)

    assert child.stderr is not None
    assert DONE == code
    assert re.fullmatch(rf"{ALONE}: {NO_ANSWER}\n".encode(), child.stderr.read())


def test_log_follow_reports_an_outage_of_redis_once_and_continues(guard: Guard) -> None:
    with EmbeddedRedis(appendonly=True) as server:
        client = Client.from_url(server.url)
        client.enqueue(FUNC, id="before")
        child = start(guard, server.url, "log", "--follow")
        line_of(child.stdout)
        line_of(child.stderr)

        server.kill()
        gone = line_of(child.stderr)
        server.start()
        client.enqueue(FUNC, id="after")
        back = line_of(child.stdout)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=WITHIN_S)

    assert re.fullmatch(r"zsched: .*; trying again until Ctrl-C\n", gone)
    assert "  enqueue  after: " in back
    assert (DONE, b"") == (child.returncode, told)
