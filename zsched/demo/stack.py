"""
A private Redis, the daemon with its archive, and RQ workers, as children that cannot outlive their owner.

One Guard holds all of them, so neither a process nor the temporary folder stays behind, however the owner ends. Each
leads its own session: Ctrl-C reaches only the owner, which stops them in order.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

from zsched.client import Client
from zsched.config.settings import FILE_VARIABLE, RedisSettings, Settings
from zsched.core.clock import SystemClock
from zsched.core.toml import toml_text
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.errors import ZschedError
from zsched.health.checks_web import PACKAGES
from zsched.storage.keys import keys_of
from zsched.storage.overview import Overview
from zsched.storage.rqkeys import RQ_PREFIX_VARIABLE
from zsched.web.accounts import Account, AccountRole
from zsched.web.accounts_file import accounts_file

_ROOT: Final = Path(__file__).resolve().parents[2]  # where children find zsched, installed or not
_LEADER_S: Final = 20.0  # from the daemon's start to its first lease
_POLL_S: Final = 0.02
_STOP_S: Final = 10.0  # for a daemon or worker to end in order; then it is killed
_LOG_LINES: Final = 15
_FILE: Final = "zsched.toml"  # beside the files of Redis


class Stack:
    """
    The processes; as a context manager they run inside the block and are gone after it.

    Within the block, Ctrl-C and SIGTERM are noted, and ``check`` raises them. If they could interrupt any line, one
    between two lines of ``Popen.poll`` would leave its lock held, and the wait for that child would have no end (14 %
    of signals that arrive while it polls, CPython 3.11). At the end of the block, one more kills what still runs.

    ``settings`` are the given settings with the private ``redis``, and an archive beside its files. With *quiet*, the
    children's output goes to files in the temporary folder, else to this process's stderr.

    Raises:
        ZschedError: a process did not start; the message has the end of its output.
    """

    def __init__(self, settings: Settings, queues: Sequence[str], *, workers: int = 1, quiet: bool = False) -> None:
        self._guard = Guard()
        self.redis = EmbeddedRedis(guard=self._guard)
        redis = RedisSettings(url=self.redis.url, timeout_s=settings.redis.timeout_s)
        archive = dataclasses.replace(settings.archive, path=str(self.redis.folder / "archive.db"))
        web = dataclasses.replace(settings.web, accounts_file=str(self.redis.folder / "accounts.toml"))
        self.settings = dataclasses.replace(settings, redis=redis, archive=archive, web=web)
        self._worker_names = [f"worker-{n + 1}" for n in range(workers)]
        self._quiet, self._queues = quiet, queues
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._is_interrupted = False

    def __enter__(self) -> Self:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._note)
        try:
            self.redis.start()
            (self.redis.folder / _FILE).write_text(_file_of(self.settings))
            self._zsched("daemon", "daemon")
            for name in self._worker_names:
                self._zsched(name, "worker", *self._queues)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stop("console")
            self._stop("daemon")
            self._stop(*self._worker_names)
        finally:
            self._close()

    def start_console(self) -> str | None:
        """
        Start ``zsched web`` on a free port, and return its address with the token of the one person who may log in.
        None: its packages are not installed. Raises ZschedError.
        """
        if any(find_spec(package) is None for package in PACKAGES):
            return None
        account = Account("demo", AccountRole.OPERATOR, sees_arguments=True, created_ms=SystemClock().now_ms())
        token = accounts_file(self.settings).add(account)
        stdout = self._zsched("console", "web", "--listen", "127.0.0.1:0", "--json", stdout=subprocess.PIPE).stdout
        assert stdout is not None
        if not (line := stdout.readline()):
            raise ZschedError(f"the console did not start{self._end_of_log('console')}")
        return f"console: {json.loads(line)['url']}/  token: {token}"

    def wait_for_leader(self, client: Client) -> Overview:
        """Wait until the daemon leads, and return the overview. Raises ZschedError: it does not lead in time."""
        for _ in range(round(_LEADER_S / _POLL_S)):
            self.check()
            overview = client._overview()
            if overview.leader is not None:
                return overview
            time.sleep(_POLL_S)
        raise ZschedError(f"the daemon did not take the lead within {_LEADER_S:g} s{self._end_of_log('daemon')}")

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C or SIGTERM came; ZschedError if a child has ended unexpectedly."""
        if self._is_interrupted:
            self._is_interrupted = False
            raise KeyboardInterrupt
        for name, child in self._children.items():
            if child.poll() is not None:
                raise ZschedError(f"the {name} ended unexpectedly (exit {child.returncode}){self._end_of_log(name)}")
        if not self.redis.is_running:
            raise ZschedError("the private Redis ended unexpectedly")

    def _note(self, *_: object) -> None:
        self._is_interrupted = True

    def _stop(self, *names: str) -> None:
        children = [child for name in names if (child := self._children.pop(name, None)) is not None]
        for child in children:
            child.terminate()
        for _ in range(round(_STOP_S / _POLL_S)):
            if self._is_interrupted or all(child.poll() is not None for child in children):
                return
            time.sleep(_POLL_S)

    def _close(self) -> None:
        try:
            self.redis.close()
        finally:
            self._guard.close()

    def _zsched(self, name: str, *arguments: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        """Start a child that has exactly these settings, and finds zsched."""
        command = [sys.executable, "-m", "zsched.cli", *arguments]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
        path = os.pathsep.join(filter(None, [str(_ROOT), inherited.get("PYTHONPATH")]))
        ours = {"PYTHONPATH": path, RQ_PREFIX_VARIABLE: keys_of(self.settings).rq.prefix}
        environment = {**inherited, **ours, FILE_VARIABLE: str(self.redis.folder / _FILE)}
        try:
            with contextlib.ExitStack() as files:
                output = files.enter_context(self._output(name).open("wb")) if self._quiet else sys.stderr.fileno()
                child = self._guard.spawn(command, stdout=stdout or output, stderr=output, env=environment)
        except OSError as error:
            raise ZschedError(f"the {name}: {error}") from error
        self._children[name] = child
        return child

    def _output(self, name: str) -> Path:
        return self.redis.folder / f"{name}.txt"

    def _end_of_log(self, name: str) -> str:
        if not self._quiet:
            return ""
        lines = self._output(name).read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "; its output:\n" + "\n".join(lines)


def _file_of(settings: Settings) -> str:
    """Return *settings* as a configuration file."""
    given = dataclasses.asdict(settings)
    given["urgency"] = given.pop("urgencies")
    del given["redis"]["given_by"]  # no setting
    return "".join(f"{name} = {toml_text(value)}\n" for name, value in _as_toml(given).items())


def _as_toml(value: Any) -> Any:
    """Return *value* as TOML has it: without None, and with lists for tuples."""
    if isinstance(value, Mapping):
        return {name: _as_toml(each) for name, each in value.items() if each is not None}
    return list(value) if isinstance(value, tuple) else value
