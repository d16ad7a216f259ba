"""
A private redis-server for `zsched up`, the benchmark and the tests.

It lives in a temporary folder of its own (mode 0700), listens on a unix socket there and, if asked,
on one loopback port; it shares nothing with a Redis that the machine may run. A :class:`Guard`
holds it, so that neither process nor folder outlives the owner, whatever happens to that one.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from zsched.embedded.binary import ServerBinary, find_server, packaged_server
from zsched.embedded.guard import Guard
from zsched.errors import ZschedError

__all__ = ["EmbeddedRedis", "ServerBinary", "find_server", "packaged_server"]

_PORTS = range(20_000, 30_000)  # below Linux's ephemeral ports: no client takes ours while a restart has it free
_PORT_ATTEMPTS = 20
_PORT_TAKEN = "Address already in use"  # in the log of a server that lost the race for its port
_FOLDER_MAX = 70  # bytes; a unix socket's whole path must stay below 108
_START_S = 20.0  # from start to the first PONG; an append-only file is loaded in this time
_STOP_S = 10.0  # from SIGTERM to exit, then SIGKILL
_POLL_S = 0.01  # between two attempts to connect
_PING_S = 1.0  # for the reply to one PING
_LOG_LINES = 15  # of the server's log that an error repeats


class EmbeddedRedis:
    """
    One private server; as a context manager it runs inside the block and is gone after it.

    Arguments: *tcp* also listens on a free port of 127.0.0.1; *appendonly* keeps the data over
    :meth:`kill` and :meth:`restart` (fsync every second, as Redis does); *config* adds lines of
    redis.conf, each value written as it would stand there; *guard* is an owner's guard to hold the
    server with, otherwise it brings one; *server* is the binary, otherwise :func:`find_server`.

    ``start``, ``stop``, ``kill`` and ``restart`` keep folder, socket, port and data; ``close`` ends
    it for good.
    """

    def __init__(
        self,
        *,
        tcp: bool = False,
        appendonly: bool = False,
        config: Mapping[str, str] | None = None,
        guard: Guard | None = None,
        server: ServerBinary | None = None,
    ) -> None:
        self.server = server or find_server()
        self.port: int | None = None
        self.folder = _short_temporary() / f"zsched-{secrets.token_hex(6)}"
        self.socket_path = self.folder / "redis.sock"
        self._tcp = tcp
        self._guard = guard
        self._own_guard: Guard | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = {
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "loglevel": "warning",
            "daemonize": "no",
            "save": '""',
            "appendonly": "yes" if appendonly else "no",
            "maxmemory-policy": "noeviction",
            f"hash-max-{'listpack' if self.server.release >= (7,) else 'ziplist'}-value": "512",
            **(config or {}),
        }

    @property
    def url(self) -> str:
        """The unix socket, as redis-py's ``from_url`` takes it; database 0."""
        return f"unix://{self.socket_path}?db=0"

    @property
    def tcp_url(self) -> str:
        """The loopback port, database 0. The same after a restart."""
        if self.port is None:
            raise ZschedError("this server has no port: make it with tcp=True and start it")
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """True if the process is there; a suspended one is."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """
        Run the server and return when it answers PING. One that asks for a password may still load its files then.

        A port that someone else took in the moment between choosing and binding is given up for
        another one, at the first start only: later the address is a promise.

        Raises:
            ZschedError: it ended or did not answer in time; the message repeats the end of its log.
        """
        if self.is_running:
            return
        guard = self._furnish()
        for _ in range(_PORT_ATTEMPTS):
            port = (self.port or _free_port()) if self._tcp else 0
            if self._run(guard, port):
                self.port = port or None
                return
            if not self._tcp or self.port is not None or _PORT_TAKEN not in self._log():
                break
        raise ZschedError(f"{self.server.path} ({self.server}) did not start; its log ends:\n{self._log()}")

    def stop(self) -> None:
        """End the server in order, as SIGTERM does; its folder stays."""
        if self._process is None:
            return
        if self.is_running:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        self.kill()

    def kill(self) -> None:
        """End the server as kill -9 does, and return when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Stop it if it runs, and start it again with what its files hold."""
        self.stop()
        self.start()

    def suspend(self) -> None:
        """Stop its clock of execution (SIGSTOP): connections stay, replies don't come."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a suspended server go on (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the server and remove its folder. Idempotent."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._own_guard is not None:
            self._own_guard.close()
            self._own_guard = None

    def __enter__(self) -> EmbeddedRedis:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise ZschedError("the embedded redis-server is not running: start it first")
        return self._process

    def _furnish(self) -> Guard:
        """The guard, after it was told of the folder and the folder was made, in this order."""
        if self._guard is None and self._own_guard is None:
            self._own_guard = Guard()
        guard = self._guard or self._own_guard
        assert guard is not None
        if not self.folder.exists():
            guard.remove_at_end(self.folder)
            self.folder.mkdir(mode=0o700)
        return guard

    def _run(self, guard: Guard, port: int) -> bool:
        """Start the process on *port* (0: none). True when it answers; False when it ended or stayed silent."""
        settings = {**self._settings, "port": str(port)}
        configuration = self.folder / "redis.conf"
        configuration.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        with self._log_path.open("wb") as log:
            command = [str(self.server.path), str(configuration)]
            try:
                self._process = guard.spawn(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)
            except OSError as error:
                raise ZschedError(f"the embedded redis-server: {error}") from error
        left_s = _START_S
        while left_s > 0:
            spent_s = self._ask()
            if spent_s is None:
                return True
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_S)
                break
            left_s -= spent_s + _POLL_S
        self.kill()
        return False

    def _ask(self) -> float | None:
        """PING once, through the socket that only this server can have. None if it is ready, else the seconds lost."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PING_S)
            try:
                connection.connect(str(self.socket_path))
                connection.sendall(b"PING\r\n")
                reply = connection.recv(256)
            except TimeoutError:
                return _PING_S
            except OSError:  # no socket yet, or nobody behind it
                return 0.0
        return None if reply.startswith((b"+PONG", b"-NOAUTH")) else 0.0  # -LOADING: not yet

    @property
    def _log_path(self) -> Path:
        return self.folder / "redis.log"

    def _log(self) -> str:
        """The end of what the server wrote."""
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-_LOG_LINES:])


def _short_temporary() -> Path:
    """The folder for temporary files, or /tmp where its path is too long for a unix socket below it."""
    usual = Path(tempfile.gettempdir()).resolve()
    return usual if len(os.fsencode(usual)) <= _FOLDER_MAX else Path("/tmp")


def _free_port() -> int:
    """A port of 127.0.0.1 that nobody holds at this moment."""
    for port in random.Random().sample(_PORTS, _PORT_ATTEMPTS):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise ZschedError(f"no free port of 127.0.0.1 between {_PORTS.start} and {_PORTS.stop - 1}")
