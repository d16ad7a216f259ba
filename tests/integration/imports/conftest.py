"""The command line on an empty Redis, a folder of modules, and a queue of RQ."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from rq import Queue

from tests.integration.imports.crontabs import Crontab
from zsched.client import Client


@pytest.fixture
def zsched(redis_url: str, tmp_path: Path) -> Crontab:
    return Crontab(redis_url, tmp_path)


@pytest.fixture
def client(redis_client: redis.Redis) -> Client:
    return Client(redis_client)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules that is the current one; modules imported from it are forgotten afterwards."""
    before, path = set(sys.modules), list(sys.path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def queue(redis_client: redis.Redis) -> Queue:
    return Queue("email", connection=redis_client)
