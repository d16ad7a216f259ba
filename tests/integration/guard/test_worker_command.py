"""``zsched worker``: RQ's worker by zsched's settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from rq import Worker

from tests.faults.processes import ENDS_S, WITHIN_S, eventually
from tests.integration.guard import tasks
from tests.integration.guard.ground import ROOT, TASKS, Forge, call
from tests.prefix import RQ
from zsched.embedded.guard import Guard

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(forge: Forge, guard: Guard, tmp_path: Path) -> Start:
    """Start ``zsched worker`` with a file of settings; its output goes to ``worker.log``."""
    (tmp_path / "receipts").mkdir()
    (tmp_path / "worker.toml").write_text(
        f'[redis]\nurl = "{forge.url}"\n[worker]\nguard = "enforce"\ntask_modules = ["{TASKS}"]\n'
        f'[signing]\nkeys_file = "{tmp_path / "keys"}"\n'
    )

    def run(*arguments: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        env = os.environ | {"PYTHONPATH": path, tasks.FOLDER: str(tmp_path / "receipts")}
        command = [sys.executable, "-m", "zsched.cli", "worker", "--config", str(tmp_path / "worker.toml"), *arguments]
        with (tmp_path / "worker.log").open("ab") as log:
            return guard.spawn(command, cwd=ROOT, env=env, stdout=log, stderr=log)

    return run


@pytest.mark.true_start
@pytest.mark.parametrize("options", [(), ("--simple",)])
def test_a_worker_obeys_the_settings_of_its_file(forge: Forge, start: Start, options: tuple[str, ...]) -> None:
    forge.enqueue("signed", queue="email")
    forge.push("forged-1700000000000", {"data": call("forged")}, "email")

    ended = start("--burst", *options, "email").wait(ENDS_S)

    assert (0, {"signed"}) == (ended, forge.receipts)
    assert "guard: enforce; 7 tasks are allowed; keys k2, k1, web1" in forge.log


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_that_is_stopped_ends_in_order(
    forge: Forge, start: Start, redis_client: redis.Redis, by: signal.Signals
) -> None:
    worker = start("--name", "w")
    eventually(lambda: [one.name for one in Worker.all(connection=redis_client)] == ["w"])
    eventually(lambda: b"idle" == redis_client.hget(f"{RQ}:worker:w", "state"))

    worker.send_signal(by)

    assert 0 == worker.wait(WITHIN_S)
    assert [] == Worker.all(connection=redis_client)
    assert "Traceback" not in forge.log


def test_a_worker_with_wrong_settings_says_so_in_a_line(forge: Forge, start: Start, tmp_path: Path) -> None:
    (tmp_path / "keys").chmod(0o644)

    ended = start("--burst").wait(ENDS_S)

    assert (2, 1) == (ended, len(forge.log.splitlines()))
    assert "its mode is 0644: other users of this machine can read the keys" in forge.log


def test_a_worker_without_redis_says_so_in_a_line(forge: Forge, start: Start, tmp_path: Path) -> None:
    settings = tmp_path / "worker.toml"
    settings.write_text(settings.read_text().replace(forge.url, f"unix://{tmp_path}/none.sock"))

    ended = start("--burst").wait(ENDS_S)

    assert (1, 1) == (ended, len(forge.log.splitlines()))
    assert "cannot reach Redis at unix://" in forge.log


def test_a_second_worker_of_a_name_is_refused_in_a_line(forge: Forge, start: Start, redis_client: redis.Redis) -> None:
    start("--name", "w")
    eventually(lambda: b"idle" == redis_client.hget(f"{RQ}:worker:w", "state"))
    before = len(forge.log)

    ended = start("--name", "w").wait(ENDS_S)

    assert (2, 1) == (ended, len(forge.log[before:].splitlines()))
    assert "a worker named 'w' works, or was killed in the last eight minutes; give another name" in forge.log[before:]
