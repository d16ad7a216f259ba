"""The quick start of the README as its reader does it: two files in a folder, a daemon and a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.documents import programs
from tests.faults.processes import eventually
from tests.faults.threads import DaemonThread, know
from tests.prefix import RQ
from zsched import Client

pytestmark = pytest.mark.once
QUEUE = f"{RQ}:queue:email"


def test_a_worker_runs_the_schedule_of_the_readme(tmp_path: Path, redis_url: str, redis_client: redis.Redis) -> None:
    files = programs("README.md")
    assert "timedelta(seconds=20)" in files["service.py"]
    files["service.py"] = files["service.py"].replace("timedelta(seconds=20)", "timedelta(seconds=2)")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    know(redis_client)

    def run(*command: str) -> str:
        env = {**os.environ, "ZSCHED_REDIS_URL": redis_url, "RQ_REDIS_URL": redis_url}
        ran = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert 0 == ran.returncode, ran.stderr
        return ran.stdout

    with DaemonThread(redis_url):
        assert "id='reminder-e1', outcome='created'" in run("service.py")
        eventually(lambda: redis_client.exists(QUEUE))
        assert "e1 begins in 60 minutes (push)" in run("-m", "rq.cli", "worker", "--burst", "email")
        eventually(lambda: "succeeded" in str(Client.from_url(redis_url).why("reminder-e1").lines))
