"""``zsched web`` as a process, and clients that speak HTTP to it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.builders.command_line import Zsched
from tests.waiting import WITHIN_S
from zsched.core.clock import SystemClock
from zsched.core.options.allowed import Limits
from zsched.embedded.guard import Guard
from zsched.web.accounts import Account, AccountRole
from zsched.web.accounts_file import AccountsFile

ALLOWED = "app.*,app.mail.*,app.pay.*,app.tasks.*"
# No client of these tests speaks TLS; to read the certificates that it would trust takes longer than most requests.
_PLAIN: Any = {"timeout": WITHIN_S, "verify": False}


class Web:
    """
    A running ``zsched web`` on a free port of loopback. ``zsched``: the command line with its settings; ``accounts``:
    its file of accounts.
    """

    def __init__(self, guard: Guard, redis_url: str, folder: Path, *arguments: str, **settings: str) -> None:
        self.redis_url, self.accounts = redis_url, AccountsFile(folder / "accounts.toml")
        env = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
        env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        ours = {"ZSCHED_RQ_ALLOW_CALLABLES": ALLOWED, "ZSCHED_WEB_ACCOUNTS_FILE": str(self.accounts.path)}
        given = ours | settings
        self.zsched = Zsched(redis_url, **given)
        self._env = env | {"ZSCHED_REDIS_URL": redis_url} | given
        self.log = folder / "web.log"
        with self.log.open("ab") as log:
            self.process = guard.spawn(
                [*self._cli("web"), "--listen", "127.0.0.1:0", "--json", *arguments],
                stdout=subprocess.PIPE, stderr=log, env=self._env, cwd=folder,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        self.url = str(json.loads(line)["url"])

    def token(self, name: str, role: str = "operator", *, sees_arguments: bool = False, **limits: Any) -> str:
        """Add an account, and return its token; *limits* as in ``Limits``."""
        now_ms = SystemClock().now_ms()
        return self.accounts.add(Account(name, AccountRole(role), Limits(**limits), sees_arguments, created_ms=now_ms))

    def client(self, name: str = "ann", role: str = "operator", **given: Any) -> httpx.Client:
        """Return a client with a token of its own."""
        return self.client_of(self.token(name, role, **given))

    def client_of(self, secret: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {secret}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, **_PLAIN)

    @contextmanager
    def browser(
        self, name: str = "ann", role: str = "operator", *, at: str = "", **given: Any
    ) -> Iterator[httpx.Client]:
        """A client of the pages below *at* with a session of a new account."""
        with self.stranger(at) as client:
            entered = client.post(f"{self.url}/login", data={"token": self.token(name, role, **given)})
            assert 303 == entered.status_code, entered.text
            yield client

    def stranger(self, at: str = "") -> httpx.Client:
        """Return a client of the pages below *at* that sends the Origin as a browser does."""
        return httpx.Client(base_url=f"{self.url}{at}", headers={"Origin": self.url}, **_PLAIN)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Return the answer to a program without a token."""
        return self.request("GET", path, **options)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return httpx.request(method, f"{self.url}{path}", **_PLAIN, **options)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return what the server has logged under this name."""
        return [event for line in self.log.read_text().splitlines() if (event := json.loads(line))["event"] == name]

    def spawn(self, guard: Guard, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a command of this server's settings."""
        return guard.spawn(self._cli(*arguments), env=self._env, **options)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal, and return its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(WITHIN_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def _cli(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "zsched.cli", *arguments]
