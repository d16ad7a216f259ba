"""A client, real workers, and short waits, for the tests of retry and cancel_run."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.builders.leaders import know
from tests.builders.workers import RqWorkers
from tests.waiting import ENDS_S
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.storage import reruns
from zsched.storage.connection import Link


@pytest.fixture
def client(redis_client: redis.Redis, link: Link) -> Client:
    know(redis_client)
    return Client(link)


@pytest.fixture
def worker(guard: Guard, redis_url: str, tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """A function that starts a worker of the queue default."""
    return RqWorkers(guard, redis_url, tmp_path).start


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
