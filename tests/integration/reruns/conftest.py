"""A client, real workers, and short waits, for the tests of retry and cancel_run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.faults.processes import ENDS_S
from tests.faults.threads import know
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.storage import reruns
from zsched.storage.connection import Link

ROOT = Path(__file__).parents[3]


@pytest.fixture
def client(redis_client: redis.Redis, link: Link) -> Client:
    know(redis_client)
    return Client(link)


@pytest.fixture
def worker(guard: Guard, redis_url: str, tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """A function that starts a worker of the queue default."""

    def start(*options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rq.cli", "worker", *options, "--url", redis_url, "default"]
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        with (tmp_path / "worker.log").open("ab") as log:
            return guard.spawn(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT)

    return start


@pytest.fixture
def work(worker: Callable[..., subprocess.Popen[bytes]], redis_client: redis.Redis) -> Callable[[], list[str]]:
    """Return a function that lets a worker empty the queue and returns all receipts."""

    def until_done() -> list[str]:
        assert 0 == worker("--burst").wait(ENDS_S)
        return [receipt.decode() for receipt in redis_client.lrange("receipts", 0, -1)]

    return until_done


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits for workers."""
    monkeypatch.setattr(reruns, "_PAUSE_S", 0.0)
