"""``zsched archive keep`` without a daemon: it keeps an archive, and is no daemon."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.archive import Archive
from zsched.embedded.guard import Guard
from zsched.storage.archivers import ArchiveState

Begin = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive.db"


@pytest.fixture
def begin(guard: Guard, redis_url: str, path: Path) -> Begin:
    """Start an archivist of the archive at *path*."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
    env |= {"ZSCHED_REDIS_URL": redis_url, "ZSCHED_ARCHIVE_PATH": str(path)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return lambda: guard.spawn([sys.executable, "-m", "zsched.cli", "archive", "keep"], env=env)


def test_an_archivist_alone_keeps_an_archive_and_is_not_a_daemon(begin: Begin, client: Client) -> None:
    client.schedule("app.task", id="a", after=3600)
    archivist = begin()
    eventually(lambda: [ArchiveState.FOLLOWING] == [one.state for one in client._overview().archives])

    client.schedule("app.task", id="b", after=3600, durable=True)

    assert [] == list(client._overview().daemons)
    archivist.send_signal(signal.SIGTERM)
    assert 0 == archivist.wait(WITHIN_S)
    assert [True] == [one.is_stopped for one in client._overview().archives]


def test_an_archivist_alone_refuses_the_archive_of_another_namespace(begin: Begin, path: Path) -> None:
    Archive(path, "another").close()

    assert 2 == begin().wait(WITHIN_S)
