"""The command lines of workers and of their processes, which all users of the machine can read."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from rq import Queue, SpawnWorker

from tests.builders.workers import RqWorkers
from zsched.embedded.guard import Guard
from zsched.rq import RecordsAttempts
from zsched.storage.rqversion import HAS_EXECUTIONS

pytestmark = pytest.mark.once
USER, SECRET = "s3cret-user", "s3cret'\"\\/wörd"
TASKS = """
import os
from pathlib import Path
from rq import SpawnWorker
from zsched.rq import Guarded, RecordsAttempts

class Recording(RecordsAttempts, SpawnWorker): pass
class Guarding(Guarded, SpawnWorker): pass
class Both(Guarded, RecordsAttempts, SpawnWorker): pass

def tell(file):
    lines, pid = [" ".join(name for name in os.environ if name.startswith("_"))], "self"
    while pid != "0":
        lines.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\\0", " "))
        pid = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    Path(file).write_text("\\n".join(lines))
"""
GUARD = {
    "ZSCHED_WORKER_GUARD": "enforce",
    "ZSCHED_WORKER_ALLOW_CALLABLES": "tasks.tell",
    "ZSCHED_WORKER_UNSIGNED_RQ_JOBS": "true",
}
needs_spawning = pytest.mark.skipif(not HAS_EXECUTIONS, reason="a SpawnWorker with RQ 3 only")


@pytest.fixture
def secret_url(redis_client: redis.Redis, redis_url: str) -> Iterator[str]:
    """Return the URL of a user with a password, who may do all."""
    redis_client.acl_setuser(USER, enabled=True, passwords=[f"+{SECRET}"], keys="*", channels="*", categories=["+@all"])
    yield redis_url.replace("://", f"://{USER}:{quote(SECRET, safe='')}@")
    redis_client.acl_deluser(USER)


@pytest.mark.true_start
@pytest.mark.parametrize("settings", [{}, GUARD], ids=["without a guard", "with a guard"])
@pytest.mark.parametrize(
    ("module", "options"),
    [
        ("zsched.cli", ()),
        ("zsched.cli", ("--simple",)),
        ("rq.cli", ("--worker-class", "zsched.rq.Worker")),
        ("rq.cli", ("--worker-class", "zsched.rq.SimpleWorker")),
        pytest.param("rq.cli", ("--worker-class", "tasks.Recording"), marks=needs_spawning),
        pytest.param("rq.cli", ("--worker-class", "tasks.Guarding"), marks=needs_spawning),
        pytest.param("rq.cli", ("--worker-class", "tasks.Both"), marks=needs_spawning),
    ],
    ids=str,
)
def test_a_worker_shows_neither_user_nor_password_in_ps_while_a_task_runs(
    redis_client: redis.Redis,
    secret_url: str,
    guard: Guard,
    tmp_path: Path,
    module: str,
    options: tuple[str, ...],
    settings: dict[str, str],
) -> None:
    workers = RqWorkers(guard, secret_url, tmp_path, TASKS)
    Queue(connection=redis_client).enqueue("tasks.tell", str(tmp_path / "told"))

    workers.work(*options, module=module, ZSCHED_REDIS_URL=secret_url, **settings)

    environment, *lines = (tmp_path / "told").read_text().splitlines()
    assert "_ZSCHED" not in environment
    assert f"-m {module} worker" in "".join(lines)
    assert [] == [line for line in lines if "s3cret" in line]


class Spawning(RecordsAttempts, SpawnWorker):
    """A worker class as the guide has it."""


@needs_spawning
def test_a_spawned_process_gets_the_texts_of_its_connection_by_the_environment(
    redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"username": USER, "password": SECRET, "ssl_password": b"s3cret\xff", "ssl_ca_data": "s3cret\n", "port": 1}
    spawned: list[Any] = []
    monkeypatch.setattr(os, "posix_spawn", lambda *args, **_: spawned.extend([*args[1], dict(args[2])]) or 1)
    queue = Queue(connection=redis_client)
    worker = Spawning([queue], connection=redis_client)
    job = queue.enqueue("tasks.tell")
    worker.prepare_execution(job)
    worker.connection = redis.Redis(ssl=True, **given)
    kept = dict(worker.connection.connection_pool.connection_kwargs)

    worker.fork_work_horse(job, queue)

    *arguments, environment = spawned
    assert "s3cret" not in "".join(arguments)
    assert {} == {name: value for name, value in os.environ.items() if "s3cret" in value}
    assert list(map(repr, kept.items())) == list(map(repr, worker.connection.connection_pool.connection_kwargs.items()))
    [source] = re.findall(r"Redis\(\*\*(.*)\)$", arguments[-1], re.MULTILINE)
    monkeypatch.setattr(os, "environ", environment)
    assert given.items() <= eval(source).items()
