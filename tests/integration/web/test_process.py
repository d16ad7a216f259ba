"""``zsched web`` as a process and as the unit of systemd: where it listens, its own user of Redis, its end."""

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.builders.command_line import Zsched
from tests.builders.web import Web
from tests.integration.service_manager import Manager
from tests.integration.users import GuardedRedis
from tests.prefix import RQ
from tests.waiting import ENDS_S, WITHIN_S
from zsched.cli import program
from zsched.cli.program import DONE, FAILED, USAGE
from zsched.embedded.guard import Guard
from zsched.storage.rqkeys import RQ_PREFIX_VARIABLE

HEADER = {"ZSCHED_WEB_PROXY_HEADER": "X-Forwarded-User"}
ADDRESSES = {"ZSCHED_WEB_PROXY_ADDRESSES": "127.0.0.1"}
pytestmark = pytest.mark.redis
UNIT = (Path(__file__).parents[3] / "deploy/systemd/zsched-web.service").read_text()
WATCHDOG_S = 2.0
Start = Callable[..., "Service"]


def offline(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["web", *arguments])


@pytest.mark.true_start
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_answers_until_a_signal_ends_it_and_frees_its_port(
    start_web: Callable[..., Web], number: signal.Signals
) -> None:
    web = start_web()
    port = httpx.URL(web.url).port

    assert ["ok\n"] * 2 == [web.get(f"/{probe}").text for probe in ("healthz", "readyz")]
    assert DONE == web.stop(number), web.log.read_text()
    assert "Traceback" not in web.log.read_text()

    assert port is not None
    with socket.create_server(("127.0.0.1", port)) as taken:
        assert port == taken.getsockname()[1]


def test_a_port_in_use_is_an_error_with_the_remedy_that_systemd_tries_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"

        refused = offline("--listen", where)

    assert FAILED == refused.exit_code
    assert f"listen='{where}': Address already in use; give another port" in refused.stderr


@pytest.mark.parametrize(
    ("listen", "settings", "message"),
    [
        ("9181", {}, "write host:port"),
        ("127.0.0.1:", {}, "write host:port"),
        ("127.0.0.1:99999", {}, "write host:port"),
        ("http://localhost:1", {}, "write host:port"),
        ("::1:80", {}, "write host:port"),
        ("192.0.2.1:9181", {}, "listen='192.0.2.1:9181'"),  # of another machine
        ("0.0.0.0:0", {}, "[web] allow_plain = true"),  # that others reach
        ("127.0.0.1:0", HEADER, "proxy_addresses"),  # nobody may send the header
        ("127.0.0.1:0", {**ADDRESSES, "ZSCHED_WEB_PROXY_ROLE_HEADER": "X-Forwarded-Role"}, "proxy_header"),
    ],
)
def test_bad_settings_are_a_usage_error(zsched: Zsched, listen: str, settings: dict[str, str], message: str) -> None:
    refused = zsched("web", "--listen", listen, **settings)

    assert (USAGE, True) == (refused.exit_code, message in refused.stderr), refused.stderr


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
        code = self.process.wait(WITHIN_S)
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
    with httpx.Client(base_url=service.url, verify=False, timeout=WITHIN_S) as http:
        assert "ok\n" == http.get("/readyz").text
        assert 401 == http.get("/api/v1/schedules").status_code
        assert "zsched_web_refused_total" in http.get("/metrics").text
    service.manager.wait_for_beats()
    service.process.send_signal(signal.SIGTERM)

    assert 0 == service.ended()[0]
    service.manager.wait_for("STOPPING")
    assert ["READY", "STOPPING"] == service.manager.names("READY", "STOPPING")
    assert [] == guarded.refused()
    found = service.doctor("--role", "web")  # which asks for more, and is refused
    [rights] = [each for each in found if each["check"] == "rights"]
    assert "ok" == rights["verdict"], rights
    assert ["ok", "note"] == [each["verdict"] for each in found if each["check"] == "http api"]


def test_the_web_is_ready_without_a_redis(start: Start) -> None:
    service = start(settings_of("redis://127.0.0.1:1/0"))

    service.manager.wait_for("READY")

    assert 503 == httpx.get(f"{service.url}/readyz", verify=False, timeout=WITHIN_S).status_code


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


def test_the_api_and_the_pages_work_as_a_user_of_redis(guarded: GuardedRedis, guard: Guard, tmp_path: Path) -> None:
    web = Web(guard, guarded.url("zsched-web"), tmp_path)
    web.redis_url = guarded.url("operator")  # who makes the token, and adds the person
    with web.browser("bob", sees_arguments=True) as bob:
        pages = [bob.get("/rq/"), bob.get("/rq/0/data/workers.json"), bob.get("/login"), bob.post("/logout")]
    with web.client() as http:
        made = http.put("/schedules/a", json={"func": "app.x", "every": 60})
        answers = [
            http.get("/schedules"), http.get("/schedules/a/story"), http.get("/runs"), http.post("/schedules/a:pause"),
            http.post("/schedules/a:resume", json={"missed": "skip"}), http.post("/schedules/a:run"),
            http.patch("/schedules/a", json={"queue": "x"}), http.delete("/schedules/a"),
        ]  # fmt: skip

    assert [200, 200, 200, 303] == [each.status_code for each in pages], [each.text for each in pages]
    assert [201] + [200] * 8 == [each.status_code for each in (made, *answers)], [each.text for each in answers]
    assert [] == guarded.refused()
