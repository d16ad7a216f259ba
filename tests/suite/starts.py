"""
Warm starts: Python commands that tests start come from a fork server with the packages already imported.

A start of a daemon costs 450 ms of CPU, nearly all of it imports; from the fork server it costs 20. Only
``subprocess.Popen`` changes: daemons, workers, ``zsched web`` and command lines start with the pid, pipes, signals and
exit status of any child. Every other command gets a true start, and so does each test with the mark ``true_start``: a
start is a promise, too.
"""

import functools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import rq

import zsched
from tests.suite import forkserver
from tests.waiting import ENDS_S

KINDS: Final = {"zsched.cli": {"zsched"}, "rq.cli": {"rq"}, "uvicorn": {"zsched", "web"}}  # by module
ARGUMENTS: Final = {"web": "web", "worker": "rq"}  # of zsched.cli, with what they import more
PROGRAMS: Final = ("run_daemon(", "zsched.cli import")  # in code after -c that is a daemon or a command line
_READ_AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "RQ_KEY_PREFIX")  # or at an import
_ORIGINAL: Final = subprocess.Popen


class Starter:
    """The fork server of this process, started at its first use, with the environment *env*."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {name: value for name, value in env.items() if name != "PYTHONPATH"}
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[Any] | None = None
        self._owner = 0
        self._turn = threading.Lock()  # of a thread's request and its reply

    def start(self, request: Mapping[str, Any], descriptors: list[int]) -> int:
        """Start a command; return its pid. Raises TimeoutError: the fork server does not answer."""
        with self._turn:
            if self._channel is None or self._owner != os.getpid():  # a worker of the suite has one of its own
                self._launch()
            assert self._channel is not None
            socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
            reply = self._channel.recv(64)
        assert reply, "the fork server of the tests has ended; its error is above"
        return int(reply)

    def close(self) -> None:
        """End the fork server. Its processes are children of this one, and go on."""
        if self._channel is not None and self._process is not None and self._owner == os.getpid():
            self._channel.close()
            self._process.wait()
            self._channel = None

    def is_like_here(self, env: Mapping[str, str]) -> bool:
        """Return True if *env* has what a start or an import reads, as the fork server had it."""
        return _of_start(self._env) == _of_start(env)

    def _launch(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(ENDS_S)
        with theirs:
            command = [sys.executable, forkserver.__file__, str(theirs.fileno())]
            self._process = _ORIGINAL(
                command, env=self._env, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, cwd="/", process_group=0
            )
        self._owner = os.getpid()


class WarmPopen(subprocess.Popen[Any]):
    """``Popen``, which starts what it can from the fork server."""

    starter: Starter
    is_warm = True  # False while a test with the mark true_start runs

    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        _, _, shell, *pipes = rest[:9]
        _, *ids, umask, start_new_session, process_group = rest[9:]
        is_plain = {executable, preexec_fn, *ids} == {None} and (shell, close_fds, umask, process_group) == (
            False, True, -1, -1,
        )  # fmt: skip
        folder = os.path.abspath(os.fsdecode(cwd or "."))
        given = os.environ if env is None else env
        given = {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()}
        kinds = _kinds(args, folder, given) if is_plain and self.is_warm and self.starter.is_like_here(given) else None
        if kinds is None:
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)  # type: ignore[misc]
            return
        p2cread, _, _, c2pwrite, _, errwrite = pipes
        streams = [own if pipe == -1 else pipe for own, pipe in enumerate((p2cread, c2pwrite, errwrite))]
        request = {
            "kinds": kinds,
            "arguments": [os.fsdecode(argument) for argument in args[1:]],
            "env": given,
            "folder": folder,
            "session": start_new_session,
            "pass_fds": list(pass_fds),
        }
        try:
            self.pid = self.starter.start(request, [*streams, *pass_fds])
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def install() -> Starter:
    """Let ``subprocess`` start from a fork server with this environment; return it, to be closed at the end."""
    WarmPopen.starter = Starter(os.environ)
    subprocess.Popen = WarmPopen  # type: ignore[misc]
    return WarmPopen.starter


def _kinds(args: Any, folder: str, env: Mapping[str, str]) -> list[str] | None:
    """Return the kinds of packages that the command needs; None if it gets a true start."""
    if isinstance(args, (str, bytes)) or len(args) < 3 or args[0] != sys.executable or not os.path.isdir(folder):
        return None
    option, word = args[1], os.fsdecode(args[2])
    if not ((option == "-m" and word in KINDS) or (option == "-c" and any(part in word for part in PROGRAMS))):
        return None
    if any(map(_has_other_packages, [folder, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))])):
        return None
    kinds = KINDS.get(word, {"zsched"})
    return sorted(kinds | {kind for argument, kind in ARGUMENTS.items() if argument in args})


def _of_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_START) and name != "PYTHONPATH"}


@functools.cache
def _has_other_packages(place: str) -> bool:
    """Return True if *place* has a zsched or an RQ that is not the one that the fork server imports."""
    found = (Path(place, name) for name in ("zsched", "rq"))
    ours = {Path(module.__file__ or "").resolve().parent for module in (zsched, rq)}
    return any(folder.is_dir() and folder.resolve() not in ours for folder in found)
