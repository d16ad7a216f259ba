"""Errors that end a daemon: the exit code, by which systemd decides about a restart, and the last message."""

import os
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.integration.service_manager import Manager
from tests.waiting import WITHIN_S
from zsched.archive import Archive
from zsched.archive.check import SUM, sum_of
from zsched.archive.file import VERSION
from zsched.cli.program import FAILED, USAGE
from zsched.core.entry import FORMAT, OLDEST_FORMAT
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once
WITHOUT_METRICS = "import sys; sys.modules['prometheus_client'] = None; "
WITHOUT_FORK = "import os; del os.fork; "
MAIN = "import sys; from zsched.cli import main; sys.exit(main())"
SECRET = "t0p-Secret"


class Unit:
    """A unit that starts ``zsched daemon`` and waits for its end."""

    def __init__(self, folder: Path, guard: Guard) -> None:
        self._folder, self._guard = folder, guard

    def end(self, *arguments: str, code: str = MAIN, **settings: str) -> tuple[int, str, str]:
        """Return exit code, last status, and stderr."""
        manager = Manager(self._folder / "manager", self._guard)
        nowhere = {"REDIS_URL": f"unix://{self._folder}/nowhere"}
        env = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
        env |= {f"ZSCHED_{name}": value for name, value in (nowhere | settings).items()}
        env |= {"NOTIFY_SOCKET": manager.address, "PYTHONPATH": os.pathsep.join(sys.path)}
        with open(self._folder / "stderr", "wb") as stderr:
            process = self._guard.spawn([sys.executable, "-c", code, "daemon", *arguments], stderr=stderr, env=env)
        exit_code = process.wait(WITHIN_S)
        manager.close()
        return exit_code, manager.of("STATUS")[-1]["value"], (self._folder / "stderr").read_text()


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[Unit]:
    with Guard() as guard:
        yield Unit(tmp_path, guard)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"DAEMON_LEASE_MS": "60001"}, "ZSCHED_DAEMON_LEASE_MS='60001': write a whole number from 200 to 60000"),
        ({"REDIS_URI": "x"}, "ZSCHED_REDIS_URI in the environment is not a setting; did you mean ZSCHED_REDIS_URL?"),
        ({"CONFIG": "/nowhere/z.toml"}, "configuration file /nowhere/z.toml: No such file or directory"),
        (
            {"REDIS_PASSWORD_FILE": "/nowhere/p"},
            "[redis] password_file='/nowhere/p': No such file or directory; write the password into it",
        ),
        (
            {"REDIS_URL": "redis://localhost:1/0?retries=1"},
            "ZSCHED_REDIS_URL='redis://localhost:1/0?retries=1': it has an option retries that a",
        ),
        ({"METRICS_LISTEN": "a..b:80"}, "ZSCHED_METRICS_LISTEN='a..b:80': write host:port"),
    ],
)
def test_wrong_settings_end_the_daemon_for_good(unit: Unit, settings: dict[str, str], reason: str) -> None:
    code, status, told = unit.end(**settings)

    assert USAGE == code
    assert status.startswith(reason)
    assert f"zsched: {status}" == told.splitlines()[-1]
    assert "Traceback" not in told


@pytest.mark.true_start
def test_an_unreadable_password_file_ends_the_daemon_before_it_forks(unit: Unit) -> None:
    code, status, _ = unit.end(code=WITHOUT_FORK + MAIN, REDIS_PASSWORD_FILE="/nowhere/p")

    assert USAGE == code
    assert status.startswith("[redis] password_file='/nowhere/p': ")


def test_an_unknown_key_in_the_file_ends_the_daemon_for_good(unit: Unit, tmp_path: Path) -> None:
    file = tmp_path / "zsched.toml"
    file.write_text("[redis]\nurll = 'redis://h'\n")

    code, status, _ = unit.end("--config", str(file))

    assert (USAGE, f"{file}: [redis] urll is not a setting; did you mean url?") == (code, status)


@pytest.mark.true_start
def test_a_missing_extra_ends_the_daemon_with_the_install_command(unit: Unit) -> None:
    code, status, told = unit.end(code=WITHOUT_METRICS + MAIN, METRICS_LISTEN="localhost:9464")

    missing = (
        "[metrics] listen='localhost:9464' needs prometheus_client, which is not installed: pip install 'zsched[ops]'"
    )
    assert (USAGE, missing) == (code, status)
    assert missing in told


@pytest.mark.parametrize(
    ("change", "namespace", "reason"),
    [
        (
            f"INSERT INTO fact VALUES ('format', {FORMAT + 1})",
            "default",
            f"has entries of format {FORMAT + 1}, and this one knows {FORMAT}; upgrade",
        ),
        ("PRAGMA user_version = 99", "default", "is of version 99, this zsched reads up to"),
        ("PRAGMA user_version = 1", "default", f"is of the older version 1, this zsched reads {VERSION}; move it away"),
        ("SELECT 1", "shop", "is of namespace 'default', not of 'shop'; give another [archive] path"),
    ],
    ids=["newer-format", "newer-schema", "older-schema", "another-namespace"],
)
def test_an_archive_of_another_namespace_or_format_ends_the_daemon_for_good(
    unit: Unit, tmp_path: Path, change: str, namespace: str, reason: str
) -> None:
    file = tmp_path / "archive.db"
    Archive(file, "default").close()
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute(change)
        facts = dict(db.execute("SELECT name, value FROM fact WHERE name <> ?", (SUM,)))
        db.execute("UPDATE fact SET value = ? WHERE name = ?", (sum_of(facts), SUM))

    code, status, told = unit.end(ARCHIVE_PATH=str(file), NAMESPACE=namespace)

    assert USAGE == code
    assert reason in status
    assert "daemon_failed" in told


def test_a_namespace_of_an_older_format_ends_the_daemon_for_good_with_the_remedy(
    unit: Unit, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    redis_client.hset(Keys("default").meta(), "format", OLDEST_FORMAT - 1)

    code, status, told = unit.end(REDIS_URL=redis_url, ARCHIVE_PATH=str(tmp_path / "archive.db"))

    assert USAGE == code
    assert f"in format {OLDEST_FORMAT - 1}, and this one knows {FORMAT}: give another namespace, or remove" in status
    assert "daemon_failed" in told


def test_an_archive_in_use_ends_the_daemon_for_a_restart(unit: Unit, tmp_path: Path) -> None:
    file = tmp_path / "archive.db"
    with closing(Archive(file, "default")):
        code, status, _ = unit.end(ARCHIVE_PATH=str(file))

    assert (FAILED, True) == (code, "is in use by process" in status)


def test_a_port_in_use_ends_the_daemon_for_a_restart(unit: Unit) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        code, status, told = unit.end(METRICS_LISTEN=listen)

    assert FAILED == code
    assert status.startswith(f"[metrics] listen='{listen}': Address already in use; give an address")
    assert "daemon_failed" in told


def test_a_refused_password_ends_the_daemon_for_a_restart(unit: Unit) -> None:
    with EmbeddedRedis(config={"requirepass": SECRET}) as server:
        code, status, told = unit.end(REDIS_URL=server.url.replace("unix://", "unix://:wrong@"))

    assert FAILED == code
    assert "refused user or password; check ZSCHED_REDIS_URL" in status
    assert '"None"' not in told  # the archive, whose place depends on the address of Redis, has none yet
    assert "daemon_failed" in told
    assert "wrong" not in status + told
