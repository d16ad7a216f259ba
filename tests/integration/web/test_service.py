"""``zsched web`` as its unit of systemd starts it: command, environment, credential, and its user of Redis."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.processes import ENDS_S
from tests.integration.service_manager import Manager
from tests.integration.users import GuardedRedis
from tests.prefix import RQ
from zsched.embedded.guard import Guard
from zsched.storage.rqkeys import RQ_PREFIX_VARIABLE

pytestmark = pytest.mark.redis
UNIT = (Path(__file__).parents[3] / "deploy/systemd/zsched-web.service").read_text()
WATCHDOG_S = 2.0
Start = Callable[..., "Service"]


class Service:
    """The process of the unit, with the settings of a file and a service manager."""

    def __init__(self, guard: Guard, manager: Manager, folder: Path, settings: str, credential: str) -> None:
        self.manager = manager
        (folder / "zsched.toml").write_text(settings)
        credentials = folder / "credentials"
        credentials.mkdir()
        (credentials / "redis-password").write_text(credential)
        self.env = {
            **dict(setting.split("=", 1) for line in _set("Environment") for setting in shlex.split(line)),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            RQ_PREFIX_VARIABLE: RQ,  # of these tests
            "PYTHONPATH": ":".join(path for path in sys.path if path),
            "CREDENTIALS_DIRECTORY": str(credentials),
            "NOTIFY_SOCKET": manager.address,
            "WATCHDOG_USEC": f"{WATCHDOG_S * 1_000_000:.0f}",
        }
        [command] = _set("ExecStart")
        program, *self.arguments = command.replace("/etc/zsched", str(folder)).split()
        assert "/usr/local/bin/zsched" == program
        self.process = guard.spawn(
            [sys.executable, "-m", "zsched.cli", *self.arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env, cwd=folder,
        )  # fmt: skip

    @property
    def url(self) -> str:
        """The URL that it prints at its start."""
        assert self.process.stdout is not None
        return re.findall(rb" is at (http://\S+)/api/v1", self.process.stdout.readline())[0].decode()

    def doctor(self, *options: str) -> Any:
        """Return the doctor's findings with the settings of the service."""
        config = self.arguments[self.arguments.index("--config") + 1]
        command = [sys.executable, "-m", "zsched.cli", "doctor", "--config", config, "--json", *options]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=ENDS_S, check=False)
        assert done.returncode in (0, 4), done.stderr  # 4: the Redis of these tests has an open sandbox
        return json.loads(done.stdout)

    def ended(self) -> tuple[int, str]:
        """Wait for the end; return the exit code, and what is on stderr."""
        code = self.process.wait(20)
        assert self.process.stderr is not None
        return code, self.process.stderr.read().decode()


def _set(name: str) -> list[str]:
    return re.findall(rf"(?m)^{name}=(.+)$", UNIT)


@pytest.fixture
def start(guard: Guard, tmp_path: Path) -> Iterator[Start]:
    """A function that starts the service with settings and a password."""
    manager = Manager(tmp_path / "manager", guard)
    yield lambda settings, credential="\n": Service(guard, manager, tmp_path, settings, credential)
    manager.close()


def settings_of(redis_url: str, more: str = "") -> str:
    return f'[redis]\nurl = "{redis_url}"\n[rq]\nallow_callables = ["app.*"]\n[web]\nlisten = "127.0.0.1:0"\n{more}'


@pytest.mark.true_start
def test_the_unit_starts_a_web_that_answers_as_its_own_user(start: Start, guarded: GuardedRedis) -> None:
    url = guarded.url("zsched-web", with_password=False)
    service = start(settings_of(url), guarded.password("zsched-web"))
    service.manager.wait_for("READY")
    service.manager.wait_for_status("the HTTP API of ")
    with httpx.Client(base_url=service.url, verify=False) as http:
        assert "ok\n" == http.get("/readyz").text
        assert 401 == http.get("/api/v1/schedules").status_code
        assert "zsched_web_refused_total" in http.get("/metrics").text
    service.manager.wait_for_beats()
    service.process.send_signal(signal.SIGTERM)

    assert 0 == service.ended()[0]
    assert ["READY", "STOPPING"] == service.manager.names("READY", "STOPPING")
    assert [] == guarded.refused()


def test_the_doctor_finds_nothing_wrong_with_the_user_of_the_unit(start: Start, guarded: GuardedRedis) -> None:
    url = guarded.url("zsched-web", with_password=False)
    service = start(settings_of(url), guarded.password("zsched-web"))
    service.manager.wait_for("READY")

    found = service.doctor("--role", "web")

    [rights] = [each for each in found if each["check"] == "rights"]
    assert "ok" == rights["verdict"], rights
    assert ["ok", "note"] == [each["verdict"] for each in found if each["check"] == "http api"]


def test_the_web_is_ready_without_a_redis(start: Start) -> None:
    service = start(settings_of("redis://127.0.0.1:1/0"))

    service.manager.wait_for("READY")

    assert 503 == httpx.get(f"{service.url}/readyz", verify=False).status_code


def test_wrong_settings_end_the_unit_for_good(start: Start, redis_url: str) -> None:
    service = start(settings_of(redis_url, "listn = 1"))

    code, said = service.ended()

    assert [str(code)] == _set("RestartPreventExitStatus")
    assert "listn" in said
    service.manager.wait_for_status("listn")


def test_a_port_in_use_is_tried_again(start: Start, redis_url: str) -> None:
    first = start(settings_of(redis_url))
    port = first.url.rpartition(":")[2]
    done = subprocess.run(
        [sys.executable, "-m", "zsched.cli", "web", "--listen", f"127.0.0.1:{port}"],
        env=first.env, capture_output=True, text=True, timeout=ENDS_S, check=False,
    )  # fmt: skip

    assert 1 == done.returncode  # not 2, which systemd takes as final
    assert "give another port or address" in done.stderr
